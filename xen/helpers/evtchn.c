// SPDX-License-Identifier: GPL-2.0

#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/sched/isolation.h>

void rust_helper_xen_irq_prefer_cpu(unsigned int irq, unsigned int nth);
void rust_helper_xen_irq_prefer_cpu(unsigned int irq, unsigned int nth)
{
	const struct cpumask *willing = housekeeping_cpumask(HK_TYPE_DOMAIN);
	unsigned int count = cpumask_weight_and(willing, cpu_online_mask);
	unsigned int cpu;

	if (!count)
		return;
	cpu = cpumask_nth_and(nth % count, willing, cpu_online_mask);
	/* One may just have gone: then any other will do. */
	if (cpu < nr_cpu_ids)
		irq_set_affinity_and_hint(irq, cpumask_of(cpu));
}

bool rust_helper_xen_irq_use_cpu(unsigned int irq, unsigned int cpu);
bool rust_helper_xen_irq_use_cpu(unsigned int irq, unsigned int cpu)
{
	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return false;
	return irq_set_affinity_and_hint(irq, cpumask_of(cpu)) == 0;
}

unsigned int rust_helper_xen_irq_cpu(unsigned int irq);
unsigned int rust_helper_xen_irq_cpu(unsigned int irq)
{
	struct irq_data *data = irq_get_irq_data(irq);

	return data ? cpumask_first(irq_data_get_effective_affinity_mask(data)) : nr_cpu_ids;
}

void rust_helper_xen_irq_prefer_none(unsigned int irq);
void rust_helper_xen_irq_prefer_none(unsigned int irq)
{
	irq_update_affinity_hint(irq, NULL);
}
