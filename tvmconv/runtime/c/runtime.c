/* runtime.c: states, runs and threads, a part of every compiled model.
 *
 * Compiled together with the generated model.c (see program.h). C99 and POSIX, gcc or clang; the
 * other files of this folder are parts of this one, so that nothing but the API is visible. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr, MADV_HUGEPAGE, syscall */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#ifndef TVMCONV_NO_FUTEX
#define TVMCONV_FUTEX
#endif
#endif

#include "program.h"

#define ALIGNMENT 64 /* kernels assume it of activations, constants and scratch memory */
#define HUGE_PAGE (2u << 20)
#define MOST_THREADS 1024

/* The resources of the calling thread. Kernels call parallel_launch and the workspace functions
 * without a parameter for them. */
static __thread struct {
    tvmconv_state *state;
    char *workspace, *workspace_end; /* the part of this thread's slice that is free */
    int32_t inside;                  /* 1: in a part of a parallel kernel */
} current;

/* The C library may allocate a thread's variables at their first use; better now than in a run. */
static void touch_thread_locals(void) {
    (void)*(tvmconv_state *volatile *)&current.state;
}

int64_t tvmconv_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#include "processor.c"
#include "targets.c"
#include "cpus.c"
#include "pool.c"
#include "weights.c"

struct tvmconv_state {
    uint32_t busy; /* as in tvmconv_pool */
    int32_t threads;
    int32_t program; /* the number of the program that calls run */
    const tvmconv_target *target;
    tvmconv_parallel_for parallel_for;
    void *parallel_context;
    tvmconv_pool *pool; /* that the state owns, or NULL */
    char *arena; /* one of arena_bytes for each frame */
    uint64_t arena_bytes;
    char *workspace; /* slices of workspace_bytes, one a thread */
    uint64_t workspace_bytes;
    const char *constants;
    /* only if outputs vary: the extent of each output, and all pointers that a program writes to */
    int64_t *extents;
    void **outputs;
    /* only for any batch: a group of images, and the pointers to all of their tensors; `outputs` has
     * the pointers to outputs */
    tvmconv_frame *frames;
    const void **image_inputs;
    void *mapping, *weights_mapping;
    uint64_t mapped, weights_mapped;
    int32_t short_of_workspace;
    int32_t has_run;
#ifdef TVMCONV_CUDA
    struct tvmconv_gpu_state *gpu;
#endif
    char message[512];
};

#include "shapes.c"

