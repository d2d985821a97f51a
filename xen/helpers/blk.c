// SPDX-License-Identifier: GPL-2.0

#include <linux/blk-mq.h>
#include <linux/blkdev.h>

struct request *rust_helper_xen_rq_from_pdu(void *pdu);
struct request *rust_helper_xen_rq_from_pdu(void *pdu)
{
	return blk_mq_rq_from_pdu(pdu);
}

void *rust_helper_xen_rq_to_pdu(struct request *rq);
void *rust_helper_xen_rq_to_pdu(struct request *rq)
{
	return blk_mq_rq_to_pdu(rq);
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
