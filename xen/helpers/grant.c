// SPDX-License-Identifier: GPL-2.0

#include <linux/mm.h>
#include <xen/grant_table.h>
#include <xen/page.h>

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
