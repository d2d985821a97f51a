// SPDX-License-Identifier: GPL-2.0

#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/sched/isolation.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/flow_dissector.h>
#include <net/page_pool/helpers.h>
#include <xen/page.h>

#include "net.h"

struct net_device *rust_helper_xen_net_alloc(unsigned int queues);
struct net_device *rust_helper_xen_net_alloc(unsigned int queues)
{
	struct net_device *dev = alloc_etherdev_mqs(sizeof(void *), queues, queues);

	/* Nobody is told of the address, so that it can change at any time. */
	if (dev)
		dev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	return dev;
}

void rust_helper_xen_net_set_private(struct net_device *dev, void *data);
void rust_helper_xen_net_set_private(struct net_device *dev, void *data)
{
	*(void **)netdev_priv(dev) = data;
}

void *rust_helper_xen_net_private(const struct net_device *dev);
void *rust_helper_xen_net_private(const struct net_device *dev)
{
	return *(void **)netdev_priv(dev);
}

void rust_helper_xen_net_set_parent(struct net_device *dev, struct device *parent);
void rust_helper_xen_net_set_parent(struct net_device *dev, struct device *parent)
{
	SET_NETDEV_DEV(dev, parent);
}

void rust_helper_xen_net_set_features(struct net_device *dev, netdev_features_t features);
void rust_helper_xen_net_set_features(struct net_device *dev, netdev_features_t features)
{
	dev->features = features;
}

bool rust_helper_xen_net_is_new(const struct net_device *dev);
bool rust_helper_xen_net_is_new(const struct net_device *dev)
{
	return dev->reg_state == NETREG_UNINITIALIZED;
}

/* With the lock of rtnl held. */
void rust_helper_xen_net_set_carrier(struct net_device *dev, bool on);
void rust_helper_xen_net_set_carrier(struct net_device *dev, bool on)
{
	if (dev->reg_state > NETREG_REGISTERED)
		return;
	if (on)
		netif_carrier_on(dev);
	else
		netif_carrier_off(dev);
}

