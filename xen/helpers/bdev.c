// SPDX-License-Identifier: GPL-2.0

#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/pagemap.h>

sector_t rust_helper_xen_bdev_sectors(struct block_device *bdev);
sector_t rust_helper_xen_bdev_sectors(struct block_device *bdev)
{
	return bdev_nr_sectors(bdev);
}

unsigned int rust_helper_xen_bdev_logical_block_size(struct block_device *bdev);
unsigned int rust_helper_xen_bdev_logical_block_size(struct block_device *bdev)
{
	return bdev_logical_block_size(bdev);
}

unsigned int rust_helper_xen_bdev_physical_block_size(struct block_device *bdev);
unsigned int rust_helper_xen_bdev_physical_block_size(struct block_device *bdev)
{
	return bdev_physical_block_size(bdev);
}

bool rust_helper_xen_bdev_write_cache(struct block_device *bdev);
bool rust_helper_xen_bdev_write_cache(struct block_device *bdev)
{
	return bdev_write_cache(bdev);
}

bool rust_helper_xen_bdev_read_only(struct block_device *bdev);
bool rust_helper_xen_bdev_read_only(struct block_device *bdev)
{
	return bdev_read_only(bdev);
}

bool rust_helper_xen_bdev_is_cdrom(struct block_device *bdev);
bool rust_helper_xen_bdev_is_cdrom(struct block_device *bdev)
{
	return disk_to_cdi(bdev->bd_disk);
}

bool rust_helper_xen_bdev_is_removable(struct block_device *bdev);
bool rust_helper_xen_bdev_is_removable(struct block_device *bdev)
{
	return bdev->bd_disk->flags & GENHD_FL_REMOVABLE;
}

unsigned int rust_helper_xen_bdev_max_discard_sectors(struct block_device *bdev);
unsigned int rust_helper_xen_bdev_max_discard_sectors(struct block_device *bdev)
{
	return bdev_max_discard_sectors(bdev);
}

unsigned int rust_helper_xen_bdev_discard_granularity(struct block_device *bdev);
unsigned int rust_helper_xen_bdev_discard_granularity(struct block_device *bdev)
{
	return bdev_discard_granularity(bdev);
}

unsigned int rust_helper_xen_bdev_max_secure_erase_sectors(struct block_device *bdev);
unsigned int rust_helper_xen_bdev_max_secure_erase_sectors(struct block_device *bdev)
{
	return bdev_max_secure_erase_sectors(bdev);
}

/*
 * Writes out what this domain has cached of the device, and forgets the rest, but
 * for pages that are in use: a file system that is mounted here keeps some.
 */
int rust_helper_xen_bdev_drop_cache(struct block_device *bdev);
int rust_helper_xen_bdev_drop_cache(struct block_device *bdev)
{
	int err = sync_blockdev(bdev);

	invalidate_inode_pages2(bdev->bd_mapping);
	return err;
}
