// SPDX-License-Identifier: GPL-2.0

#include <linux/bpf.h>
#include <linux/bpf_trace.h>
#include <linux/filter.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/flow_dissector.h>
#include <net/gso.h>
#include <net/page_pool/helpers.h>
#include <net/xdp.h>

/* A packet's first piece lies in a frame of the other domain's. */
#define XEN_XDP_FRAME_SIZE XEN_PAGE_SIZE
#define XEN_XDP_ROOM                                                                           \
	(XEN_XDP_FRAME_SIZE - XDP_PACKET_HEADROOM -                                            \
	 SKB_DATA_ALIGN(sizeof(struct skb_shared_info)))

/* Bytes of a packet that has one piece only. */
unsigned int rust_helper_xen_xdp_room(void);
unsigned int rust_helper_xen_xdp_room(void)
{
	return XEN_XDP_ROOM;
}

/* --- programs ---------------------------------------------------------------- */

/* With the lock of rtnl held: puts a program in the place of another one. */
struct bpf_prog *rust_helper_xen_xdp_exchange(struct bpf_prog **slot, struct bpf_prog *program);
struct bpf_prog *rust_helper_xen_xdp_exchange(struct bpf_prog **slot, struct bpf_prog *program)
{
	return xchg(slot, program);
}

/* With softirqs disabled, or the lock of rtnl held. */
struct bpf_prog *rust_helper_xen_xdp_program(struct bpf_prog *const *slot);
struct bpf_prog *rust_helper_xen_xdp_program(struct bpf_prog *const *slot)
{
	return READ_ONCE(*slot);
}

bool rust_helper_xen_xdp_has_frags(const struct bpf_prog *program);
bool rust_helper_xen_xdp_has_frags(const struct bpf_prog *program)
{
	return program->aux->xdp_has_frags;
}

/* Whether a driver is to use another program, which is `*program` then, or none. */
bool rust_helper_xen_xdp_wants_program(const struct netdev_bpf *command,
				       struct bpf_prog **program);
bool rust_helper_xen_xdp_wants_program(const struct netdev_bpf *command,
				       struct bpf_prog **program)
{
	if (command->command != XDP_SETUP_PROG)
		return false;
	*program = command->prog;
	return true;
}

/* Says why a program cannot be used. */
void rust_helper_xen_xdp_refuse(const struct netdev_bpf *command, const char *why);
void rust_helper_xen_xdp_refuse(const struct netdev_bpf *command, const char *why)
{
	if (command->extack)
		command->extack->_msg = why;
}

/* What interfaces can do whose driver runs programs. Before the interface is registered. */
void rust_helper_xen_xdp_set_features(struct net_device *dev);
void rust_helper_xen_xdp_set_features(struct net_device *dev)
{
	xdp_set_features_flag(dev, NETDEV_XDP_ACT_BASIC | NETDEV_XDP_ACT_REDIRECT |
				   NETDEV_XDP_ACT_NDO_XMIT | NETDEV_XDP_ACT_RX_SG |
				   NETDEV_XDP_ACT_NDO_XMIT_SG);
}

/* --- queues ------------------------------------------------------------------ */

int rust_helper_xen_xdp_register(struct xdp_rxq_info *queue, struct napi_struct *napi,
				 unsigned int index, struct page_pool *pool);
int rust_helper_xen_xdp_register(struct xdp_rxq_info *queue, struct napi_struct *napi,
				 unsigned int index, struct page_pool *pool)
{
	int err = __xdp_rxq_info_reg(queue, napi->dev, index, napi->napi_id, XEN_XDP_FRAME_SIZE);

	if (err)
		return err;
	err = xdp_rxq_info_reg_mem_model(queue, MEM_TYPE_PAGE_POOL, pool);
	if (err)
		xdp_rxq_info_unreg(queue);
	return err;
}

/* --- packets for programs ---------------------------------------------------- */

/* The sum of a packet from a position on, which is in its first piece. */
static __wsum xen_xdp_sum(const struct xdp_buff *buff, unsigned int start)
{
	unsigned int length = buff->data_end - buff->data - start;
	const struct skb_shared_info *shared;
	__wsum sum = csum_partial(buff->data + start, length, 0);
	unsigned int i;

	if (!xdp_buff_has_frags(buff))
		return sum;
	shared = xdp_get_shared_info_from_buff(buff);
	for (i = 0; i < shared->nr_frags; i++) {
		const skb_frag_t *frag = &shared->frags[i];
		unsigned int size = skb_frag_size(frag);

		sum = csum_block_add(sum, csum_partial(skb_frag_address(frag), size, 0), length);
		length += size;
	}
	return sum;
}

