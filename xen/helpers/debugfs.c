// SPDX-License-Identifier: GPL-2.0

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

/* The beginning of what a file shows, see xen/debugfs.rs. */
struct xen_debugfs_shown {
	int (*show)(struct seq_file *file, void *unused);
	int (*write)(void *shown, const char *text, size_t length);
};

static int xen_debugfs_open(struct inode *inode, struct file *file)
{
	struct xen_debugfs_shown *shown = inode->i_private;

	return single_open(file, shown->show, shown);
}

/* A command that is written at once, as the C drivers take it. */
static ssize_t xen_debugfs_write(struct file *file, const char __user *from, size_t count,
				 loff_t *position)
{
	struct xen_debugfs_shown *shown = ((struct seq_file *)file->private_data)->private;
	char text[32];
	int err;

	if (*position)
		return 0;
	if (count >= sizeof(text))
		return -ENOSPC;
	if (copy_from_user(text, from, count))
		return -EFAULT;
	err = shown->write(shown, text, count);
	return err < 0 ? err : count;
}

/* With an owner: the module stays while a file is open, even one that was removed. */
static const struct file_operations xen_debugfs_operations = {
	.owner = THIS_MODULE,
	.open = xen_debugfs_open,
	.read = seq_read,
	.write = xen_debugfs_write,
	.llseek = seq_lseek,
	.release = single_release,
};

struct dentry *rust_helper_xen_debugfs_dir(const char *name, struct dentry *parent);
struct dentry *rust_helper_xen_debugfs_dir(const char *name, struct dentry *parent)
{
	return debugfs_create_dir(name, parent);
}

struct dentry *rust_helper_xen_debugfs_file(const char *name, umode_t mode, struct dentry *dir,
						void *shown);
struct dentry *rust_helper_xen_debugfs_file(const char *name, umode_t mode, struct dentry *dir,
					    void *shown)
{
	return debugfs_create_file(name, mode, dir, shown, &xen_debugfs_operations);
}

void rust_helper_xen_debugfs_remove(struct dentry *entry);
void rust_helper_xen_debugfs_remove(struct dentry *entry)
{
	debugfs_remove(entry);
}
