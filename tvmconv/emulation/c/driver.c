/* driver.c: a libcuda.so.1 whose GPU is the processor.
 *
 * It offers the functions of NVIDIA's driver that models call (tvmconv/runtime/c/driver.c).
 * Memory is the process's own, filled with NaN when it is given. A module that tvmconv.emulation.nvcc
 * wrote holds its kernels as a shared object behind a mark; of every other one a launch runs the
 * kernel of that name in kernels.so, which lies in this library's folder, whatever it holds.
 * Streams do all at once, or keep it where they are captured. It has these variables:
 *
 *     TVMCONV_EMULATED_GPUS         how many GPUs there are: 1, or 0
 *     TVMCONV_EMULATED_CAPABILITY   of the GPU: 90 is 9.0
 *     TVMCONV_EMULATED_MEMORY       of the GPU, in bytes
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, FAILED = 700 };

#define EXPORTED __attribute__((visibility("default")))

typedef struct allocation {
    size_t bytes, asked;
    struct allocation *next, *before;
} allocation;

static allocation memory = {.next = &memory, .before = &memory};

/* Kernels of one shared object; all that are loaded know all memory. */
typedef struct kernel_library {
    void *library;
    int (*launch)(const char *, const unsigned *, const unsigned *, size_t, void **);
    void (*remember)(void *, size_t);
    void (*forget)(void *);
    const char *(*message)(void);
    struct kernel_library *next;
} kernel_library;

/* A kernel of a module, as handles of functions name it. */
typedef struct {
    kernel_library *library;
    const char *name;
} emulated_kernel;

static kernel_library kernels; /* those of kernels.so; its address is also the context's handle */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t used;
static char failure[600];

static long variable(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static int open_library(kernel_library *found, const char *path) {
    void *library = found->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return NOT_FOUND;
    *(void **)&found->launch = dlsym(library, "launch");
    *(void **)&found->remember = dlsym(library, "emulation_remember");
    *(void **)&found->forget = dlsym(library, "emulation_forget");
    *(void **)&found->message = dlsym(library, "emulation_message");
    return found->launch && found->remember && found->forget && found->message ? 0 : NOT_FOUND;
}

EXPORTED int cuInit(unsigned flags) {
    Dl_info here;
    char path[PATH_MAX];
    (void)flags;
    if (!variable("TVMCONV_EMULATED_GPUS", 1)) return NO_DEVICE;
    if (!dladdr((void *)&used, &here)) return NOT_FOUND;
    const char *end = strrchr(here.dli_fname, '/');
    int length = end ? (int)(end - here.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*s/kernels.so", length, here.dli_fname);
    return kernels.library || access(path, F_OK) ? 0 : open_library(&kernels, path);
}

EXPORTED int cuGetErrorString(int status, const char **text) {
    *text = status == NO_MEMORY   ? "out of memory"
            : status == NO_DEVICE ? "no CUDA-capable device is detected"
            : status == NOT_FOUND ? "named symbol not found"
            : status == FAILED    ? failure
                                  : "invalid argument";
    return 0;
}

EXPORTED int cuDeviceGetCount(int *count) {
    *count = (int)variable("TVMCONV_EMULATED_GPUS", 1);
    return 0;
}

EXPORTED int cuDeviceGet(int *device, int index) {
    *device = index;
    return 0;
}

EXPORTED int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    snprintf(name, (size_t)size, "emulated on the processor");
    return 0;
}

EXPORTED int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int capability = (int)variable("TVMCONV_EMULATED_CAPABILITY", 90);
    (void)device;
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0;
    return 0;
}

EXPORTED int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

EXPORTED int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)variable("TVMCONV_EMULATED_MEMORY", LONG_MAX);
    return 0;
}

EXPORTED int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    *context = &kernels;
    return 0;
}

EXPORTED int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    return 0;
}

/* The context of each thread: calls without one are a fault of the caller. */
static __thread int pushed;

EXPORTED int cuCtxPushCurrent_v2(void *context) {
    if (context != &kernels) return INVALID;
    ++pushed;
    return 0;
}

EXPORTED int cuCtxPopCurrent_v2(void **context) {
    if (context) *context = &kernels;
    return --pushed < 0 ? INVALID : 0;
}

/* The kernels of a shared object that stands in memory. */
static int load_library(kernel_library **result, const char *start, size_t bytes) {
    char path[64];
    kernel_library *found = calloc(1, sizeof *found);
    int file = memfd_create("kernels", 0), status = NO_MEMORY;
    if (found && file >= 0 && write(file, start, bytes) == (ssize_t)bytes) {
        /* it stays open, so that no later one has its name */
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        status = open_library(found, path);
    }
    if (status) {
        free(found);
        return status;
    }
    pthread_mutex_lock(&mutex);
    for (allocation *each = memory.next; each != &memory; each = each->next)
        found->remember((char *)each + 256, each->asked);
    found->next = kernels.next;
    kernels.next = found;
    pthread_mutex_unlock(&mutex);
    *result = found;
    return 0;
}