static uint64_t aligned(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/* ---- What kernels call ---- */

typedef struct {
    void *sync;
    int32_t num_task;
} TVMParallelGroupEnv;
typedef int (*kernel_part)(int id, TVMParallelGroupEnv *group, void *closure);

typedef struct {
    tvmconv_state *state;
    kernel_part part;
    void *closure;
    int32_t parts, tasks;
    char *workspace, *workspace_end; /* the launching thread's, for part 0 */
} launch;

static int32_t run_serial_tasks(kernel_part part, void *closure, int32_t tasks) {
    TVMParallelGroupEnv group = {NULL, tasks};
    int32_t status = 0;
    for (int32_t i = 0; i < tasks && !status; ++i) status = part(i, &group, closure);
    return status;
}

static int32_t run_launched_part(void *argument, int32_t index) {
    const launch *job = argument;
    tvmconv_state *state = job->state;
    TVMParallelGroupEnv group = {NULL, job->tasks};
    int32_t status = 0;
    if (index < 0 || index >= job->parts) return -1;
    __typeof__(current) before = current;
    current.state = state;
    current.inside = 1;
    if (index == 0) {
        current.workspace = job->workspace;
        current.workspace_end = job->workspace_end;
    } else {
        current.workspace = state->workspace + (uint64_t)index * state->workspace_bytes;
        current.workspace_end = current.workspace + state->workspace_bytes;
    }
    for (int32_t i = index; i < job->tasks && !status; i += job->parts)
        status = job->part(i, &group, job->closure);
    current = before;
    return status;
}

static int parallel_launch(kernel_part part, void *closure, int num_task) {
    tvmconv_state *state = current.state;
    int32_t threads = state == NULL || current.inside ? 1 : state->threads;
    int32_t tasks = num_task > 0 ? num_task : threads; /* 0: as many as there are threads */
    int32_t parts = tasks < threads ? tasks : threads;
    if (parts < 2) return run_serial_tasks(part, closure, tasks);
    launch job = {state,  part, closure, parts, tasks, current.workspace, current.workspace_end};
    return state->parallel_for(state->parallel_context, parts, run_launched_part, &job);
}

static void *allocate_workspace(int device_type, int device_id, uint64_t bytes, int dtype_code,
                                int dtype_bits) {
    char *result = current.workspace;
    (void)device_type, (void)device_id, (void)dtype_code, (void)dtype_bits;
    if (bytes > (uint64_t)(current.workspace_end - result)) {
        if (current.state) __atomic_store_n(&current.state->short_of_workspace, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    /* slices end on the alignment, so this passes no end */
    current.workspace = result + aligned(bytes, ALIGNMENT);
    return result;
}

/* Blocks are freed in the opposite order of their allocation. */
static int free_workspace(int device_type, int device_id, void *block) {
    (void)device_type, (void)device_id;
    current.workspace = block;
    return 0;
}

/* The objects that TVM generates call through these, and define them weakly. */
#define KERNELS_CALL __attribute__((visibility("hidden")))
extern int (*__TVMBackendParallelLaunch)(kernel_part, void *, int) KERNELS_CALL;
extern void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) KERNELS_CALL;
extern int (*__TVMBackendFreeWorkspace)(int, int, void *) KERNELS_CALL;
int (*__TVMBackendParallelLaunch)(kernel_part, void *, int) = parallel_launch;
void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = allocate_workspace;
int (*__TVMBackendFreeWorkspace)(int, int, void *) = free_workspace;

/* ---- States ---- */

static int32_t refuse(char *message, size_t size, int32_t status, const char *text) {
    snprintf(message, size, "%s", text);
    return status;
}

/* The caller's options, in the form that this model knows. */
static int32_t read_options(const tvmconv_options *given, tvmconv_options *options, char *message,
                            size_t size) {
    memset(options, 0, sizeof *options);
    if (given == NULL) return TVMCONV_OK;
    /* no version will have a kilobyte of options: such a size was never set */
    if (given->size < sizeof given->size + sizeof given->threads || given->size > 1024)
        return refuse(message, size, TVMCONV_INVALID,
                      "options.size is wrong. Set it to sizeof(tvmconv_options).");
    for (uint32_t i = sizeof *options; i < given->size; ++i)
        if (((const char *)given)[i])
            return refuse(message, size, TVMCONV_INVALID,
                          "options has a field that this model, built by an older version, does "
                          "not know. Leave it zero, or build the model again.");
    memcpy(options, given, given->size < sizeof *options ? given->size : sizeof *options);
    if (options->threads < 0 || options->threads > MOST_THREADS)
        return refuse(message, size, TVMCONV_INVALID, "options.threads is not from 0 to 1024");
    if (options->cuda_graph < -1 || options->cuda_graph > 1)
        return refuse(message, size, TVMCONV_INVALID, "options.cuda_graph is not -1, 0 or 1");
    if (options->gpu < 0 || options->gpu > INT32_MAX)
        return refuse(message, size, TVMCONV_INVALID, "options.gpu is not the number of a GPU, from 0");
    if (options->gpu && tvmconv_this_description.device == 0)
        return refuse(message, size, TVMCONV_INVALID,
                      "options.gpu names a GPU, and this model runs on the CPU");
    return TVMCONV_OK;
}

static int32_t count_threads(const tvmconv_options *options, int32_t built_for) {
    int32_t wanted = options->threads ? options->threads : built_for;
    /* polling threads that share a CPU wait for each other; a caller knows his own */
    int32_t allowed = options->parallel_for && options->threads ? wanted : allowed_cpus();
    return wanted < 1 ? 1 : wanted < allowed ? wanted : allowed;
}

#ifdef TVMCONV_CUDA
#include "cuda.c"
#else
#include "cpu.c"
#endif

/* The most images that a state computes at a time; each has an arena. */
static int32_t group_size(const tvmconv_description *model, int32_t threads) {
    const int32_t least = 8;
    if (model->batched == NULL) return 1;
    return (least + threads - 1) / threads * threads;
}

/* One mapping for arenas, scratch memory and the state itself, enough for each program. Where outputs
 * vary, it holds for each output an extent, a pointer to it, and a pointer to the output. For any batch,
 * it holds a frame and pointers for each image of a group. `needed` is its size, even if it fails. */
static tvmconv_state *map_state(const tvmconv_description *model, int32_t threads, uint64_t *needed) {
    uint64_t arena = 0, slice = 0, varying = 0;
    for (int32_t i = 0; i < model->program_count; ++i) {
        const tvmconv_description *program = model->programs[i];
        uint64_t bytes = aligned(host_arena_bytes(program), ALIGNMENT);
        if (bytes > arena) arena = bytes;
        bytes = aligned(program->workspace_bytes, ALIGNMENT);
        if (bytes > slice) slice = bytes;
        if (program->varying_axes) varying = (uint64_t)program->output_count;
    }
    uint64_t own = aligned(sizeof(tvmconv_state), ALIGNMENT);
    uint64_t images = (uint64_t)group_size(model, threads), arenas = images * arena;
    uint64_t tensors = (uint64_t)model->input_count + (uint64_t)model->output_count;
    uint64_t all = arenas + (uint64_t)threads * slice + own +
                   varying * (sizeof(int64_t) + 2 * sizeof(void *));
    if (images > 1) all += images * (sizeof(tvmconv_frame) + tensors * sizeof(void *));
    uint64_t room = all < HUGE_PAGE ? 0 : HUGE_PAGE;
    /* one fault for a last huge page that is half used, not hundreds for what is used of it */
    if (room && all % HUGE_PAGE >= HUGE_PAGE / 2) all = aligned(all, HUGE_PAGE);
    *needed = all + room;
    if (all + room > SIZE_MAX) return NULL;
    char *mapping = mmap(NULL, (size_t)(all + room), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return NULL;
    char *start = mapping;
    if (room) {
        start = (char *)aligned((uintptr_t)mapping, HUGE_PAGE);
#ifdef MADV_HUGEPAGE
        /* fewer faults in the first run, fewer misses of the page table in all */
        madvise(start, (size_t)all, MADV_HUGEPAGE);
#endif
    }
    tvmconv_state *state = (tvmconv_state *)(void *)(start + arenas + (uint64_t)threads * slice);
    state->mapping = mapping;
    state->mapped = all + room;
    state->arena = start;
    state->arena_bytes = arena;
    state->workspace = start + arenas;
    state->workspace_bytes = slice;
    state->threads = threads;
    state->extents = (int64_t *)(void *)((char *)state + own);
    state->outputs = (void **)(void *)(state->extents + varying);
    if (images > 1) {
        state->frames = (tvmconv_frame *)(void *)((char *)state + own);
        state->outputs = (void **)(void *)(state->frames + images);
        state->image_inputs =
            (const void **)(void *)(state->outputs + images * (uint64_t)model->output_count);
    }
    return state;
}

void tvmconv_destroy(tvmconv_state *state) {
    if (state == NULL) return;
    close_device(state);
    tvmconv_pool_destroy(state->pool);
    if (state->weights_mapping) munmap(state->weights_mapping, (size_t)state->weights_mapped);
    munmap(state->mapping, (size_t)state->mapped);
}

int32_t tvmconv_create(const tvmconv_options *given, tvmconv_state **result, char *message,
                       size_t size) {
    const tvmconv_program *program = &tvmconv_this_program;
    const tvmconv_target *target = NULL;
    tvmconv_options options;
    char unread[8];
    if (message == NULL || size == 0) message = unread, size = sizeof unread;
    message[0] = '\0';
    if (result == NULL)
        return refuse(message, size, TVMCONV_INVALID, "the pointer to the state is NULL");
    *result = NULL;
    int32_t status = read_options(given, &options, message, size);
    if (status) return status;
    message_text lacking = {message, size, 0};
    if ((status = select_target(options.target, &target, &lacking))) return status;
    const tvmconv_description *model = target->description;
    if (threads_variable() < 0)
        return refuse(message, size, TVMCONV_INVALID,
                      "the environment variable TVMCONV_NUM_THREADS is not a number of threads. "
                      "Expected a whole number from 1. Set one, or unset the variable");

    uint64_t needed;
    tvmconv_state *state = map_state(model, count_threads(&options, model->threads), &needed);
    if (state == NULL) {
        snprintf(message, size, "the system gave no memory for %llu bytes of activations and workspace",
                 (unsigned long long)needed);
        return TVMCONV_MEMORY;
    }
    state->target = target;
    status = find_constants(program, &options, &state->constants, &state->weights_mapping,
                            &state->weights_mapped, message, size);
    if (!status) status = open_device(state, &options, message, size);
    prepare_for_forks();
    touch_thread_locals();
    state->parallel_for = options.parallel_for;
    state->parallel_context = options.parallel_context;
    if (!status && state->threads > 1 && state->parallel_for == NULL) {
        state->parallel_for = tvmconv_pool_parallel_for;
        status = tvmconv_pool_create(state->threads, &state->pool);
        state->parallel_context = state->pool;
        if (status)
            snprintf(message, size, "the system gave no %d threads: %s", (int)state->threads,
                     strerror(errno));
    }
    if (status) {
        tvmconv_destroy(state);
        return status;
    }
    give_back(&state->busy);
    *result = state;
    return TVMCONV_OK;
}

/* ---- Runs ---- */

static const uint8_t element_bytes[] = {/* tvmconv_dtype */
                                        4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8,
                                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static int32_t check_pointers(tvmconv_state *state, const char *kind, const void *const *pointers,
                              const tvmconv_tensor *tensors, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        const char *fault = pointers == NULL || pointers[i] == NULL ? "is NULL"
                            : (uintptr_t)pointers[i] % element_bytes[tensors[i].dtype]
                                ? "is not aligned to its elements"
                                : NULL;
        if (fault == NULL) continue;
        snprintf(state->message, sizeof state->message, "%s %d, %s, %s", kind, (int)i,
                 tensors[i].name, fault);
        return TVMCONV_INVALID;
    }
    return TVMCONV_OK;
}

static int32_t report_failure(tvmconv_state *state, const tvmconv_frame *frame, int32_t status) {
    const tvmconv_description *model = program_of(state);
    const int32_t failed = frame->failed;
    if (frame->refused) {
        snprintf(state->message, sizeof state->message, "%s", frame->refused);
        return TVMCONV_DATA;
    }
    const char *fault = device_fault(status);
    if (fault && failed < 0) { /* before the first layer or after the last */
        snprintf(state->message, sizeof state->message, "the run failed: %s", fault);
        return TVMCONV_FAILED;
    }
    const tvmconv_layer *layer = &model->layers[failed];
    if (fault)
        snprintf(state->message, sizeof state->message, "layer %d, %s %s, failed: %s", (int)failed,
                 layer->operation, layer->name, fault);
    else if (__atomic_exchange_n(&state->short_of_workspace, 0, __ATOMIC_RELAXED))
        snprintf(state->message, sizeof state->message,
                 "layer %d, %s %s, wants more scratch memory than the %llu bytes it was built with",
                 (int)failed, layer->operation, layer->name,
                 (unsigned long long)model->workspace_bytes);
    else
        snprintf(state->message, sizeof state->message, "layer %d, %s %s, failed: %s returned %d",
                 (int)failed, layer->operation, layer->name, layer->kernel, (int)status);
    return TVMCONV_FAILED;
}

/* Enters constants that are mapped from a file into the page table at once, which is quicker than
 * thousands of faults. Not in create: a model that is loaded to be described reads none. */
static void map_constants(tvmconv_state *state) {
    state->has_run = 1;
#ifdef __linux__
    static uint32_t linked_are_mapped;
    const int populate_read = 22; /* MADV_POPULATE_READ; before Linux 5.14 nothing happens */
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uint64_t all[][2] = {{0, tvmconv_this_description.weight_bytes}, {0, 0}};
    const uint64_t(*part)[2] = state->target->constants ? state->target->constants : all;
    int linked = state->constants == tvmconv_this_program.constants;
    if (!state->constants || (linked ? __atomic_exchange_n(&linked_are_mapped, 1, __ATOMIC_RELAXED)
                                     : state->weights_mapping == NULL))
        return;
    for (; (*part)[1]; ++part) {
        uintptr_t start = (uintptr_t)state->constants + (uintptr_t)(*part)[0];
        uintptr_t end = (uintptr_t)state->constants + (uintptr_t)(*part)[1];
        start -= start % page;
#ifdef MADV_HUGEPAGE
        /* where the file is cached in huge pages, or not yet, as tvmconv's own saving leaves it */
        madvise((void *)start, end - start, MADV_HUGEPAGE);
#endif
        madvise((void *)start, end - start, populate_read);
    }
#endif
}

/* The caller's outputs, and after them the extents of varying outputs. */
static void *const *with_extents(tvmconv_state *state, void *const *outputs) {
    const tvmconv_description *model = program_of(state);
    int32_t count = model->output_count;
    if (model->varying_axes == NULL) return outputs;
    memcpy(state->outputs, outputs, (size_t)count * sizeof *outputs);
    void **next = state->outputs + count;
    for (int32_t i = 0; i < count; ++i)
        if (model->varying_axes[i] >= 0) *next++ = &state->extents[i];
    return state->outputs;
}

static int32_t check_operands(tvmconv_state *state, const void *const *inputs,
                              void *const *outputs) {
    const tvmconv_description *model = program_of(state);
    int32_t status = check_pointers(state, "input", inputs, model->inputs, model->input_count);
    if (status) return status;
    return check_pointers(state, "output", (const void *const *)outputs, model->outputs,
                          model->output_count);
}

/* Runs the program on all threads of the state. */
static int32_t run_frame(tvmconv_state *state, tvmconv_frame *frame) {
    __typeof__(current) before = current;
    current.state = state;
    current.inside = 0;
    current.workspace = state->workspace;
    current.workspace_end = state->workspace + state->workspace_bytes;
    int32_t status = run_program(state, frame);
    current = before;
    return status;
}

/* One call of what `frame` names: inputs, outputs, times, and a stream that it is queued to. */
static int32_t execute(tvmconv_state *state, tvmconv_frame *frame) {
    if (state == NULL) return TVMCONV_INVALID;
    if (!take(&state->busy)) return TVMCONV_BUSY;
    int32_t status = check_operands(state, frame->inputs, frame->outputs);
    if (!status && frame->queued) status = check_queued(state, frame);
    if (!status) {
        if (!state->has_run) map_constants(state);
        frame->outputs = with_extents(state, frame->outputs);
        frame->arena = state->arena;
        frame->constants = (char *)state->constants;
        status = run_frame(state, frame);
        if (status) status = report_failure(state, frame, status);
    }
    give_back(&state->busy);
    return status;
}

int32_t tvmconv_run(tvmconv_state *state, const void *const *inputs, void *const *outputs) {
    tvmconv_frame frame = {.inputs = inputs, .outputs = outputs};
    return execute(state, &frame);
}

int32_t tvmconv_enqueue(tvmconv_state *state, void *stream, const void *const *inputs,
                        void *const *outputs) {
    tvmconv_frame frame = {.inputs = inputs, .outputs = outputs, .queued = 1, .stream = stream};
    return execute(state, &frame);
}

int32_t tvmconv_profile(tvmconv_state *state, const void *const *inputs, void *const *outputs,
                        int64_t *nanoseconds) {
    if (state == NULL) return TVMCONV_INVALID;
    int32_t layers = program_of(state)->layer_count;
    if (nanoseconds == NULL && layers > 0) return TVMCONV_INVALID;
    for (int32_t i = 0; i < layers; ++i) nanoseconds[i] = 0;
    tvmconv_frame frame = {.inputs = inputs, .outputs = outputs, .times = nanoseconds};
    frame.last = tvmconv_now();
    return execute(state, &frame);
}

#include "batch.c"

const char *tvmconv_message(const tvmconv_state *state) { return state ? state->message : ""; }

int32_t tvmconv_threads(const tvmconv_state *state) { return state ? state->threads : 0; }

#include "queue.c"

/* C does not allow a variable and a type of the same name, hence the label. */
#define STRING_OF(text) #text
#define STRING(text) STRING_OF(text)
extern const tvmconv_model this_model __asm__(STRING(__USER_LABEL_PREFIX__) "tvmconv_model")
    __attribute__((visibility("default")));
const tvmconv_model this_model = TVMCONV_MODEL;

#include "ffi.c"
