/* count.c: a plugin of qemu's user mode that counts how often each block is executed.
 *
 *     qemu-aarch64 -plugin libcount.so,out=FILE program ...
 *
 * The program says what to count: a call of close() for descriptor MARK + n, which never exists,
 * ends the section before and begins section n; 0 begins none. `all=on` begins section 1 at once.
 * At each end the file grows by what was executed meanwhile:
 *
 *     section 3
 *     block 17 400b2c 4c40a0e5.04010011    once for each block: number, address, instructions
 *     runs 17 4096
 *
 * Counters are no atomic variables: programs of one thread are counted exactly, others nearly.
 * qemu's header is packaged nowhere; these are the declarations of its versions 6.2 to 10. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define MARK 0x74760000
#define BUCKETS (1u << 16)

#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION 1 /* of the interface; qemu 9 and later ask for 2 */
#endif
EXPORTED int qemu_plugin_version = PLUGIN_VERSION;

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
    const char *target_name;
    struct {
        int min, cur;
    } version;
    /* more, which is not needed */
} plugin_info;
typedef void (*translated_cb)(plugin_id, struct qemu_plugin_tb *);
typedef void (*executed_cb)(unsigned int cpu, void *data);
typedef void (*syscall_cb)(plugin_id, unsigned int cpu, int64_t number, uint64_t, uint64_t, uint64_t,
                           uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef void (*exit_cb)(plugin_id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translated_cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed_cb, int flags, void *);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, syscall_cb);
void qemu_plugin_register_atexit_cb(plugin_id, exit_cb, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
/* Returns the instruction and takes one argument, until version 3 of the interface: then it copies
 * and returns how many bytes. Arguments that a function does not take are no harm. */
uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *copy, size_t size);

typedef struct block {
    uint64_t address, runs;
    size_t count; /* instructions */
    char *text;   /* of the instructions, in hexadecimal */
    struct block *next, *older;
    int told, number;
} block;

static block *newest, *table[BUCKETS];
static char *path;
static int section, copies, blocks;
static int64_t close_number;
static pid_t owner;

static void append_instruction(char **end, const struct qemu_plugin_insn *instruction) {
    uint8_t copy[32] = {0};
    size_t size = qemu_plugin_insn_size(instruction);
    uintptr_t given = qemu_plugin_insn_data(instruction, copy, sizeof copy);
    const uint8_t *bytes = copies ? copy : (const uint8_t *)given;
    for (size_t i = 0; i < size; ++i) *end += sprintf(*end, "%02x", bytes[i]);
    *(*end)++ = '.';
}

static void executed(unsigned int cpu, void *data) {
    (void)cpu;
    ((block *)data)->runs++;
}

static void translated(plugin_id id, struct qemu_plugin_tb *code) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(code);
    uint64_t address = qemu_plugin_tb_vaddr(code);
    char *text = malloc(count * 33 + 1), *end = text;
    if (!text) abort();
    for (size_t i = 0; i < count; ++i)
        append_instruction(&end, qemu_plugin_tb_get_insn(code, i));
    *end = '\0';
    block **bucket = &table[(address / 2 ^ address >> 17) % BUCKETS];
    block *known = *bucket;
    /* qemu translates again when its buffer is full */
    while (known && (known->address != address || known->count != count || strcmp(known->text, text)))
        known = known->next;
    if (known) {
        free(text);
    } else {
        known = calloc(1, sizeof *known);
        if (!known) abort();
        *known = (block){.address = address, .count = count, .text = text, .number = blocks++};
        known->next = *bucket;
        known->older = newest;
        *bucket = newest = known;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(code, executed, 0, known);
}

/* Write what was executed since the last call. */
static void end_section(void) {
    /* a process that was forked has the counters of its parent */
    FILE *file = section && getpid() == owner ? fopen(path, "a") : NULL;
    if (file) fprintf(file, "section %d\n", section);
    for (block *b = newest; b; b = b->older) {
        if (file && b->runs) {
            if (!b->told) fprintf(file, "block %d %" PRIx64 " %s\n", b->number, b->address, b->text);
            b->told = 1;
            fprintf(file, "runs %d %" PRIu64 "\n", b->number, b->runs);
        }
        b->runs = 0;
    }
    if (file && fclose(file)) abort();
}

static void called_system(plugin_id id, unsigned int cpu, int64_t number, uint64_t first, uint64_t b,
                          uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)cpu, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number != close_number || (first & 0xffff0000) != MARK) return;
    end_section();
    section = (int)(first & 0xffff);
}

static void ended(plugin_id id, void *data) {
    (void)id, (void)data;
    end_section();
}

EXPORTED int qemu_plugin_install(plugin_id id, const plugin_info *info, int count, char **arguments) {
    copies = info->version.cur >= 3;
    close_number = strcmp(info->target_name, "x86_64") ? 57 : 3;
    owner = getpid();
    for (int i = 0; i < count; ++i) {
        if (!strncmp(arguments[i], "out=", 4)) path = strdup(arguments[i] + 4);
        if (!strcmp(arguments[i], "all=on")) section = 1;
    }
    if (!path) return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called_system);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
