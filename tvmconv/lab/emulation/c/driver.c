/* driver.c: a libcuda.so.1 whose GPUs are the processor.
 *
 * It offers the functions of NVIDIA's driver that models (tvmconv/runtime/c/driver.c) and
 * tvmconv's Python call, and refuses what the driver would: handles that are not or no longer
 * valid, calls without a context, copies beyond an allocation, modules without code for the GPU.
 * Memory is the process's own, filled with NaN when it is given. A launch runs the kernel of that
 * name in the shared object that the module holds, where tvmconv.lab.emulation.nvcc made it, and else
 * in kernels.so, which lies in this library's folder, whatever the module holds. Streams do what
 * they are given as late as they may (streams.c). It has these variables:
 *
 *     TVMCONV_EMULATED_GPUS         how many GPUs there are: 1; at most 4
 *     TVMCONV_EMULATED_CAPABILITY   of the GPUs: 90 is 9.0
 *     TVMCONV_EMULATED_MEMORY       of each GPU, in bytes, for all allocations together
 *     TVMCONV_EMULATED_GRAPHS       0: graphs are not instantiated
 *     TVMCONV_EMULATED_LOST         the launch at which the GPU is lost, counted from 1
 *     TVMCONV_EMULATED_CUDA         that the driver knows: 12040 is 12.4
 *
 * As of NVIDIA's driver, CUDA_VISIBLE_DEVICES names those that are shown, here by number alone.
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
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    INVALID = 1,
    NO_MEMORY = 2,
    NOT_STARTED = 3,
    NO_DEVICE = 100,
    BAD_DEVICE = 101,
    BAD_IMAGE = 200,
    NO_CONTEXT = 201,
    NO_BINARY = 209,
    LATER_PTX = 222,
    BAD_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    FAILED = 700,
    LOST = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT = 907
};

#define EXPORTED __attribute__((visibility("default")))
#define MOST_GPUS 4
#define CUDA 13000 /* of nvcc, and by default of the driver */
#define MOST_CONTEXTS 16 /* of a thread's stack */
#define STATIC_SHARED (48 << 10)
#define MOST_SHARED (227 << 10)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int started;
static int sticky; /* of a GPU that is lost: the status of all further calls */
static char failure[600];
static struct {
    long launches, graph_launches, kernels, copies, host_copies;
} counts;

