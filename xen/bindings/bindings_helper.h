/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Headers that bindgen reads for the crate `xen`. What they declare beyond the
 * kernel crate's own bindings is chosen in bindgen_parameters.
 */

#include <linux/bio.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/bpf.h>
#include <linux/cdrom.h>
#include <linux/device.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/hdreg.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/moduleparam.h>
#include <linux/netdevice.h>
#include <linux/pagemap.h>
#include <linux/rtnetlink.h>
#include <linux/shrinker.h>
#include <linux/skbuff.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include <net/netdev_queues.h>
#include <net/page_pool/types.h>
#include <net/xdp.h>

#include <xen/events.h>
#include <xen/grant_table.h>
#include <xen/page.h>
#include <xen/platform_pci.h>
#include <xen/xen.h>
#include <xen/xenbus.h>

#include "../helpers/net.h"

/* Macros that bindgen cannot evaluate; the prefix is taken off again. */
#define XEN_CONST(type, name) const type RUST_CONST_HELPER_##name = name

XEN_CONST(blk_features_t, BLK_FEAT_WRITE_CACHE);
XEN_CONST(blk_features_t, BLK_FEAT_FUA);
XEN_CONST(blk_status_t, BLK_STS_RESOURCE);
XEN_CONST(blk_status_t, BLK_STS_IOERR);
XEN_CONST(blk_status_t, BLK_STS_NOTSUPP);
XEN_CONST(blk_opf_t, REQ_FUA);
XEN_CONST(req_flags_t, RQF_DONTPREP);
XEN_CONST(gfp_t, GFP_NOIO);
XEN_CONST(gfp_t, GFP_NOWAIT);
XEN_CONST(gfp_t, __GFP_ZERO);
XEN_CONST(gfp_t, __GFP_NOWARN);
XEN_CONST(size_t, XEN_PAGE_SIZE);
XEN_CONST(blk_mode_t, BLK_OPEN_READ);
XEN_CONST(blk_mode_t, BLK_OPEN_WRITE);
XEN_CONST(blk_opf_t, REQ_PREFLUSH);
XEN_CONST(blk_opf_t, REQ_SYNC);
XEN_CONST(blk_opf_t, REQ_IDLE);
XEN_CONST(u32, ETHTOOL_COALESCE_RX_USECS);
XEN_CONST(u32, ETHTOOL_COALESCE_RX_MAX_FRAMES);
XEN_CONST(u32, ETHTOOL_COALESCE_TX_USECS);
XEN_CONST(u32, ETHTOOL_COALESCE_TX_MAX_FRAMES);
XEN_CONST(u32, ETHTOOL_COALESCE_USE_ADAPTIVE_RX);
XEN_CONST(u32, ETHTOOL_COALESCE_USE_ADAPTIVE_TX);
