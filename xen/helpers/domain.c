// SPDX-License-Identifier: GPL-2.0

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
