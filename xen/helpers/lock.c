// SPDX-License-Identifier: GPL-2.0

#include <linux/spinlock.h>

/* For the spin locks of compat.rs. */

unsigned long rust_helper_xen_spin_lock_irqsave(spinlock_t *lock);
unsigned long rust_helper_xen_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void rust_helper_xen_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
void rust_helper_xen_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

bool rust_helper_xen_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags);
bool rust_helper_xen_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}
