// SPDX-License-Identifier: GPL-2.0

#include <linux/mm.h>
#include <xen/grant_table.h>
#include <xen/page.h>

#include <asm/xen/hypercall.h>

static phys_addr_t address_of(struct page *page)
{
	return (unsigned long)pfn_to_kaddr(page_to_pfn(page));
}

void rust_helper_xen_set_map_op(struct gnttab_map_grant_ref *op, struct page *page,
				u32 flags, grant_ref_t ref, domid_t domain);
void rust_helper_xen_set_map_op(struct gnttab_map_grant_ref *op, struct page *page,
				u32 flags, grant_ref_t ref, domid_t domain)
{
	gnttab_set_map_op(op, address_of(page), flags, ref, domain);
}

void rust_helper_xen_set_unmap_op(struct gnttab_unmap_grant_ref *op, struct page *page,
				  u32 flags, grant_handle_t handle);
void rust_helper_xen_set_unmap_op(struct gnttab_unmap_grant_ref *op, struct page *page,
				  u32 flags, grant_handle_t handle)
{
	gnttab_set_unmap_op(op, address_of(page), flags, handle);
}

static void set_copy_grant(struct gnttab_copy_ptr *side, grant_ref_t ref, domid_t domain)
{
	side->u.ref = ref;
	side->domid = domain;
}

static void set_copy_own(struct gnttab_copy_ptr *side, unsigned long xen_pfn)
{
	side->u.gmfn = pfn_to_gfn(xen_pfn);
	side->domid = DOMID_SELF;
}

void rust_helper_xen_set_copy_op(struct gnttab_copy *op, grant_ref_t ref, domid_t domain,
				 unsigned long xen_pfn, bool to_grant, u16 offset, u16 length);
void rust_helper_xen_set_copy_op(struct gnttab_copy *op, grant_ref_t ref, domid_t domain,
				 unsigned long xen_pfn, bool to_grant, u16 offset, u16 length)
{
	if (to_grant) {
		set_copy_own(&op->source, xen_pfn);
		set_copy_grant(&op->dest, ref, domain);
		op->flags = GNTCOPY_dest_gref;
	} else {
		set_copy_grant(&op->source, ref, domain);
		set_copy_own(&op->dest, xen_pfn);
		op->flags = GNTCOPY_source_gref;
	}
	op->source.offset = offset;
	op->dest.offset = offset;
	op->len = length;
	op->status = 1; /* arbitrary positive value */
}

/* Whether somebody besides the owner has a reference to the page. */
bool rust_helper_xen_page_is_shared(struct page *page);
bool rust_helper_xen_page_is_shared(struct page *page)
{
	return page_count(page) > 1;
}

/* From a frame of another domain to one of this domain's. */
void rust_helper_xen_set_import_op(struct gnttab_copy *op, grant_ref_t ref, domid_t domain,
				   u16 from, unsigned long xen_pfn, u16 to, u16 length);
void rust_helper_xen_set_import_op(struct gnttab_copy *op, grant_ref_t ref, domid_t domain,
				   u16 from, unsigned long xen_pfn, u16 to, u16 length)
{
	set_copy_grant(&op->source, ref, domain);
	op->source.offset = from;
	set_copy_own(&op->dest, xen_pfn);
	op->dest.offset = to;
	op->len = length;
	op->flags = GNTCOPY_source_gref;
	op->status = 1; /* arbitrary positive value */
}

/* The other way; the source may be mapped from a third domain, whose grant it then is. */
void rust_helper_xen_set_export_op(struct gnttab_copy *op, unsigned long xen_pfn, u16 from,
				   grant_ref_t ref, domid_t domain, u16 to, u16 length);
void rust_helper_xen_set_export_op(struct gnttab_copy *op, unsigned long xen_pfn, u16 from,
				   grant_ref_t ref, domid_t domain, u16 to, u16 length)
{
	struct page *page = xen_pfn_to_page(xen_pfn);
	/* File systems use the same mark for something else. */
	struct xen_page_foreign *foreign = page->mapping ? NULL : xen_page_foreign(page);

	op->flags = GNTCOPY_dest_gref;
	if (foreign) {
		set_copy_grant(&op->source, foreign->gref, foreign->domid);
		op->flags |= GNTCOPY_source_gref;
	} else {
		set_copy_own(&op->source, xen_pfn);
	}
	op->source.offset = from;
	set_copy_grant(&op->dest, ref, domain);
	op->dest.offset = to;
	op->len = length;
	op->status = 1; /* arbitrary positive value */
}

/*
 * Without gnttab_batch_copy()'s patience for paged-out frames, which sleeps.
 * If Xen refuses all of it, the statuses stay what they were: not 0.
 */
void rust_helper_xen_copy_at_once(struct gnttab_copy *ops, unsigned int count);
void rust_helper_xen_copy_at_once(struct gnttab_copy *ops, unsigned int count)
{
	(void)HYPERVISOR_grant_table_op(GNTTABOP_copy, ops, count);
}
