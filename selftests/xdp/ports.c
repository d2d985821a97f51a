// SPDX-License-Identifier: GPL-2.0
/*
 * What becomes of a UDP datagram over IPv4 depends on the port that it is sent to; everything else
 * is passed on. There is a program for packets in one piece (section "xdp") and one for packets in
 * several ("xdp.frags").
 */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#define SECTION(name) __attribute__((section(name), used))

/* Ports. */
#define DROPPED		7001
#define SENT_BACK	7002
#define REDIRECTED	7003
#define ABORTED		7004
/* To be rewritten to the next one. */
#define REWRITTEN	7005
/* The packet grows and shrinks at its head. */
#define MOVED		7007
/* There is no such action. */
#define UNKNOWN		7008

/* Farther than its head can be moved from where it was. */
#define TOO_FAR		1024
#define FAR		128

static long (*const redirect)(__u32 interface, __u64 flags) = (void *)BPF_FUNC_redirect;
static long (*const adjust_head)(struct xdp_md *packet, int bytes) =
	(void *)BPF_FUNC_xdp_adjust_head;

static __always_inline __u16 swapped(__u16 value)
{
	return __builtin_bswap16(value);
}

/* Back to where it has come from. The sums stay the same. */
static __always_inline void turn(struct ethhdr *frame, struct iphdr *packet,
				 struct udphdr *datagram)
{
	__u8 address[ETH_ALEN];
	__u32 source = packet->saddr;
	__u16 port = datagram->source;

	__builtin_memcpy(address, frame->h_source, ETH_ALEN);
	__builtin_memcpy(frame->h_source, frame->h_dest, ETH_ALEN);
	__builtin_memcpy(frame->h_dest, address, ETH_ALEN);
	packet->saddr = packet->daddr;
	packet->daddr = source;
	datagram->source = datagram->dest;
	datagram->dest = port;
}

/* To the next port. The sum is changed as whoever takes it to be complete does. */
static __always_inline void rewrite(struct udphdr *datagram)
{
	__u32 sum = (__u16)~datagram->check;

	sum += (__u16)~datagram->dest;
	datagram->dest = swapped(REWRITTEN + 1);
	sum += datagram->dest;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	datagram->check = ~sum;
}

static __always_inline int decide(struct xdp_md *context)
{
	void *data = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	struct ethhdr *frame = data;
	struct iphdr *packet = (void *)(frame + 1);
	struct udphdr *datagram = (void *)(packet + 1);

	if ((void *)(datagram + 1) > end || frame->h_proto != swapped(ETH_P_IP) ||
	    packet->protocol != IPPROTO_UDP || packet->ihl != 5 ||
	    packet->frag_off & swapped(0x3fff))
		return XDP_PASS;
	switch (swapped(datagram->dest)) {
	case DROPPED:
		return XDP_DROP;
	case SENT_BACK:
		turn(frame, packet, datagram);
		return XDP_TX;
	case REDIRECTED:
		turn(frame, packet, datagram);
		return redirect(context->ingress_ifindex, 0);
	case ABORTED:
		return XDP_ABORTED;
	case REWRITTEN:
		rewrite(datagram);
		return XDP_PASS;
	case MOVED:
		if (!adjust_head(context, -TOO_FAR) || adjust_head(context, -FAR) ||
		    adjust_head(context, FAR))
			return XDP_ABORTED;
		return XDP_PASS;
	case UNKNOWN:
		return 100;
	}
	return XDP_PASS;
}

SECTION("xdp") int one_piece(struct xdp_md *context)
{
	return decide(context);
}

SECTION("xdp.frags") int several_pieces(struct xdp_md *context)
{
	return decide(context);
}

SECTION("license") char terms[] = "GPL";
