/* hostile.c: a caller that gives a model nothing which it is not promised.
 *
 * Usage: `hostile model.so inputs outputs`.
 *
 * As call.c, but under the worst conditions that a model must accept.
 * Pages that nobody may access follow inputs and outputs in one run, and precede them in the next.
 * Arena, scratch memory, outputs, stack and vector registers hold other garbage in each run.
 * Every task of a parallel kernel runs twice, in any order, from the memory of the launch.
 * It fails if two tasks write one byte, if a task gives two results, or if two runs do. */
#define _GNU_SOURCE
#include "tvmconv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

enum { MOST_REGIONS = 64, RUNS = 4, DIRTY_STACK = 1 << 16, GARBAGE = 1 << 16, CHUNK = 64 };

typedef struct {
    unsigned char *start;
    size_t bytes;
} region;

/* Memory that tasks share: the arena, scratch memory of the caller's thread, and outputs. */
static region shared[MOST_REGIONS];
static int regions;
static region scratch; /* for all other threads */
static size_t shared_bytes;
static unsigned char *before, *after, *once;
static int32_t *owner;
static uint32_t seed = 1;

static int fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

static uint32_t any(void) {
    seed ^= seed << 13;
    seed ^= seed >> 17;
    return seed ^= seed << 5;
}

/* Numbers of all sizes, infinities and NaN: pieces of one block, as emulated code is slow. */
static void spoil(unsigned char *start, size_t bytes) {
    static unsigned char garbage[2 * GARBAGE];
    if (!garbage[0]) {
        for (size_t i = 0; i < sizeof garbage; ++i) {
            uint32_t byte = any() >> 8;
            garbage[i] = (unsigned char)(byte % 7 ? byte : 0xff);
        }
        garbage[0] = 0xff;
    }
    while (bytes) {
        size_t piece = bytes < GARBAGE ? bytes : GARBAGE;
        memcpy(start, garbage + any() % GARBAGE, piece);
        start += piece, bytes -= piece;
    }
}

static void __attribute__((noinline)) spoil_stack_and_registers(void) {
    unsigned char garbage[DIRTY_STACK];
    spoil(garbage, sizeof garbage);
    __asm__ volatile("" ::"r"(garbage) : "memory");
#ifdef __aarch64__
    /* registers that calls need not keep; the upper parts of scalable ones get values from memory */
    if (!(getauxval(AT_HWCAP) & HWCAP_SVE)) return;
#define SPOIL(n) __asm__ volatile(".arch_extension sve\n ldr z" #n ", [%0, #" #n ", mul vl]" ::"r"(garbage) : "v" #n);
    SPOIL(0) SPOIL(1) SPOIL(2) SPOIL(3) SPOIL(4) SPOIL(5) SPOIL(6) SPOIL(7)
    SPOIL(16) SPOIL(17) SPOIL(18) SPOIL(19) SPOIL(20) SPOIL(21) SPOIL(22) SPOIL(23)
    SPOIL(24) SPOIL(25) SPOIL(26) SPOIL(27) SPOIL(28) SPOIL(29) SPOIL(30) SPOIL(31)
    __asm__ volatile(".arch_extension sve\n ldr p0, [%0]\n ldr p1, [%0, #1, mul vl]\n ldr p2, [%0, #2, mul vl]\n"
                     "ldr p3, [%0, #3, mul vl]" ::"r"(garbage));
#endif
}

/* Copies what tasks share to or from one block. */
static void copy(unsigned char *block, int to_block) {
    for (int i = 0; i < regions; ++i) {
        if (to_block)
            memcpy(block, shared[i].start, shared[i].bytes);
        else
            memcpy(shared[i].start, block, shared[i].bytes);
        block += shared[i].bytes;
    }
}

static int32_t run_alone(unsigned char *result, tvmconv_task task, void *argument, int32_t index) {
    copy(before, 0);
    spoil(scratch.start, scratch.bytes);
    spoil_stack_and_registers();
    int32_t status = task(argument, index);
    copy(result, 1);
    return status;
}