bool rust_helper_xen_net_has_carrier(const struct net_device *dev);
bool rust_helper_xen_net_has_carrier(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

/* With the lock of rtnl held, as netdev_notify_peers() takes it. */
void rust_helper_xen_net_notify_peers(struct net_device *dev);
void rust_helper_xen_net_notify_peers(struct net_device *dev)
{
	call_netdevice_notifiers(NETDEV_NOTIFY_PEERS, dev);
	call_netdevice_notifiers(NETDEV_RESEND_IGMP, dev);
}

void rust_helper_xen_net_set_address(struct net_device *dev, const u8 *address);
void rust_helper_xen_net_set_address(struct net_device *dev, const u8 *address)
{
	eth_hw_addr_set(dev, address);
}

/* With the lock of rtnl held. Users are told only of what is another one. */
int rust_helper_xen_net_change_address(struct net_device *dev, const u8 *address);
int rust_helper_xen_net_change_address(struct net_device *dev, const u8 *address)
{
	if (ether_addr_equal(dev->dev_addr, address))
		return 0;
	eth_hw_addr_set(dev, address);
	return call_netdevice_notifiers(NETDEV_CHANGEADDR, dev) == NOTIFY_BAD ? -EPERM : 0;
}

bool rust_helper_xen_net_is_running(const struct net_device *dev);
bool rust_helper_xen_net_is_running(const struct net_device *dev)
{
	return netif_running(dev);
}

const char *rust_helper_xen_net_name(const struct net_device *dev);
const char *rust_helper_xen_net_name(const struct net_device *dev)
{
	return netdev_name(dev);
}

/* A message of Rust's, see rust_fmt_argument(). */
void rust_helper_xen_net_warn(struct net_device *dev, const void *arguments);
void rust_helper_xen_net_warn(struct net_device *dev, const void *arguments)
{
	if (net_ratelimit())
		netdev_warn(dev, "%pA\n", arguments);
}

void rust_helper_xen_net_info(struct net_device *dev, const void *arguments);
void rust_helper_xen_net_info(struct net_device *dev, const void *arguments)
{
	netdev_info(dev, "%pA\n", arguments);
}

/* The queue that the kernel would choose if the driver did not. */
u16 rust_helper_xen_net_pick_queue(struct net_device *dev, struct sk_buff *skb,
				   struct net_device *below);
u16 rust_helper_xen_net_pick_queue(struct net_device *dev, struct sk_buff *skb,
				   struct net_device *below)
{
	return netdev_pick_tx(dev, skb, below) % dev->real_num_tx_queues;
}

unsigned int rust_helper_xen_net_queues(const struct net_device *dev);
unsigned int rust_helper_xen_net_queues(const struct net_device *dev)
{
	return READ_ONCE(dev->real_num_tx_queues);
}

/* With the lock of rtnl held. */
int rust_helper_xen_net_set_queues(struct net_device *dev, unsigned int queues);
int rust_helper_xen_net_set_queues(struct net_device *dev, unsigned int queues)
{
	return netif_set_real_num_queues(dev, queues, queues);
}

/*
 * Has each processor send by one of so many queues. With the lock of rtnl held,
 * and those of the processors free.
 */
int rust_helper_xen_net_spread_queues(struct net_device *dev, unsigned int queues);
int rust_helper_xen_net_spread_queues(struct net_device *dev, unsigned int queues)
{
	unsigned int queue, cpu, nth;
	cpumask_var_t mask;
	int err = 0;

	if (!zalloc_cpumask_var(&mask, GFP_KERNEL))
		return -ENOMEM;
	for (queue = 0; queue < queues && !err; queue++) {
		cpumask_clear(mask);
		nth = 0;
		for_each_cpu_and(cpu, cpu_online_mask, housekeeping_cpumask(HK_TYPE_DOMAIN)) {
			if (nth++ % queues == queue)
				cpumask_set_cpu(cpu, mask);
		}
		err = netif_set_xps_queue(dev, mask, queue);
	}
	free_cpumask_var(mask);
	return err;
}

/* Whether everything is to be received, whoever it is for. */
bool rust_helper_xen_net_wants_all(const struct net_device *dev);
bool rust_helper_xen_net_wants_all(const struct net_device *dev)
{
	return dev->flags & (IFF_PROMISC | IFF_ALLMULTI);
}

/* Copies addresses of a list, as many as there is room for, and says how many there are. */
unsigned int rust_helper_xen_net_addresses(const struct netdev_hw_addr_list *list,
					   u8 (*addresses)[ETH_ALEN], unsigned int room);
unsigned int rust_helper_xen_net_addresses(const struct netdev_hw_addr_list *list,
					   u8 (*addresses)[ETH_ALEN], unsigned int room)
{
	const struct netdev_hw_addr *address;
	unsigned int count = 0;

	netdev_hw_addr_list_for_each(address, list) {
		if (count < room)
			ether_addr_copy(addresses[count], address->addr);
		count++;
	}
	return count;
}

void rust_helper_xen_net_tx_stop(struct net_device *dev, unsigned int queue);
void rust_helper_xen_net_tx_stop(struct net_device *dev, unsigned int queue)
{
	netif_tx_stop_queue(netdev_get_tx_queue(dev, queue));
}

void rust_helper_xen_net_tx_wake(struct net_device *dev, unsigned int queue);
void rust_helper_xen_net_tx_wake(struct net_device *dev, unsigned int queue)
{
	netif_tx_wake_queue(netdev_get_tx_queue(dev, queue));
}

/* Whether the driver or the queue's limit has stopped it. */
bool rust_helper_xen_net_tx_is_stopped(struct net_device *dev, unsigned int queue);
bool rust_helper_xen_net_tx_is_stopped(struct net_device *dev, unsigned int queue)
{
	return netif_xmit_stopped(netdev_get_tx_queue(dev, queue));
}

/* Tells whoever has asked by netlink why something cannot be; `why` is static. */
void rust_helper_xen_net_explain(struct netlink_ext_ack *extack, const char *why);
void rust_helper_xen_net_explain(struct netlink_ext_ack *extack, const char *why)
{
	if (extack)
		extack->_msg = why;
}

bool rust_helper_xen_net_tx_sent(struct net_device *dev, unsigned int queue,
				 unsigned int bytes, bool more);
bool rust_helper_xen_net_tx_sent(struct net_device *dev, unsigned int queue,
				 unsigned int bytes, bool more)
{
	return __netdev_tx_sent_queue(netdev_get_tx_queue(dev, queue), bytes, more);
}

void rust_helper_xen_net_tx_completed(struct net_device *dev, unsigned int queue,
				      unsigned int packets, unsigned int bytes);
void rust_helper_xen_net_tx_completed(struct net_device *dev, unsigned int queue,
				      unsigned int packets, unsigned int bytes)
{
	netdev_tx_completed_queue(netdev_get_tx_queue(dev, queue), packets, bytes);
}

void rust_helper_xen_net_tx_reset(struct net_device *dev, unsigned int queue);
void rust_helper_xen_net_tx_reset(struct net_device *dev, unsigned int queue)
{
	struct netdev_queue *tx_queue = netdev_get_tx_queue(dev, queue);

	netdev_tx_reset_queue(tx_queue);
#ifdef CONFIG_BQL
	/* The limit counts from the packets sent so far, of which there are none: dql_reset() forgets that. */
	tx_queue->dql.adj_limit = tx_queue->dql.limit;
#endif
}

void rust_helper_xen_net_tx_set_least_limit(struct net_device *dev, unsigned int queue,
					    unsigned int bytes);
void rust_helper_xen_net_tx_set_least_limit(struct net_device *dev, unsigned int queue,
					    unsigned int bytes)
{
	netdev_queue_set_dql_min_limit(netdev_get_tx_queue(dev, queue), bytes);
}

/* Nothing is given to the driver any more when this returns. */
void rust_helper_xen_net_tx_disable(struct net_device *dev);
void rust_helper_xen_net_tx_disable(struct net_device *dev)
{
	if (dev->reg_state == NETREG_REGISTERED)
		netif_tx_disable(dev);
}

void rust_helper_xen_net_tx_wake_all(struct net_device *dev);
void rust_helper_xen_net_tx_wake_all(struct net_device *dev)
{
	/* Before, there is nobody to be woken. */
	if (dev->reg_state == NETREG_REGISTERED)
		netif_tx_wake_all_queues(dev);
}

void rust_helper_xen_local_bh_disable(void);
void rust_helper_xen_local_bh_disable(void)
{
	local_bh_disable();
}

void rust_helper_xen_local_bh_enable(void);
void rust_helper_xen_local_bh_enable(void)
{
	local_bh_enable();
}

/* --- NAPI ------------------------------------------------------------------ */

void rust_helper_xen_napi_add(struct net_device *dev, struct napi_struct *napi,
			      int (*poll)(struct napi_struct *, int));
void rust_helper_xen_napi_add(struct net_device *dev, struct napi_struct *napi,
			      int (*poll)(struct napi_struct *, int))
{
	netif_napi_add(dev, napi, poll);
}

/* Pages of a pool may be looking at what is freed next. */
void rust_helper_xen_net_synchronize(void);
void rust_helper_xen_net_synchronize(void)
{
	synchronize_net();
}

void rust_helper_xen_napi_del(struct napi_struct *napi);
void rust_helper_xen_napi_del(struct napi_struct *napi)
{
	netif_napi_del(napi);
}

void rust_helper_xen_napi_schedule(struct napi_struct *napi);
void rust_helper_xen_napi_schedule(struct napi_struct *napi)
{
	napi_schedule(napi);
}

/* With the lock of rtnl held. */
void rust_helper_xen_napi_set_queue(struct net_device *dev, unsigned int queue,
				    struct napi_struct *napi);
void rust_helper_xen_napi_set_queue(struct net_device *dev, unsigned int queue,
				    struct napi_struct *napi)
{
	netif_queue_set_napi(dev, queue, NETDEV_QUEUE_TYPE_RX, napi);
	netif_queue_set_napi(dev, queue, NETDEV_QUEUE_TYPE_TX, napi);
}

u16 rust_helper_xen_skb_queue(const struct sk_buff *skb);
u16 rust_helper_xen_skb_queue(const struct sk_buff *skb)
{
	return skb_get_queue_mapping(skb);
}

/* Whether the packet that is just being sent is followed by another one at once. */
bool rust_helper_xen_net_more(void);
bool rust_helper_xen_net_more(void)
{
	return netdev_xmit_more();
}

/* --- packets to send --------------------------------------------------------- */

void rust_helper_xen_skb_view(const struct sk_buff *skb, struct xen_skb_view *view);
void rust_helper_xen_skb_view(const struct sk_buff *skb, struct xen_skb_view *view)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);

	view->len = skb->len;
	view->head_len = skb_headlen(skb);
	view->frags = shared->nr_frags;
	view->gso_size = shared->gso_size;
	view->gso_type = shared->gso_type;
	view->gso_segments = shared->gso_segs;
	view->checksum = skb->ip_summed;
	view->has_frag_list = skb_has_frag_list(skb);
}

