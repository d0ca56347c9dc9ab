/* driver.c: a libcuda.so.1 whose GPU is the processor.
 *
 * It offers the functions of NVIDIA's driver that models call (tvmconv/runtime/c/driver.c).
 * Memory is the process's own, filled with NaN when it is given; a launch runs the kernel of that
 * name in kernels.so, which lies in this library's folder: whatever a module holds, it has the
 * kernels of that file. Streams do all at once. It has these variables:
 *
 *     TVMCONV_EMULATED_GPUS         how many GPUs there are: 1, or 0
 *     TVMCONV_EMULATED_CAPABILITY   of the GPU: 90 is 9.0
 *     TVMCONV_EMULATED_MEMORY       of the GPU, in bytes
 *
 * What else a GPU says of itself is that of a small one of Hopper.
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
#include <time.h>

enum { INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, FAILED = 700 };

#define EXPORTED __attribute__((visibility("default")))

typedef struct {
    size_t bytes;
    char *first;
} allocation;

static struct {
    void *library;
    int (*launch)(const char *, const unsigned *, const unsigned *, size_t, void **);
    void (*remember)(void *, size_t);
    void (*forget)(void *);
    const char *(*message)(void);
} kernels;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t used;
static char failure[600];

static long variable(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

EXPORTED int cuInit(unsigned flags) {
    (void)flags;
    return variable("TVMCONV_EMULATED_GPUS", 1) ? 0 : NO_DEVICE;
}

/* Opens what runs kernels, when the first module is loaded. */
static int open_kernels(void) {
    Dl_info here;
    char path[PATH_MAX];
    if (kernels.library) return 0;
    if (!dladdr((void *)&used, &here)) return NOT_FOUND;
    const char *end = strrchr(here.dli_fname, '/');
    int length = end ? (int)(end - here.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*s/kernels.so", length, here.dli_fname);
    kernels.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!kernels.library) return NOT_FOUND;
    *(void **)&kernels.launch = dlsym(kernels.library, "launch");
    *(void **)&kernels.remember = dlsym(kernels.library, "emulation_remember");
    *(void **)&kernels.forget = dlsym(kernels.library, "emulation_forget");
    *(void **)&kernels.message = dlsym(kernels.library, "emulation_message");
    return kernels.launch && kernels.remember && kernels.forget && kernels.message ? 0 : NOT_FOUND;
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

EXPORTED int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)variable("TVMCONV_EMULATED_MEMORY", 1l << 30);
    return 0;
}

EXPORTED int cuDeviceGetAttribute(int *value, int attribute, int device) {
    const int capability = (int)variable("TVMCONV_EMULATED_CAPABILITY", 90);
    const struct {
        int attribute, value;
    } known[] = {
        {13, 1500000},          /* clock rate, kHz */
        {16, 24},               /* multiprocessors */
        {36, 2000000},          /* memory clock rate, kHz */
        {37, 1024},             /* bits of the memory's bus */
        {38, 8 << 20},          /* L2 */
        {39, 2048},             /* threads of a multiprocessor */
        {75, capability / 10},  {76, capability % 10},
        {81, 228 << 10},        /* shared memory of a multiprocessor */
        {82, 65536},            /* registers of it */
        {97, 227 << 10},        /* shared memory that a block may ask for */
        {106, 32},              /* blocks of a multiprocessor */
    };
    (void)device;
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return 0;
        }
    return INVALID;
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

EXPORTED int cuModuleLoadData(void **module, const void *image) {
    /* the first word of every fatbin */
    const uint32_t magic = 0xba55ed50u;
    if (!pushed || memcmp(image, &magic, sizeof magic)) return INVALID;
    *module = &kernels;
    return open_kernels();
}

EXPORTED int cuModuleUnload(void *module) { return module == &kernels ? 0 : INVALID; }

EXPORTED int cuModuleGetFunction(void **function, void *module, const char *name) {
    if (module != &kernels) return INVALID;
    *function = (void *)name; /* a string of the model, which outlives its functions */
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
            allocation *head = (allocation *)(void *)start;
            memset(start, 0xff, size);
            head->bytes = size;
            kernels.remember(start + 256, bytes);
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
    kernels.forget((void *)pointer);
    used -= ((allocation *)(void *)start)->bytes;
    free(start);
    pthread_mutex_unlock(&mutex);
    return 0;
}

EXPORTED int cuMemcpyAsync(uintptr_t target, uintptr_t source, size_t bytes, void *stream) {
    (void)stream;
    if (!pushed) return INVALID;
    memmove((void *)target, (const void *)source, bytes);
    return 0;
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
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    (void)stream;
    if (!pushed || extra || !arguments) return INVALID;
    pthread_mutex_lock(&mutex);
    int failed = kernels.launch(function, grid, block, shared_bytes, arguments);
    if (failed) snprintf(failure, sizeof failure, "%s", kernels.message());
    pthread_mutex_unlock(&mutex);
    return failed ? FAILED : 0;
}
