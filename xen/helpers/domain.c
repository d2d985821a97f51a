// SPDX-License-Identifier: GPL-2.0

#include <linux/cpumask.h>
#include <linux/device.h>
#include <xen/platform_pci.h>
#include <xen/xen.h>

bool rust_helper_xen_domain(void);
bool rust_helper_xen_domain(void)
{
	return xen_domain();
}

bool rust_helper_xen_hvm_domain(void);
bool rust_helper_xen_hvm_domain(void)
{
	return xen_hvm_domain();
}

bool rust_helper_xen_device_trylock(struct device *dev);
bool rust_helper_xen_device_trylock(struct device *dev)
{
	return device_trylock(dev);
}

void rust_helper_xen_device_unlock(struct device *dev);
void rust_helper_xen_device_unlock(struct device *dev)
{
	device_unlock(dev);
}

unsigned int rust_helper_xen_online_cpus(void);
unsigned int rust_helper_xen_online_cpus(void)
{
	return num_online_cpus();
}