/* Part of a fragment from a position in it, up to the end of a frame. */
bool rust_helper_xen_skb_piece(const struct sk_buff *skb, unsigned int frag,
			       unsigned int position, struct xen_skb_piece *piece);
bool rust_helper_xen_skb_piece(const struct sk_buff *skb, unsigned int frag,
			       unsigned int position, struct xen_skb_piece *piece)
{
	const skb_frag_t *what;
	unsigned long offset;
	struct page *page;

	if (frag >= skb_shinfo(skb)->nr_frags)
		return false;
	what = &skb_shinfo(skb)->frags[frag];
	page = skb_frag_page(what);
	if (!page || position >= skb_frag_size(what))
		return false;
	offset = skb_frag_off(what) + (unsigned long)position;
	piece->pfn = page_to_xen_pfn(page) + offset / XEN_PAGE_SIZE;
	piece->offset = offset % XEN_PAGE_SIZE;
	piece->rest = skb_frag_size(what) - position;
	piece->length = min_t(u32, piece->rest, XEN_PAGE_SIZE - piece->offset);
	piece->rest -= piece->length;
	return true;
}

void rust_helper_xen_skb_start(const struct sk_buff *skb, struct xen_skb_cursor *cursor);
void rust_helper_xen_skb_start(const struct sk_buff *skb, struct xen_skb_cursor *cursor)
{
	cursor->packet = skb;
	cursor->part = skb;
	cursor->frag = -1;
	cursor->position = 0;
}