/*
 * Completes the sum of a packet. Whoever gets it from a program has no way to be told that this is
 * still to be done.
 */
static int xen_xdp_complete(struct net_device *dev, struct xdp_buff *buff)
{
	unsigned int length = buff->data_end - buff->data;
	const struct ethhdr *header = buff->data;
	struct flow_keys_basic keys;
	unsigned int start, place;
	__sum16 sum;

	if (!skb_flow_dissect_flow_keys_basic(dev_net(dev), NULL, &keys, buff->data,
					      header->h_proto, sizeof(*header), length,
					      FLOW_DISSECTOR_F_STOP_AT_ENCAP) ||
	    keys.control.flags & FLOW_DIS_IS_FRAGMENT)
		return -EPROTO;
	start = keys.control.thoff;
	switch (keys.basic.ip_proto) {
	case IPPROTO_TCP:
		place = start + offsetof(struct tcphdr, check);
		break;
	case IPPROTO_UDP:
		place = start + offsetof(struct udphdr, check);
		break;
	default:
		return -EPROTO;
	}
	if (place + sizeof(sum) > length)
		return -EPROTO;
	sum = csum_fold(xen_xdp_sum(buff, start)) ?: CSUM_MANGLED_0;
	memcpy(buff->data + place, &sum, sizeof(sum));
	return 0;
}

/* A packet of one piece that lies in a page, in front of which there must be some room. */
static void xen_xdp_prepare(struct xdp_buff *buff, struct xdp_rxq_info *queue, void *page,
			    unsigned int offset, unsigned int length)
{
	if (offset < XDP_PACKET_HEADROOM ||
	    offset + length > XDP_PACKET_HEADROOM + XEN_XDP_ROOM) {
		memmove(page + XDP_PACKET_HEADROOM, page + offset, length);
		offset = XDP_PACKET_HEADROOM;
	}
	xdp_init_buff(buff, XEN_XDP_FRAME_SIZE, queue);
	xdp_prepare_buff(buff, page, offset, length, true);
}

/* Copies a packet into pages of a pool. */
static int xen_xdp_copy(struct xdp_buff *buff, struct xdp_rxq_info *queue,
			struct page_pool *pool, const struct sk_buff *skb)
{
	unsigned int position = min_t(unsigned int, skb->len, XEN_XDP_ROOM);
	struct page *page = rust_helper_xen_pool_alloc(pool);
	unsigned int length;

	if (!page)
		return -ENOMEM;
	xdp_init_buff(buff, XEN_XDP_FRAME_SIZE, queue);
	xdp_prepare_buff(buff, page_address(page), XDP_PACKET_HEADROOM, position, true);
	if (skb_copy_bits(skb, 0, buff->data, position))
		goto undo;
	for (; position < skb->len; position += length) {
		length = min_t(unsigned int, skb->len - position, PAGE_SIZE);
		page = rust_helper_xen_pool_alloc(pool);
		if (!page)
			goto undo;
		if (skb_copy_bits(skb, position, page_address(page), length) ||
		    !xdp_buff_add_frag(buff, page_to_netmem(page), 0, length, PAGE_SIZE)) {
			page_pool_put_full_page(pool, page, true);
			goto undo;
		}
	}
	return 0;
undo:
	xdp_return_buff(buff);
	return -ENOMEM;
}

static void xen_xdp_pass(struct xdp_buff *buff, struct napi_struct *napi,
			 const struct xen_skb_received *received,
			 struct xen_xdp_outcome *outcome)
{
	struct sk_buff *skb = xdp_build_skb_from_buff(buff);

	if (!skb) {
		xdp_return_buff(buff);
		outcome->action = XDP_ABORTED;
		return;
	}
	/* One that was to be made has been made. */
	if (received->checksum_good || received->checksum_blank)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	if (received->hash_type)
		skb_set_hash(skb, received->hash, received->hash_type);
	napi_gro_receive(napi, skb);
}

/* Does with a packet what the program wants, if there is one. The packet is given up. */
static void xen_xdp_act(struct bpf_prog *program, struct xdp_buff *buff,
			struct napi_struct *napi, const struct xen_skb_received *received,
			struct xen_xdp_outcome *outcome)
{
	struct net_device *dev = napi->dev;
	u32 action = program ? bpf_prog_run_xdp(program, buff) : XDP_PASS;

