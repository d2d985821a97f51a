// SPDX-License-Identifier: GPL-2.0
/*
 * Non-inline versions of the static inline functions and macros that the crate
 * `xen` needs. One file for each subject; this one makes them one object.
 */

#include "bdev.c"
#include "blk.c"
#include "debugfs.c"
#include "domain.c"
#include "evtchn.c"
#include "grant.c"
#include "lock.c"
#include "page.c"
#include "net.c"
#include "sysfs.c"
#include "thread.c"
#include "xdp.c"