static void xen_skb_next_frag(struct xen_skb_cursor *cursor)
{
	const struct sk_buff *part = cursor->part;

	cursor->position = 0;
	if (++cursor->frag < skb_shinfo(part)->nr_frags)
		return;
	cursor->frag = -1;
	cursor->part = part == cursor->packet ? skb_shinfo(part)->frag_list : part->next;
}

/* The next bytes of a packet, `most` of them at most, that lie within one frame. */
bool rust_helper_xen_skb_next(struct xen_skb_cursor *cursor, unsigned int most,
			      struct xen_skb_piece *piece);
bool rust_helper_xen_skb_next(struct xen_skb_cursor *cursor, unsigned int most,
			      struct xen_skb_piece *piece)
{
	while (cursor->part) {
		unsigned long offset = cursor->position;
		struct page *page;
		u32 size;

		if (cursor->frag < 0) {
			const void *data = cursor->part->data + offset;

			size = skb_headlen(cursor->part);
			page = virt_to_page(data);
			offset = offset_in_page(data);
		} else {
			const skb_frag_t *frag = &skb_shinfo(cursor->part)->frags[cursor->frag];

			size = skb_frag_size(frag);
			page = skb_frag_page(frag);
			offset += skb_frag_off(frag);
		}
		if (!page)
			return false;
		if (cursor->position < size) {
			piece->pfn = page_to_xen_pfn(page) + offset / XEN_PAGE_SIZE;
			piece->offset = offset % XEN_PAGE_SIZE;
			piece->length = min3(size - cursor->position, most,
					     (u32)XEN_PAGE_SIZE - piece->offset);
			cursor->position += piece->length;
			piece->rest = size - cursor->position;
			if (!piece->rest)
				xen_skb_next_frag(cursor);
			return true;
		}
		xen_skb_next_frag(cursor);
	}
	return false;
}

