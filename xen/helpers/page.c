// SPDX-License-Identifier: GPL-2.0

#include <asm/barrier.h>
#include <linux/mm.h>
#include <xen/page.h>

unsigned long rust_helper_xen_page_to_pfn(struct page *page);
unsigned long rust_helper_xen_page_to_pfn(struct page *page)
{
	return page_to_xen_pfn(page);
}

unsigned long rust_helper_xen_pfn_to_gfn(unsigned long xen_pfn);
unsigned long rust_helper_xen_pfn_to_gfn(unsigned long xen_pfn)
{
	return pfn_to_gfn(xen_pfn);
}

/* Barriers against another domain: real ones even on a uniprocessor kernel. */
void rust_helper_virt_mb(void);
void rust_helper_virt_mb(void)
{
	virt_mb();
}

void rust_helper_virt_rmb(void);
void rust_helper_virt_rmb(void)
{
	virt_rmb();
}

void rust_helper_virt_wmb(void);
void rust_helper_virt_wmb(void)
{
	virt_wmb();
}
