/* SPDX-License-Identifier: GPL-2.0 */
/* What is told of packets to Rust code, and by it. */

#ifndef XEN_PV_RUST_NET_H
#define XEN_PV_RUST_NET_H

#include <linux/types.h>

/* What a driver has to know of a packet that it is to send. */
struct xen_skb_view {
	/* Bytes in all, and of them in the head. */
	u32 len;
	u32 head_len;
	/* Fragments that the others are in. */
	u32 frags;
	/* Bytes of data in each packet that it is to be cut into, or 0, and SKB_GSO_*. */
	u32 gso_size;
	u32 gso_type;
	/* Packets that it will have become. */
	u32 gso_segments;
	/* CHECKSUM_* */
	u8 checksum;
	bool has_frag_list;
};

/* Part of a packet within one frame of 4 KiB. */
struct xen_skb_piece {
	unsigned long pfn;
	u32 offset;
	u32 length;
	/* Bytes of the fragment that follow. */
	u32 rest;
};

struct page;
struct sk_buff;
struct xdp_frame;

/* Where in a packet, of which others may be parts. */
struct xen_skb_cursor {
	const struct sk_buff *packet;
	/* The part, or NULL at the end. */
	const struct sk_buff *part;
	/* The fragment of the part, or -1 in its head. */
	int frag;
	u32 position;
};

/* From where to where a packet goes. */
struct xen_skb_flow {
	/* As in the header: 4 bytes each by IPv4. */
	u8 source[16];
	u8 destination[16];
	bool is_v6;
	/* It has a TCP header, with these ports. */
	bool is_tcp;
	u16 source_port;
	u16 destination_port;
};

/* What is known of a packet that was received. */
struct xen_skb_received {
	u16 queue;
	/* The sum over the transport header's packet is still to be made. */
	bool checksum_blank;
	/* It has been looked at. */
	bool checksum_good;
	u16 gso_size;
	/* SKB_GSO_TCPV4, SKB_GSO_TCPV6 or 0. */
	u32 gso_type;
	u32 hash;
	/* PKT_HASH_TYPE_* */
	u8 hash_type;
};

/* Part of a page that has part of a packet. */
struct xen_xdp_piece {
	struct page *page;
	u32 offset;
	u32 length;
};

/* What a program has made of a packet. */
struct xen_xdp_outcome {
	/* XDP_*: XDP_ABORTED also if what the program wanted could not be done. */
	u32 action;
	/* With XDP_TX: it is to be sent, by the caller. */
	struct xdp_frame *frame;
};

/* What became of a packet that was received. */
struct xen_skb_verdict {
	/* 0, or why it was dropped. */
	int error;
	/* The checksum of a packet with GSO was not marked as blank. */
	bool fixed_up;
};

#endif
