// SPDX-License-Identifier: GPL-2.0

#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/task.h>

struct task_struct *rust_helper_xen_kthread_create(int (*function)(void *), void *data,
						   const char *name);
struct task_struct *rust_helper_xen_kthread_create(int (*function)(void *), void *data,
						   const char *name)
{
	struct task_struct *task = kthread_create(function, data, "%s", name);

	if (!IS_ERR(task))
		get_task_struct(task);
	return task;
}

void rust_helper_xen_put_task_struct(struct task_struct *task);
void rust_helper_xen_put_task_struct(struct task_struct *task)
{
	put_task_struct(task);
}

void rust_helper_xen_set_freezable(void);
void rust_helper_xen_set_freezable(void)
{
	set_freezable();
}

/*
 * Sleeps until woken, unless a word is set by then, or the thread is to stop and
 * does not know yet: whoever sets the word must wake this thread afterwards.
 */
void rust_helper_xen_sleep_unless(const int *word, bool stopping, long timeout);
void rust_helper_xen_sleep_unless(const int *word, bool stopping, long timeout)
{
	/* A thread that is told to stop has a signal pending, so that it could not sleep interruptibly. */
	set_current_state(TASK_IDLE | TASK_FREEZABLE);
	if (!READ_ONCE(*word) && (stopping || !kthread_should_stop()))
		schedule_timeout(timeout);
	__set_current_state(TASK_RUNNING);
	try_to_freeze();
}

void rust_helper_xen_cond_resched(void);
void rust_helper_xen_cond_resched(void)
{
	cond_resched();
}

bool rust_helper_xen_need_resched(void);
bool rust_helper_xen_need_resched(void)
{
	return need_resched();
}

void rust_helper_xen_cpu_relax(void);
void rust_helper_xen_cpu_relax(void)
{
	cpu_relax();
}