bool rust_helper_xen_skb_destination(const struct sk_buff *skb, u8 *address);
bool rust_helper_xen_skb_destination(const struct sk_buff *skb, u8 *address)
{
	/* A packet that is sent begins with the Ethernet header. */
	return !skb_copy_bits(skb, 0, address, ETH_ALEN);
}

bool rust_helper_xen_skb_flow(const struct sk_buff *skb, struct xen_skb_flow *flow);
bool rust_helper_xen_skb_flow(const struct sk_buff *skb, struct xen_skb_flow *flow)
{
	struct flow_keys keys;

	if (!skb_flow_dissect_flow_keys(skb, &keys, FLOW_DISSECTOR_F_STOP_AT_ENCAP))
		return false;
	switch (keys.control.addr_type) {
	case FLOW_DISSECTOR_KEY_IPV4_ADDRS:
		memcpy(flow->source, &keys.addrs.v4addrs.src, 4);
		memcpy(flow->destination, &keys.addrs.v4addrs.dst, 4);
		flow->is_v6 = false;
		break;
	case FLOW_DISSECTOR_KEY_IPV6_ADDRS:
		memcpy(flow->source, &keys.addrs.v6addrs.src, 16);
		memcpy(flow->destination, &keys.addrs.v6addrs.dst, 16);
		flow->is_v6 = true;
		break;
	default:
		return false;
	}
	flow->is_tcp = keys.basic.ip_proto == IPPROTO_TCP &&
		       !(keys.control.flags & FLOW_DIS_IS_FRAGMENT);
	flow->source_port = ntohs(keys.ports.src);
	flow->destination_port = ntohs(keys.ports.dst);
	return true;
}

/* Copies bytes from a position on to a frame. */
bool rust_helper_xen_skb_copy_to_frame(const struct sk_buff *skb, unsigned int position,
				       unsigned long pfn, unsigned int offset,
				       unsigned int length);
bool rust_helper_xen_skb_copy_to_frame(const struct sk_buff *skb, unsigned int position,
				       unsigned long pfn, unsigned int offset,
				       unsigned int length)
{
	char *at = kmap_local_page(xen_pfn_to_page(pfn));
	int err;

	err = skb_copy_bits(skb, position, at + offset_in_page_of(pfn, offset), length);
	kunmap_local(at);
	return !err;
}

void rust_helper_xen_skb_tx_timestamp(struct sk_buff *skb);
void rust_helper_xen_skb_tx_timestamp(struct sk_buff *skb)
{
	skb_tx_timestamp(skb);
}

void rust_helper_xen_skb_drop(struct sk_buff *skb);
void rust_helper_xen_skb_drop(struct sk_buff *skb)
{
	dev_kfree_skb_any(skb);
}