static long variable(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* The GPUs that are shown, those that are named up to the first that there is not; how many. */
static int shown(int places[MOST_GPUS]) {
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    long all = variable("TVMCONV_EMULATED_GPUS", 1);
    int count = 0;
    while (count < MOST_GPUS) {
        char *end = NULL;
        long place = text ? strtol(text, &end, 10) : count;
        if (end == text && text) break;
        if (place < 0 || place >= all) break;
        places[count++] = (int)place;
        if (text && *end != ',') break;
        if (text) text = end + 1;
    }
    return count;
}

static int gpu_count(void) {
    int places[MOST_GPUS];
    return shown(places);
}
static int capability(void) { return (int)variable("TVMCONV_EMULATED_CAPABILITY", 90); }

/* ---- Kernels ---- */

/* A shared object with kernels; all that are open know all memory. */
typedef struct kernel_library {
    void *library;
    int (*launch)(const char *, const unsigned *, const unsigned *, size_t, void **);
    int (*parameters)(const char *);
    void (*remember)(void *, size_t);
    void (*forget)(void *);
    const char *(*message)(void);
    struct kernel_library *next;
} kernel_library;

static kernel_library *libraries, usual; /* those that are open; that of kernels.so */

static int open_library(kernel_library *made, const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return NOT_FOUND;
    *(void **)&made->launch = dlsym(library, "launch");
    *(void **)&made->parameters = dlsym(library, "emulation_parameters");
    *(void **)&made->remember = dlsym(library, "emulation_remember");
    *(void **)&made->forget = dlsym(library, "emulation_forget");
    *(void **)&made->message = dlsym(library, "emulation_message");
    if (!made->launch || !made->parameters || !made->remember || !made->forget || !made->message)
        return NOT_FOUND;
    made->library = library;
    made->next = libraries;
    libraries = made;
    return 0;
}

/* Opens kernels.so, when the first module without kernels of its own is loaded. */
static int open_usual(kernel_library **result) {
    Dl_info here;
    char path[PATH_MAX];
    *result = &usual;
    if (usual.library) return 0;
    if (!dladdr((void *)&started, &here)) return NOT_FOUND;
    const char *end = strrchr(here.dli_fname, '/');
    int length = end ? (int)(end - here.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*s/kernels.so", length, here.dli_fname);
    return open_library(&usual, path);
}

/* Opens the kernels of a module that holds them. */
static int open_own(kernel_library **result, const char *start, size_t bytes) {
    char path[64];
    kernel_library *made = *result = calloc(1, sizeof *made);
    int file = memfd_create("kernels", 0), status = NO_MEMORY;
    if (made && file >= 0 && write(file, start, bytes) == (ssize_t)bytes) {
        /* the file stays open, so that no later one has its name */
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        status = open_library(made, path);
    }
    if (status) free(made);
    return status;
}

/* ---- Handles: what the driver gave and has not taken back ---- */

typedef enum { MODULE, FUNCTION, STREAM, EVENT, GRAPH, EXECUTABLE } kind_of;

typedef struct object {
    kind_of kind;
    struct object *next;
} object;

static object *objects;

static void *give(kind_of kind, size_t size) {
    object *made = calloc(1, size);
    if (!made) return NULL;
    made->kind = kind;
    made->next = objects;
    objects = made;
    return made;
}

/* The object of a handle; NULL where it is none of that kind. */
static void *find(const void *handle, kind_of kind) {
    for (object *each = objects; each; each = each->next)
        if (each == handle) return each->kind == kind ? each : NULL;
    return NULL;
}

static void take_back(void *handle) {
    object **link = &objects;
    while (*link != handle) link = &(*link)->next;
    *link = (*link)->next;
    free(handle);
}

/* ---- Devices and contexts ---- */

static struct context {
    int retained;
} contexts[MOST_GPUS];

static __thread struct {
    struct context *of[MOST_CONTEXTS];
    int depth;
} current;

static int device_of_context(void) {
    return current.depth ? (int)(current.of[current.depth - 1] - contexts) : -1;
}

/* What every call in a context begins with: `status` where there is none, or the GPU is lost. */
#define IN_CONTEXT                                                                                 \
    do {                                                                                           \
        if (sticky) return sticky;                                                                 \
        if (device_of_context() < 0) return NO_CONTEXT;                                            \
    } while (0)

EXPORTED int cuInit(unsigned flags) {
    if (flags) return INVALID;
    if (gpu_count() < 1) return NO_DEVICE;
    started = 1;
    return 0;
}

EXPORTED int cuGetErrorString(int status, const char **text) {
    switch (status) {
    case INVALID: *text = "invalid argument"; return 0;
    case NO_MEMORY: *text = "out of memory"; return 0;
    case NOT_STARTED: *text = "initialization error"; return 0;
    case NO_DEVICE: *text = "no CUDA-capable device is detected"; return 0;
    case BAD_DEVICE: *text = "invalid device ordinal"; return 0;
    case BAD_IMAGE: *text = "device kernel image is invalid"; return 0;
    case NO_CONTEXT: *text = "invalid device context"; return 0;
    case NO_BINARY: *text = "no kernel image is available for execution on the device"; return 0;
    case LATER_PTX:
        *text = "the provided PTX was compiled with an unsupported toolchain.";
        return 0;
    case BAD_HANDLE: *text = "invalid resource handle"; return 0;
    case NOT_FOUND: *text = "named symbol not found"; return 0;
    case NOT_READY: *text = "device not ready"; return 0;
    case FAILED: *text = failure; return 0;
    case LOST: *text = "unspecified launch failure"; return 0;
    case NOT_SUPPORTED: *text = "operation not supported"; return 0;
    case CAPTURE_UNSUPPORTED: *text = "operation not permitted when stream is capturing"; return 0;
    case CAPTURE_INVALIDATED:
        *text = "operation failed due to a previous error during capture";
        return 0;
    case CAPTURE_ISOLATION:
        *text = "dependency created on uncaptured work in another stream";
        return 0;
    case CAPTURED_EVENT:
        *text = "operation not permitted on an event last recorded in a capturing stream";
        return 0;
    }
    *text = NULL;
    return INVALID;
}

/* The names are not known: the number in place of each. */
EXPORTED int cuGetErrorName(int status, const char **text) {
    static __thread char name[32];
    snprintf(name, sizeof name, "CUDA error %d", status);
    *text = name;
    return 0;
}

EXPORTED int cuDeviceGetCount(int *count) {
    if (!started) return NOT_STARTED;
    *count = gpu_count();
    return 0;
}

EXPORTED int cuDeviceGet(int *device, int index) {
    if (!started) return NOT_STARTED;
    *device = index;
    return index >= 0 && index < gpu_count() ? 0 : BAD_DEVICE;
}

EXPORTED int cuDeviceGetName(char *name, int size, int device) {
    if (device < 0 || device >= gpu_count()) return BAD_DEVICE;
    snprintf(name, (size_t)size, "emulated on the processor");
    return 0;
}

EXPORTED int cuDeviceGetPCIBusId(char *text, int size, int device) {
    int places[MOST_GPUS];
    if (device < 0 || device >= shown(places)) return BAD_DEVICE;
    snprintf(text, (size_t)size, "0000:%02x:00.0", places[device] + 1);
    return 0;
}

EXPORTED int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (device < 0 || device >= gpu_count()) return BAD_DEVICE;
    *bytes = (size_t)variable("TVMCONV_EMULATED_MEMORY", 1l << 30);
    return 0;
}

EXPORTED int cuDriverGetVersion(int *version) {
    *version = (int)variable("TVMCONV_EMULATED_CUDA", CUDA);
    return 0;
}

EXPORTED int cuDeviceGetAttribute(int *value, int attribute, int device) {
    const struct {
        int attribute, value;
    } known[] = {
        {13, 1500000}, /* clock rate, kHz */
        {16, 6},       /* multiprocessors */
        {36, 2000000}, /* memory clock rate, kHz */
        {37, 1024},    /* bits of the memory's bus */
        {38, 1 << 20}, /* L2 */
        {39, 2048},    /* threads of a multiprocessor */
        {75, capability() / 10},
        {76, capability() % 10},
        {81, 228 << 10},   /* shared memory of a multiprocessor */
        {82, 65536},       /* registers of it */
        {97, MOST_SHARED}, /* shared memory that a block may ask for */
        {106, 32},         /* blocks of a multiprocessor */
    };
    if (device < 0 || device >= gpu_count()) return BAD_DEVICE;
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return 0;
        }
    return INVALID;
}

