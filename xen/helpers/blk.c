// SPDX-License-Identifier: GPL-2.0

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/jiffies.h>

void rust_helper_xen_queue_limits_start_update(struct request_queue *q,
						struct queue_limits *lim);
void rust_helper_xen_queue_limits_start_update(struct request_queue *q,
						struct queue_limits *lim)
{
	*lim = queue_limits_start_update(q);
}

unsigned int rust_helper_xen_disk_openers(struct gendisk *disk);
unsigned int rust_helper_xen_disk_openers(struct gendisk *disk)
{
	return disk_openers(disk);
}

sector_t rust_helper_xen_get_capacity(struct gendisk *disk);
sector_t rust_helper_xen_get_capacity(struct gendisk *disk)
{
	return get_capacity(disk);
}

unsigned int rust_helper_xen_rq_timeout_msecs(struct request *rq);
unsigned int rust_helper_xen_rq_timeout_msecs(struct request *rq)
{
	return jiffies_to_msecs(rq->timeout);
}
