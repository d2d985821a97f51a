// SPDX-License-Identifier: GPL-2.0

#include <linux/device.h>
#include <linux/sysfs.h>

void rust_helper_xen_sysfs_attr_init(struct attribute *attr);
void rust_helper_xen_sysfs_attr_init(struct attribute *attr)
{
	sysfs_attr_init(attr);
}

/* A device that has been deleted has no files any more. */
void rust_helper_xen_sysfs_remove_group(struct device *dev, const struct attribute_group *group);
void rust_helper_xen_sysfs_remove_group(struct device *dev, const struct attribute_group *group)
{
	if (device_is_registered(dev))
		sysfs_remove_group(&dev->kobj, group);
}

bool rust_helper_xen_device_is_registered(struct device *dev);
bool rust_helper_xen_device_is_registered(struct device *dev)
{
	return device_is_registered(dev);
}