	outcome->action = action;
	outcome->frame = NULL;
	switch (action) {
	case XDP_PASS:
		xen_xdp_pass(buff, napi, received, outcome);
		return;
	case XDP_TX:
		outcome->frame = xdp_convert_buff_to_frame(buff);
		if (outcome->frame)
			return;
		break;
	case XDP_REDIRECT:
		if (!xdp_do_redirect(dev, buff, program))
			return;
		break;
	case XDP_DROP:
		xdp_return_buff(buff);
		return;
	case XDP_ABORTED:
		break;
	default:
		bpf_warn_invalid_xdp_action(dev, program, action);
		break;
	}
	trace_xdp_exception(dev, program, action);
	xdp_return_buff(buff);
	outcome->action = XDP_ABORTED;
}

/* Completes a packet's sum if need be, and runs a program on it. The packet is given up. */
static int xen_xdp_run(struct bpf_prog *program, struct xdp_buff *buff, struct napi_struct *napi,
		       const struct xen_skb_received *received, struct xen_xdp_outcome *outcome)
{
	int err = received->checksum_blank ? xen_xdp_complete(napi->dev, buff) : 0;

	if (err)
		xdp_return_buff(buff);
	else
		xen_xdp_act(program, buff, napi, received, outcome);
	return err;
}

/*
 * Runs a program on a packet that lies in part of a page of a pool, which is given up. The part is
 * no longer than xen_xdp_room().
 */
int rust_helper_xen_xdp_run_page(struct bpf_prog *program, struct xdp_rxq_info *queue,
				 struct napi_struct *napi, struct page *page,
				 unsigned int offset, unsigned int length,
				 const struct xen_skb_received *received,
				 struct xen_xdp_outcome *outcome);
int rust_helper_xen_xdp_run_page(struct bpf_prog *program, struct xdp_rxq_info *queue,
				 struct napi_struct *napi, struct page *page,
				 unsigned int offset, unsigned int length,
				 const struct xen_skb_received *received,
				 struct xen_xdp_outcome *outcome)
{
	struct xdp_buff buff;

	xen_xdp_prepare(&buff, queue, page_address(page), offset, length);
	return xen_xdp_run(program, &buff, napi, received, outcome);
}

/*
 * Runs a program that knows packets of several pieces on one that lies in parts of pages of a pool,
 * which are given up. What fits into the first piece is copied there, since the backend has filled
 * the first page to its end, where the other pieces are to be written down.
 */
int rust_helper_xen_xdp_run_pieces(struct bpf_prog *program, struct xdp_rxq_info *queue,
				   struct napi_struct *napi, struct page_pool *pool,
				   const struct xen_xdp_piece *pieces, unsigned int count,
				   const struct xen_skb_received *received,
				   struct xen_xdp_outcome *outcome);
int rust_helper_xen_xdp_run_pieces(struct bpf_prog *program, struct xdp_rxq_info *queue,
				   struct napi_struct *napi, struct page_pool *pool,
				   const struct xen_xdp_piece *pieces, unsigned int count,
				   const struct xen_skb_received *received,
				   struct xen_xdp_outcome *outcome)
{
	struct page *page = rust_helper_xen_pool_alloc(pool);
	struct xdp_buff buff;
	unsigned int i = 0;

	if (!page)
		goto drop_rest;
	xdp_init_buff(&buff, XEN_XDP_FRAME_SIZE, queue);
	xdp_prepare_buff(&buff, page_address(page), XDP_PACKET_HEADROOM, 0, true);
	for (; i < count; i++) {
		unsigned int offset = pieces[i].offset, length = pieces[i].length, copied = 0;

		page = pieces[i].page;
		if (!i) {
			copied = min_t(unsigned int, length, XEN_XDP_ROOM);
			memcpy(buff.data, page_address(page) + offset, copied);
			buff.data_end += copied;
		}
		if (copied == length) {
			page_pool_put_full_page(pool, page, true);
			continue;
		}
		if (!xdp_buff_add_frag(&buff, page_to_netmem(page), offset + copied,
				       length - copied, PAGE_SIZE))
			goto drop;
	}
	return xen_xdp_run(program, &buff, napi, received, outcome);
drop:
	xdp_return_buff(&buff);
drop_rest:
	for (; i < count; i++)
		page_pool_put_full_page(pool, pieces[i].page, true);
	return -ENOMEM;
}