EXPORTED int cuModuleLoadData(void **module, const void *image) {
    /* the first word of every fatbin; behind it the mark of tvmconv.emulation.nvcc, and the size */
    static const char magic[] = "\x50\xed\x55\xba", mark[] = "tvmconv-emulated";
    const char *text = image;
    uint64_t bytes;
    if (!pushed || memcmp(text, magic, 4)) return INVALID;
    *module = &kernels;
    if (memcmp(text + 4, mark, 16)) return kernels.library ? 0 : NOT_FOUND;
    memcpy(&bytes, text + 20, sizeof bytes);
    return load_library((kernel_library **)module, text + 28, bytes);
}

EXPORTED int cuModuleUnload(void *module) { return module ? 0 : INVALID; }

EXPORTED int cuModuleGetFunction(void **function, void *module, const char *name) {
    emulated_kernel *found = malloc(sizeof *found);
    if (!module || !found) return INVALID;
    found->library = module;
    found->name = name; /* a string of the caller, which outlives its functions */
    *function = found;
    return 0;
}

EXPORTED int cuFuncSetAttribute(void *function, int attribute, int value) {
    return function && attribute == 8 && value > 0 ? 0 : INVALID;
}

EXPORTED int cuMemAlloc_v2(uintptr_t *result, size_t bytes) {
    if (!pushed || !bytes) return INVALID;
    pthread_mutex_lock(&mutex);
    int status = NO_MEMORY;
    size_t size = (bytes + 511) / 256 * 256; /* a block in front holds the size */
    if (used + size <= (size_t)variable("TVMCONV_EMULATED_MEMORY", LONG_MAX)) {
        char *start = aligned_alloc(256, size);
        if (start) {
            memset(start, 0xff, size);
            *(allocation *)(void *)start = (allocation){size, bytes, memory.next, &memory};
            memory.next = memory.next->before = (allocation *)(void *)start;
            for (kernel_library *each = &kernels; each; each = each->next)
                if (each->library) each->remember(start + 256, bytes);
            *result = (uintptr_t)(start + 256);
            used += size;
            status = 0;
        }
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuMemFree_v2(uintptr_t pointer) {
    char *start = (char *)pointer - 256;
    if (!pushed) return INVALID;
    pthread_mutex_lock(&mutex);
    allocation *head = (allocation *)(void *)start;
    for (kernel_library *each = &kernels; each; each = each->next)
        if (each->library) each->forget((void *)pointer);
    head->next->before = head->before;
    head->before->next = head->next;
    used -= head->bytes;
    free(start);
    pthread_mutex_unlock(&mutex);
    return 0;
}

#include "capture.c"

EXPORTED int cuMemcpyAsync(uintptr_t target, uintptr_t source, size_t bytes, void *stream) {
    operation copy = {.kind = COPY, .target = target, .source = source, .bytes = bytes};
    return pushed ? perform(&copy, stream) : INVALID;
}

EXPORTED int cuMemsetD8Async(uintptr_t target, unsigned char value, size_t bytes, void *stream) {
    operation fill = {.kind = FILL, .target = target, .value = value, .bytes = bytes};
    return pushed ? perform(&fill, stream) : INVALID;
}

EXPORTED int cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    return (*stream = malloc(1)) && pushed ? 0 : INVALID;
}

EXPORTED int cuStreamDestroy_v2(void *stream) {
    free(stream);
    return 0;
}

EXPORTED int cuStreamSynchronize(void *stream) {
    (void)stream;
    return pushed ? 0 : INVALID;
}

EXPORTED int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    return (*event = calloc(1, sizeof(struct timespec))) ? 0 : NO_MEMORY;
}

EXPORTED int cuEventRecord(void *event, void *stream) {
    (void)stream;
    return clock_gettime(CLOCK_MONOTONIC, event) ? INVALID : 0;
}

EXPORTED int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    const struct timespec *from = start, *to = end;
    *milliseconds = (float)((double)(to->tv_sec - from->tv_sec) * 1e3 +
                            (double)(to->tv_nsec - from->tv_nsec) * 1e-6);
    return 0;
}

EXPORTED int cuEventDestroy_v2(void *event) {
    free(event);
    return 0;
}

EXPORTED int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, void *stream, void **arguments, void **extra) {
    operation launch = {
        .kind = LAUNCH,
        .kernel = function,
        .grid = {grid_x, grid_y, grid_z},
        .block = {block_x, block_y, block_z},
        .bytes = shared_bytes,
        .arguments = arguments,
    };
    if (!pushed || extra || !arguments) return INVALID;
    return perform(&launch, stream);
}
