// SPDX-License-Identifier: GPL-2.0

#include <asm/barrier.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
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

/*
 * Whether the page of a frame can be kept from being reused by a reference to
 * it. Slabs and large kmalloc allocations are handed out again regardless.
 */
void rust_helper_xen_get_frame(unsigned long xen_pfn);
void rust_helper_xen_get_frame(unsigned long xen_pfn)
{
	get_page(xen_pfn_to_page(xen_pfn));
}

void rust_helper_xen_put_frame(unsigned long xen_pfn);
void rust_helper_xen_put_frame(unsigned long xen_pfn)
{
	put_page(xen_pfn_to_page(xen_pfn));
}

bool rust_helper_xen_frame_can_be_held(unsigned long xen_pfn);
bool rust_helper_xen_frame_can_be_held(unsigned long xen_pfn)
{
	struct folio *folio = page_folio(xen_pfn_to_page(xen_pfn));

	return !folio_test_slab(folio) && !folio_test_large_kmalloc(folio) &&
	       folio_ref_count(folio) > 0;
}

static unsigned int offset_in_page_of(unsigned long xen_pfn, unsigned int offset)
{
	return (xen_pfn % XEN_PFN_PER_PAGE) * XEN_PAGE_SIZE + offset;
}

void rust_helper_xen_copy_frame(unsigned long to, unsigned long from,
				unsigned int offset, unsigned int length);
void rust_helper_xen_copy_frame(unsigned long to, unsigned long from,
				unsigned int offset, unsigned int length)
{
	memcpy_page(xen_pfn_to_page(to), offset_in_page_of(to, offset),
		    xen_pfn_to_page(from), offset_in_page_of(from, offset),
		    length);
}

void rust_helper_xen_copy_to_frame(unsigned long to, unsigned int offset,
				   const void *from, unsigned int length);
void rust_helper_xen_copy_to_frame(unsigned long to, unsigned int offset,
				   const void *from, unsigned int length)
{
	memcpy_to_page(xen_pfn_to_page(to), offset_in_page_of(to, offset), from,
		       length);
}

void rust_helper_xen_read_frame(void *to, unsigned long from,
				unsigned int offset, unsigned int length);
void rust_helper_xen_read_frame(void *to, unsigned long from,
				unsigned int offset, unsigned int length)
{
	memcpy_from_page(to, xen_pfn_to_page(from),
			 offset_in_page_of(from, offset), length);
}

unsigned int rust_helper_xen_memalloc_noio_save(void);
unsigned int rust_helper_xen_memalloc_noio_save(void)
{
	return memalloc_noio_save();
}

void rust_helper_xen_memalloc_noio_restore(unsigned int flags);
void rust_helper_xen_memalloc_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
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