static int32_t run_tasks(void *context, int32_t count, tvmconv_task task, void *argument) {
    static unsigned char *written;
    (void)context;
    if (!written) written = malloc(shared_bytes);
    copy(before, 1);
    memcpy(after, before, shared_bytes);
    memset(owner, 0xff, shared_bytes * sizeof *owner);
    int32_t *order = malloc((size_t)count * sizeof *order);
    for (int32_t i = 0; i < count; ++i) { /* drawn into an order of its own */
        int32_t place = (int32_t)(any() % (uint32_t)(i + 1));
        order[i] = order[place];
        order[place] = i;
    }
    for (int32_t i = 0; i < count; ++i) {
        int32_t index = order[i];
        int32_t status = run_alone(written, task, argument, index);
        if (!status) status = run_alone(once, task, argument, index);
        if (status) return status;
        if (memcmp(written, once, shared_bytes)) {
            fprintf(stderr, "task %d of %d gives two results\n", (int)index, (int)count);
            exit(1);
        }
        for (size_t byte = 0; byte < shared_bytes; ++byte) {
            size_t left = shared_bytes - byte;
            if (byte % CHUNK == 0 && !memcmp(written + byte, before + byte, left < CHUNK ? left : CHUNK)) {
                byte += CHUNK - 1;
                continue;
            }
            if (written[byte] == before[byte]) continue;
            if (owner[byte] >= 0) {
                fprintf(stderr, "tasks %d and %d of %d write byte %zu\n", (int)owner[byte],
                        (int)index, (int)count, byte);
                exit(1);
            }
            owner[byte] = index;
            after[byte] = written[byte];
        }
    }
    copy(after, 0);
    free(order);
    return 0;
}

/* Memory of a tensor between two pages that may not be touched, at the end or at the start. */
static unsigned char *fenced(size_t bytes, int at_end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (bytes + page - 1) / page * page;
    unsigned char *start = mmap(NULL, used + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + page, used, PROT_READ | PROT_WRITE)) return NULL;
    return start + page + (at_end ? used - bytes : 0);
}

static size_t aligned(uint64_t bytes) { return (size_t)((bytes + 63) / 64 * 64); }

static int run_once(const tvmconv_model *model, int number, FILE *given, unsigned char **outputs) {
    static const int threads[] = {64, 2, 5, 1};
    const tvmconv_description *of = model->description;
    const void *inputs[MOST_REGIONS];
    tvmconv_options options = {.size = sizeof options, .threads = threads[number]};
    tvmconv_state *state = NULL;
    char message[512] = "";
    options.parallel_for = run_tasks;
    if (model->create(&options, &state, message, sizeof message)) return fail("create", message);
    size_t slice = aligned(of->workspace_bytes), arena = aligned(of->arena_bytes);
    /* the state is after its memory */
    unsigned char *start = (unsigned char *)state - arena - slice * (size_t)options.threads;
    shared[0] = (region){start, arena + slice};
    scratch = (region){start + arena + slice, slice * (size_t)(options.threads - 1)};
    regions = 1, shared_bytes = arena + slice;
    rewind(given);
    for (int i = 0; i < of->input_count; ++i) {
        size_t bytes = (size_t)of->inputs[i].bytes;
        unsigned char *memory = fenced(bytes, number % 2 == 0);
        if (!memory || fread(memory, 1, bytes, given) != bytes) return fail("inputs", "too short");
        inputs[i] = memory;
    }
    for (int i = 0; i < of->output_count; ++i) {
        size_t bytes = (size_t)of->outputs[i].bytes;
        outputs[i] = fenced(bytes, number % 2 == 0);
        if (!outputs[i]) return fail("outputs", "no memory");
        shared[regions++] = (region){outputs[i], bytes};
        shared_bytes += bytes;
    }
    before = malloc(shared_bytes), after = malloc(shared_bytes), once = malloc(shared_bytes);
    owner = malloc(shared_bytes * sizeof *owner);
    for (int i = 0; i < regions; ++i) spoil(shared[i].start, shared[i].bytes);
    spoil(scratch.start, scratch.bytes);
    spoil_stack_and_registers();
    if (model->run(state, inputs, (void *const *)outputs)) return fail("run", model->message(state));
    model->destroy(state);
    return 0;
}

int main(int count, char **arguments) {
    unsigned char *first[MOST_REGIONS], *again[MOST_REGIONS];
    if (count != 4) return fail("hostile", "expected model.so, inputs and outputs");
    void *library = dlopen(arguments[1], RTLD_NOW);
    const tvmconv_model *model = library ? dlsym(library, "tvmconv_model") : NULL;
    if (!model) return fail("dlopen", dlerror());
    const tvmconv_description *of = model->description;
    FILE *given = fopen(arguments[2], "rb"), *results = fopen(arguments[3], "wb");
    if (!given || !results) return fail("hostile", "no such file");
    if (of->input_count >= MOST_REGIONS || of->output_count >= MOST_REGIONS)
        return fail("hostile", "too many tensors");
    if (run_once(model, 0, given, first)) return 1;
    for (int number = 1; number < RUNS; ++number) {
        if (run_once(model, number, given, again)) return 1;
        for (int i = 0; i < of->output_count; ++i)
            if (memcmp(first[i], again[i], (size_t)of->outputs[i].bytes))
                return fail(of->outputs[i].name, "another result in another run");
    }
    for (int i = 0; i < of->output_count; ++i)
        fwrite(first[i], 1, (size_t)of->outputs[i].bytes, results);
    return fclose(results) ? fail(arguments[3], "cut short") : 0;
}