void rust_helper_xen_skb_consume(struct sk_buff *skb, int budget);
void rust_helper_xen_skb_consume(struct sk_buff *skb, int budget)
{
	napi_consume_skb(skb, budget);
}

/* --- packets received ---------------------------------------------------------- */

struct sk_buff *rust_helper_xen_skb_alloc(struct napi_struct *napi, unsigned int length);
struct sk_buff *rust_helper_xen_skb_alloc(struct napi_struct *napi, unsigned int length)
{
	struct sk_buff *skb = napi_alloc_skb(napi, length);

	if (skb)
		skb_mark_for_recycle(skb);
	return skb;
}

/* Appends bytes of a frame to the head, which must have room for them. */
void rust_helper_xen_skb_put_frame(struct sk_buff *skb, unsigned long pfn,
				   unsigned int offset, unsigned int length);
void rust_helper_xen_skb_put_frame(struct sk_buff *skb, unsigned long pfn,
				   unsigned int offset, unsigned int length)
{
	memcpy_from_page(skb_put(skb, length), xen_pfn_to_page(pfn),
			 offset_in_page_of(pfn, offset), length);
}

/*
 * Appends the headers of a packet that is in a frame to the head, which must
 * have room for `most` bytes, and says how many bytes they are.
 */
unsigned int rust_helper_xen_skb_put_headers(struct napi_struct *napi, struct sk_buff *skb,
					     unsigned long pfn, unsigned int offset,
					     unsigned int length, unsigned int most);
unsigned int rust_helper_xen_skb_put_headers(struct napi_struct *napi, struct sk_buff *skb,
					     unsigned long pfn, unsigned int offset,
					     unsigned int length, unsigned int most)
{
	char *at = kmap_local_page(xen_pfn_to_page(pfn));
	char *packet = at + offset_in_page_of(pfn, offset);
	unsigned int headers;

	headers = eth_get_headlen(napi->dev, packet, min(length, most));
	skb_put_data(skb, packet, headers);
	kunmap_local(at);
	return headers;
}

/*
 * Makes room for bytes at the end of the head, which must have as much, and says
 * where the first one is. What is there is whatever it was.
 */
unsigned long rust_helper_xen_skb_put_room(struct sk_buff *skb, unsigned int length,
					   unsigned int *offset);
unsigned long rust_helper_xen_skb_put_room(struct sk_buff *skb, unsigned int length,
					   unsigned int *offset)
{
	const void *at = skb_put(skb, length);
	unsigned long within = offset_in_page(at);

	*offset = within % XEN_PAGE_SIZE;
	return page_to_xen_pfn(virt_to_page(at)) + within / XEN_PAGE_SIZE;
}

unsigned int rust_helper_xen_skb_tail_room(const struct sk_buff *skb);
unsigned int rust_helper_xen_skb_tail_room(const struct sk_buff *skb)
{
	return skb_tailroom(skb);
}

/* Adds a page of a page pool. */
bool rust_helper_xen_skb_add_page(struct sk_buff *skb, struct page *page,
				  unsigned int offset, unsigned int length);
bool rust_helper_xen_skb_add_page(struct sk_buff *skb, struct page *page,
				  unsigned int offset, unsigned int length)
{
	unsigned int frags = skb_shinfo(skb)->nr_frags;

	if (frags >= MAX_SKB_FRAGS)
		return false;
	skb_add_rx_frag(skb, frags, page, offset, length, PAGE_SIZE);
	return true;
}

static int finish_checksum(struct sk_buff *skb, struct xen_skb_verdict *verdict)
{
	bool recalculate = false;

	/*
	 * What is to be cut into packets needs a sum that can be completed for each. Some peers
	 * leave that mark out, so it is made anew from the headers.
	 */
	if (skb->ip_summed != CHECKSUM_PARTIAL && skb_is_gso(skb)) {
		verdict->fixed_up = true;
		skb->ip_summed = CHECKSUM_PARTIAL;
		recalculate = true;
	}
	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return 0;
	return skb_checksum_setup(skb, recalculate);
}

