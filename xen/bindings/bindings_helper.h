/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Headers that bindgen reads for the crate `xen`. What they declare beyond the
 * kernel crate's own bindings is chosen in bindgen_parameters.
 */

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/hdreg.h>
#include <linux/interrupt.h>
#include <linux/moduleparam.h>
#include <linux/workqueue.h>

#include <xen/events.h>
#include <xen/grant_table.h>
#include <xen/page.h>
#include <xen/platform_pci.h>
#include <xen/xen.h>
#include <xen/xenbus.h>
