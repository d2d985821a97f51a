// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU that counts what a whole emulated machine executes, hypervisor and domains:
 * instructions by whose they are, and hypercalls of PV domains. Times of an emulated machine
 * tell little; these numbers repeat.
 *
 * Option output=PATH. Each time a CPU executes the marker, a NOP with a displacement that no compiler
 * chooses, a line with the sums so far is added to the file. `bench-mark` executes it.
 *
 * Debian packages no qemu-plugin.h. The declarations follow QEMU's include/qemu/qemu-plugin.h,
 * version 4 of its interface (QEMU 9.1 and later).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_register_info;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
uint64_t qemu_plugin_u64_sum(qemu_plugin_u64 entry);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest, size_t len);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*callback)(qemu_plugin_id_t,
							    struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb,
						       enum qemu_plugin_op op,
						       qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn,
							 enum qemu_plugin_op op,
							 qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*callback)(unsigned int, void *),
					    enum qemu_plugin_cb_flags flags, void *data);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int qemu_plugin_version = 4;
EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

enum { XEN, KERNEL, MODULES, USER, HYPERCALLS, COUNTERS };

static const char *const names[COUNTERS] = { "xen", "kernel", "modules", "user", "hypercalls" };

/* Where the x86-64 kernel has its text and its modules (Documentation/arch/x86/x86_64/mm.rst). */
#define MODULES_START UINT64_C(0xffffffffc0000000)
#define KERNEL_START UINT64_C(0xffffffff80000000)
/* Below it are programs; from here to the kernel runs none but Xen (xen/arch/x86/include/asm/config.h). */
#define USER_END UINT64_C(0x0000800000000000)

static const uint8_t marker[] = { 0x0f, 0x1f, 0x80, 0x78, 0x65, 0x6e, 0x70 };
static const uint8_t syscall_insn[] = { 0x0f, 0x05 };

struct counters {
	uint64_t value[COUNTERS];
};

static struct qemu_plugin_scoreboard *scoreboard;
static FILE *output;

static qemu_plugin_u64 counter(int index)
{
	return (qemu_plugin_u64){ scoreboard, offsetof(struct counters, value) +
						      index * sizeof(uint64_t) };
}

/* A CPU executed the marker. */
static void marked(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (int index = 0; index < COUNTERS; index++)
		fprintf(output, "%s=%" PRIu64 "%c", names[index], qemu_plugin_u64_sum(counter(index)),
			index == COUNTERS - 1 ? '\n' : ' ');
	fflush(output);
}

static int owner(uint64_t address)
{
	if (address >= MODULES_START)
		return MODULES;
	if (address >= KERNEL_START)
		return KERNEL;
	return address >= USER_END ? XEN : USER;
}

/* QEMU has translated a block: has it count its instructions each time it is executed. */
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t number = qemu_plugin_tb_n_insns(tb);
	int whose = owner(qemu_plugin_tb_vaddr(tb));

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
							  counter(whose), number);
	for (size_t index = 0; index < number; index++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, index);
		uint8_t bytes[16];
		size_t length = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));

		if (length == sizeof(marker) && !memcmp(bytes, marker, length))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, QEMU_PLUGIN_CB_NO_REGS,
							       NULL);
		/* A kernel executes SYSCALL only to call Xen. */
		if ((whose == KERNEL || whose == MODULES) && length == sizeof(syscall_insn) &&
		    !memcmp(bytes, syscall_insn, length))
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
				insn, QEMU_PLUGIN_INLINE_ADD_U64, counter(HYPERCALLS), 1);
	}
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	const char *path = NULL;

	(void)info;
	for (int index = 0; index < argc; index++)
		if (!strncmp(argv[index], "output=", 7))
			path = argv[index] + 7;
	if (!path) {
		fprintf(stderr, "count: the option output=PATH is missing\n");
		return -1;
	}
	output = fopen(path, "w");
	if (!output) {
		perror(path);
		return -1;
	}
	scoreboard = qemu_plugin_scoreboard_new(sizeof(struct counters));
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