/* Whoever limits rates wants to know how many packets it will become. */
static void count_segments(struct sk_buff *skb)
{
	struct skb_shared_info *shared = skb_shinfo(skb);
	unsigned int headers;

	if (!shared->gso_size || !skb_transport_header_was_set(skb) ||
	    !pskb_may_pull(skb, skb_transport_offset(skb) + sizeof(struct tcphdr)))
		return;
	shared = skb_shinfo(skb);
	headers = skb_tcp_all_headers(skb);
	if (headers < skb->len)
		shared->gso_segs = DIV_ROUND_UP(skb->len - headers, shared->gso_size);
}

/* Writes into a packet what is known of it. It is dropped if that cannot be. */
static bool xen_skb_describe(struct napi_struct *napi, struct sk_buff *skb,
			     const struct xen_skb_received *received,
			     struct xen_skb_verdict *verdict)
{
	verdict->error = 0;
	verdict->fixed_up = false;
	if (skb_headlen(skb) < ETH_HLEN) {
		verdict->error = -EINVAL;
		goto drop;
	}
	skb_record_rx_queue(skb, received->queue);
	if (received->checksum_blank)
		skb->ip_summed = CHECKSUM_PARTIAL;
	else if (received->checksum_good)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	if (received->gso_size) {
		skb_shinfo(skb)->gso_size = received->gso_size;
		/* The headers are another domain's word: the stack looks at them again. */
		skb_shinfo(skb)->gso_type = received->gso_type | SKB_GSO_DODGY;
		skb_shinfo(skb)->gso_segs = 0;
	}
	if (received->hash_type)
		skb_set_hash(skb, received->hash, received->hash_type);
	skb->protocol = eth_type_trans(skb, napi->dev);
	skb_reset_network_header(skb);
	verdict->error = finish_checksum(skb, verdict);
	if (verdict->error)
		goto drop;
	count_segments(skb);
	return true;
drop:
	kfree_skb(skb);
	return false;
}

/*
 * Hands a packet to the network stack, whose head has the Ethernet header, or
 * drops it.
 */
void rust_helper_xen_skb_receive(struct napi_struct *napi, struct sk_buff *skb,
				 const struct xen_skb_received *received,
				 struct xen_skb_verdict *verdict);
void rust_helper_xen_skb_receive(struct napi_struct *napi, struct sk_buff *skb,
				 const struct xen_skb_received *received,
				 struct xen_skb_verdict *verdict)
{
	if (xen_skb_describe(napi, skb, received, verdict))
		napi_gro_receive(napi, skb);
}

/* --- page pools ------------------------------------------------------------------ */

struct page_pool *rust_helper_xen_pool_create(struct napi_struct *napi, unsigned int queue,
					      unsigned int pages);
struct page_pool *rust_helper_xen_pool_create(struct napi_struct *napi, unsigned int queue,
					      unsigned int pages)
{
	struct page_pool_params params = {
		.order = 0,
		.pool_size = pages,
		.nid = NUMA_NO_NODE,
		.napi = napi,
		.netdev = napi->dev,
		.queue_idx = queue,
	};

	return page_pool_create(&params);
}

/* Zeroed, as the other domain sees what is in it, unless it was used before. */
struct page *rust_helper_xen_pool_alloc(struct page_pool *pool);
struct page *rust_helper_xen_pool_alloc(struct page_pool *pool)
{
	return page_pool_alloc_pages(pool, GFP_ATOMIC | __GFP_NOWARN | __GFP_ZERO);
}

void rust_helper_xen_pool_put(struct page *page);
void rust_helper_xen_pool_put(struct page *page)
{
	page_pool_put_full_page(pp_page_to_nmdesc(page)->pp, page, false);
}
