// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU that counts what a whole emulated machine executes, hypervisor and domains:
 * instructions by whose they are, and hypercalls of PV domains. Times of an emulated machine
 * tell little; these numbers repeat.
 *
 * Option output=PATH. Each time a CPU executes the marker, a NOP with a displacement that no compiler
 * chooses, a line with the sums so far is added to the file. `bench-mark` executes it.
 *
 * Option profile=PATH: at each marker, what was executed since the last one is added to that file, by address:
 * a line "mark", and for each block of instructions outside of programs its address, the page of the machine's
 * memory that it lies in (domains may have different code at an address), and the number of instructions. This is
 * slow, and right with a single thread only.
 *
 * Debian packages no qemu-plugin.h. The declarations follow QEMU's include/qemu/qemu-plugin.h,
 * version 4 of its interface (QEMU 9.1 and later).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*callback)(unsigned int, void *),
					  enum qemu_plugin_cb_flags flags, void *data);
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

/* Instructions that QEMU translated together. */
struct block {
	struct block *next;
	uint64_t address;
	uintptr_t page;
	uint64_t number;
	uint64_t executed;
};

#define BUCKETS 65536

static struct qemu_plugin_scoreboard *scoreboard;
static FILE *output, *profile;
static struct block *blocks[BUCKETS];

static qemu_plugin_u64 counter(int index)
{
	return (qemu_plugin_u64){ scoreboard, offsetof(struct counters, value) +
						      index * sizeof(uint64_t) };
}

/* The block at an address; a new one if it was never translated. */
static struct block *find_block(uint64_t address, uintptr_t page, uint64_t number)
{
	struct block **bucket = &blocks[(address ^ address >> 16 ^ page) % BUCKETS];
	struct block *block;

	for (block = *bucket; block; block = block->next)
		if (block->address == address && block->page == page && block->number == number)
			return block;
	block = calloc(1, sizeof(*block));
	if (!block)
		abort();
	block->address = address;
	block->page = page;
	block->number = number;
	block->next = *bucket;
	*bucket = block;
	return block;
}

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	block->executed++;
}

static void write_profile(void)
{
	fprintf(profile, "mark\n");
	for (int index = 0; index < BUCKETS; index++)
		for (struct block *block = blocks[index]; block; block = block->next) {
			if (!block->executed)
				continue;
			fprintf(profile, "%" PRIx64 " %" PRIxPTR " %" PRIu64 "\n", block->address,
				block->page, block->executed * block->number);
			block->executed = 0;
		}
	fflush(profile);
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
	if (profile)
		write_profile();
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
	if (profile && whose != USER) {
		struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
		uintptr_t page = (uintptr_t)qemu_plugin_insn_haddr(first) >> 12;

		qemu_plugin_register_vcpu_tb_exec_cb(
			tb, executed, QEMU_PLUGIN_CB_NO_REGS,
			find_block(qemu_plugin_tb_vaddr(tb), page, number));
	}
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

static FILE *open_output(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		perror(path);
	return file;
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int index = 0; index < argc; index++) {
		FILE **file;

		if (!strncmp(argv[index], "output=", 7))
			file = &output;
		else if (!strncmp(argv[index], "profile=", 8))
			file = &profile;
		else
			continue;
		*file = open_output(strchr(argv[index], '=') + 1);
		if (!*file)
			return -1;
	}
	if (!output) {
		fprintf(stderr, "count: the option output=PATH is missing\n");
		return -1;
	}
	scoreboard = qemu_plugin_scoreboard_new(sizeof(struct counters));
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
