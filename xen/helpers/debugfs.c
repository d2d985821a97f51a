// SPDX-License-Identifier: GPL-2.0

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

/* The beginning of what a file shows, see xen/debugfs.rs. */
struct xen_debugfs_shown {
	int (*show)(struct seq_file *file, void *unused);
};

static int xen_debugfs_open(struct inode *inode, struct file *file)
{
	struct xen_debugfs_shown *shown = inode->i_private;

	return single_open(file, shown->show, shown);
}

/* With an owner: the module stays while a file is open, even one that was removed. */
static const struct file_operations xen_debugfs_operations = {
	.owner = THIS_MODULE,
	.open = xen_debugfs_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

struct dentry *rust_helper_xen_debugfs_dir(const char *name);
struct dentry *rust_helper_xen_debugfs_dir(const char *name)
{
	return debugfs_create_dir(name, NULL);
}

struct dentry *rust_helper_xen_debugfs_file(const char *name, struct dentry *dir, void *shown);
struct dentry *rust_helper_xen_debugfs_file(const char *name, struct dentry *dir, void *shown)
{
	return debugfs_create_file(name, 0444, dir, shown, &xen_debugfs_operations);
}

void rust_helper_xen_debugfs_remove(struct dentry *entry);
void rust_helper_xen_debugfs_remove(struct dentry *entry)
{
	debugfs_remove(entry);
}