EXPORTED int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (!started) return NOT_STARTED;
    if (device < 0 || device >= gpu_count()) return BAD_DEVICE;
    if (sticky) return sticky;
    __atomic_add_fetch(&contexts[device].retained, 1, __ATOMIC_RELAXED);
    *context = &contexts[device];
    return 0;
}

EXPORTED int cuDevicePrimaryCtxRelease_v2(int device) {
    if (device < 0 || device >= MOST_GPUS) return BAD_DEVICE;
    return __atomic_sub_fetch(&contexts[device].retained, 1, __ATOMIC_RELAXED) < 0 ? NO_CONTEXT : 0;
}

EXPORTED int cuCtxPushCurrent_v2(void *context) {
    struct context *given = context;
    if (given < contexts || given >= contexts + MOST_GPUS || given->retained < 1) return NO_CONTEXT;
    if (current.depth == MOST_CONTEXTS) return INVALID;
    current.of[current.depth++] = given;
    return 0;
}

EXPORTED int cuCtxPopCurrent_v2(void **context) {
    if (!current.depth) return NO_CONTEXT;
    --current.depth;
    if (context) *context = current.of[current.depth];
    return 0;
}

EXPORTED int cuCtxSetCurrent(void *context) {
    if (current.depth) --current.depth;
    return context ? cuCtxPushCurrent_v2(context) : 0;
}

#include "streams.c"

/* ---- Modules ---- */

#define EMULATED 0x7a00 /* kind of a part with kernels for this driver: a shared object */

typedef struct {
    object head;
    kernel_library *kernels;
} module;

/* The latest PTX of the driver's CUDA: 9.0 of 13.0, 8.4 of 12.4. NVIDIA left one out in 12.6. */
static int later_ptx(const char *part) {
    uint16_t version[2]; /* minor, major */
    long cuda = variable("TVMCONV_EMULATED_CUDA", CUDA);
    int major = (int)(cuda / 1000) - 4, minor = (int)(cuda % 1000 / 10);
    memcpy(version, part + 24, sizeof version);
    return version[1] > major || (version[1] == major && version[0] > minor - (cuda > 12050 && cuda < 13000));
}

/* Whether machine code is of the form that came with CUDA 13.0, and the driver is older. */
static int later_form(const char *part) {
    uint16_t minor;
    memcpy(&minor, part + 24, sizeof minor);
    return minor > 7 && variable("TVMCONV_EMULATED_CUDA", CUDA) < 13000;
}

/* Whether a fatbin has code that the GPU runs, or translates, and its emulated part if it has one.
 * Behind its own head (magic, version, its size, that of the rest) follow parts, each with the kind
 * (1: PTX, 2: machine code), the sizes of its head and the rest, and in the head's seventh and
 * eighth word the version and the architecture. NVIDIA's driver may pass over machine code of a
 * form that it does not know, and take the PTX; this one refuses all. */