/*
 * Makes packets of one that programs can see: none is to be cut up, and the sums of all are made.
 * They are a list; the packet is given up. With an error there are none.
 */
struct sk_buff *rust_helper_xen_xdp_cut(struct napi_struct *napi, struct sk_buff *skb,
					const struct xen_skb_received *received,
					struct xen_skb_verdict *verdict);
struct sk_buff *rust_helper_xen_xdp_cut(struct napi_struct *napi, struct sk_buff *skb,
					const struct xen_skb_received *received,
					struct xen_skb_verdict *verdict)
{
	struct sk_buff *list = skb;

	if (!xen_skb_describe(napi, skb, received, verdict))
		return NULL;
	__skb_push(skb, skb->data - skb_mac_header(skb));
	if (skb_is_gso(skb)) {
		list = __skb_gso_segment(skb, NETIF_F_SG, false);
		if (IS_ERR_OR_NULL(list)) {
			verdict->error = list ? PTR_ERR(list) : -EINVAL;
			kfree_skb(skb);
			return NULL;
		}
		consume_skb(skb);
	} else if (skb->ip_summed == CHECKSUM_PARTIAL) {
		verdict->error = skb_checksum_help(skb);
		if (verdict->error) {
			kfree_skb(skb);
			return NULL;
		}
	}
	return list;
}

/* Runs a program on a copy of the first packet of a list, which is taken off it. */
int rust_helper_xen_xdp_run_next(struct bpf_prog *program, struct xdp_rxq_info *queue,
				 struct napi_struct *napi, struct page_pool *pool,
				 struct sk_buff **list,
				 const struct xen_skb_received *received,
				 struct xen_xdp_outcome *outcome);
int rust_helper_xen_xdp_run_next(struct bpf_prog *program, struct xdp_rxq_info *queue,
				 struct napi_struct *napi, struct page_pool *pool,
				 struct sk_buff **list,
				 const struct xen_skb_received *received,
				 struct xen_xdp_outcome *outcome)
{
	struct sk_buff *skb = *list;
	struct xdp_buff buff;
	int err = -EMSGSIZE;

	*list = skb->next;
	skb_mark_not_on_list(skb);
	/* The rest would be where a program that knows one piece only does not look. */
	if (skb->len <= XEN_XDP_ROOM || !program || program->aux->xdp_has_frags)
		err = xen_xdp_copy(&buff, queue, pool, skb);
	consume_skb(skb);
	if (!err)
		xen_xdp_act(program, &buff, napi, received, outcome);
	return err;
}

/* The number of this processor, which cannot change: softirqs are disabled. */
unsigned int rust_helper_xen_processor(void);
unsigned int rust_helper_xen_processor(void)
{
	return raw_smp_processor_id();
}

/* --- packets from programs --------------------------------------------------- */

unsigned int rust_helper_xen_xdp_frame_length(const struct xdp_frame *frame);
unsigned int rust_helper_xen_xdp_frame_length(const struct xdp_frame *frame)
{
	return xdp_get_frame_len(frame);
}

/* Copies bytes from a position on to a frame of memory; whether there are as many. */
bool rust_helper_xen_xdp_frame_copy(const struct xdp_frame *frame, unsigned int position,
				    unsigned long pfn, unsigned int offset,
				    unsigned int length);
bool rust_helper_xen_xdp_frame_copy(const struct xdp_frame *frame, unsigned int position,
				    unsigned long pfn, unsigned int offset,
				    unsigned int length)
{
	char *to = page_address(xen_pfn_to_page(pfn)) + offset_in_page_of(pfn, offset);
	const struct skb_shared_info *shared = xdp_get_shared_info_from_frame(frame);
	unsigned int frags = xdp_frame_has_frags(frame) ? shared->nr_frags : 0;
	unsigned int size = frame->len, part, i;
	const void *from = frame->data;

	for (i = 0; length; i++) {
		if (position < size) {
			part = min(size - position, length);
			memcpy(to, from + position, part);
			to += part;
			length -= part;
			position += part;
		}
		if (!length)
			break;
		position -= size;
		if (i == frags)
			return false;
		size = skb_frag_size(&shared->frags[i]);
		from = skb_frag_address(&shared->frags[i]);
	}
	return true;
}