static int find_code(const char *image, const char **own, size_t *own_bytes) {
    int found = 0, later = 0;
    uint16_t head_bytes;
    uint64_t bytes;
    memcpy(&head_bytes, image + 6, sizeof head_bytes);
    memcpy(&bytes, image + 8, sizeof bytes);
    const char *part = image + head_bytes, *end = part + bytes;
    while (part < end) {
        uint16_t kind;
        uint32_t part_head, architecture;
        uint64_t part_bytes;
        memcpy(&kind, part, sizeof kind);
        memcpy(&part_head, part + 4, sizeof part_head);
        memcpy(&part_bytes, part + 8, sizeof part_bytes);
        memcpy(&architecture, part + 28, sizeof architecture);
        int older = (int)architecture <= capability();
        if (kind == EMULATED) *own = part + part_head, *own_bytes = part_bytes;
        else if (kind == 1 && older) found = 1, later |= later_ptx(part);
        else if (kind == 2 && older && (int)architecture / 10 == capability() / 10)
            found = 1, later |= later_form(part);
        part += part_head + part_bytes;
    }
    return !found ? NO_BINARY : later ? LATER_PTX : 0;
}

EXPORTED int cuModuleLoadData(void **result, const void *image) {
    const uint32_t magic = 0xba55ed50u; /* the first word of every fatbin */
    const char *own = NULL;
    size_t own_bytes = 0;
    kernel_library *kernels = NULL;
    IN_CONTEXT;
    UNCAPTURED;
    if ((uintptr_t)image % 8 || memcmp(image, &magic, sizeof magic)) return BAD_IMAGE;
    int status = find_code(image, &own, &own_bytes);
    if (status) return status;
    pthread_mutex_lock(&mutex);
    int known = !own && usual.library;
    status = own ? open_own(&kernels, own, own_bytes) : open_usual(&kernels);
    for (allocation *each = allocations; each && !known && !status; each = each->next)
        kernels->remember(each->first, each->bytes);
    module *made = status ? NULL : give(MODULE, sizeof *made);
    if (made) made->kernels = kernels;
    *result = made;
    pthread_mutex_unlock(&mutex);
    return status ? status : made ? 0 : NO_MEMORY;
}

EXPORTED int cuModuleUnload(void *handle) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    drain_all();
    int status = find(handle, MODULE) ? 0 : BAD_HANDLE;
    object *each = objects;
    while (!status && each) { /* its functions go with it */
        object *next = each->next;
        if (each->kind == FUNCTION && ((function *)each)->module == handle) take_back(each);
        each = next;
    }
    if (!status) take_back(handle);
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuModuleGetFunction(void **result, void *handle, const char *name) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    const module *given = find(handle, MODULE);
    int parameters = given ? given->kernels->parameters(name) : 0;
    int status = !given ? BAD_HANDLE : parameters < 0 ? NOT_FOUND : 0;
    function *made = status ? NULL : give(FUNCTION, sizeof *made);
    if (made) {
        made->module = handle;
        made->device = device_of_context();
        made->kernels = given->kernels;
        made->parameters = parameters;
        snprintf(made->name, sizeof made->name, "%s", name);
        *result = made;
    }
    pthread_mutex_unlock(&mutex);
    return status ? status : made ? 0 : NO_MEMORY;
}

EXPORTED int cuFuncSetAttribute(void *handle, int attribute, int value) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    function *given = find(handle, FUNCTION);
    int status = !given ? BAD_HANDLE : attribute != 8 || value < 0 || value > MOST_SHARED ? INVALID : 0;
    if (!status) given->most_shared = value;
    pthread_mutex_unlock(&mutex);
    return status;
}

/* A launch as TVM's runtime makes it; its attributes, such as a cluster's size, are refused. */
EXPORTED int cuLaunchKernelEx(const void *given, void *handle, void **arguments, void **extra) {
    const struct {
        unsigned grid[3], block[3], shared;
        void *stream, *attributes;
        unsigned attribute_count;
    } *config = given;
    const unsigned *grid = config->grid, *block = config->block;
    if (config->attribute_count) return NOT_SUPPORTED;
    return cuLaunchKernel(handle, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                          config->shared, config->stream, arguments, extra);
}

/* TVM's runtime offers it to kernels that no schedule here makes. */
EXPORTED int cuTensorMapEncodeTiled(void) { return NOT_SUPPORTED; }

/* For tests: what was done in this process since it began. */
EXPORTED long emulated_count(const char *what) {
    return !strcmp(what, "launches")         ? counts.launches       /* calls of cuLaunchKernel */
           : !strcmp(what, "graph launches") ? counts.graph_launches /* of cuGraphLaunch */
           : !strcmp(what, "kernels")        ? counts.kernels        /* kernels that ran */
           : !strcmp(what, "copies")         ? counts.copies         /* within the GPU */
           : !strcmp(what, "host copies")    ? counts.host_copies    /* to or from it */
           : !strcmp(what, "bytes")          ? (long)used[0]         /* now allocated */
           : !strcmp(what, "bytes of GPU 1") ? (long)used[1]
                                             : -1;
}
