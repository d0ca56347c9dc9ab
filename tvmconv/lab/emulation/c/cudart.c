/* cudart.c: a libcudart.so.13 on the emulated driver, with the functions that TVM's runtime calls.
 *
 * As of NVIDIA's, each thread has a current GPU, whose primary context is entered at the first call
 * that needs one. Most functions do what the driver's function of that name does. */
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

extern int cuInit(unsigned), cuDeviceGetCount(int *), cuDeviceGetAttribute(int *, int, int);
extern int cuDeviceTotalMem_v2(size_t *, int), cuDevicePrimaryCtxRetain(void **, int);
extern int cuCtxSetCurrent(void *), cuMemAlloc_v2(void **, size_t), cuMemFree_v2(void *);
extern int cuMemcpyAsync(void *, const void *, size_t, void *);
extern int cuStreamCreate(void **, unsigned), cuStreamDestroy_v2(void *);
extern int cuStreamSynchronize(void *), cuStreamWaitEvent(void *, void *, unsigned);
extern int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **);
extern int cuEventCreate(void **, unsigned), cuEventDestroy_v2(void *), cuEventSynchronize(void *);
extern int cuEventRecord(void *, void *), cuEventElapsedTime(float *, void *, void *);
extern int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);
extern int cuGraphLaunch(void *, void *), cuGraphDestroy(void *), cuGraphExecDestroy(void *);
extern int cuGetErrorString(int, const char **), cuGetErrorName(int, const char **);

static __thread int device, last;
static __thread int entered = -1; /* the GPU whose context is current */

static int noted(int status) {
    if (status) last = status;
    return status;
}

static int enter(void) {
    void *context;
    if (entered == device) return 0;
    int status = cuInit(0);
    if (!status) status = cuDevicePrimaryCtxRetain(&context, device);
    if (!status) status = cuCtxSetCurrent(context);
    if (!status) entered = device;
    return status;
}

/* A function that does what a call of the driver's does. */
#define CALLS(name, parameters, call)                                                              \
    EXPORTED int name parameters {                                                                 \
        int status = enter();                                                                      \
        return noted(status ? status : call);                                                      \
    }

CALLS(cudaMalloc, (void **result, size_t bytes), cuMemAlloc_v2(result, bytes ? bytes : 1))
CALLS(cudaFree, (void *memory), memory ? cuMemFree_v2(memory) : 0)
CALLS(cudaMemGetInfo, (size_t *free, size_t *all),
      (cuDeviceTotalMem_v2(all, device), *free = *all, 0))
CALLS(cudaMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, void *stream),
      ((void)kind, bytes ? cuMemcpyAsync(to, from, bytes, stream) : 0))
CALLS(cudaMemcpyPeerAsync,
      (void *to, int target, const void *from, int source, size_t bytes, void *stream),
      ((void)target, (void)source, cuMemcpyAsync(to, from, bytes, stream)))
CALLS(cudaStreamCreate, (void **result), cuStreamCreate(result, 0))
CALLS(cudaStreamCreateWithFlags, (void **result, unsigned flags), cuStreamCreate(result, flags))
CALLS(cudaStreamDestroy, (void *stream), cuStreamDestroy_v2(stream))
CALLS(cudaStreamSynchronize, (void *stream), cuStreamSynchronize(stream))
CALLS(cudaStreamWaitEvent, (void *stream, void *event, unsigned flags),
      cuStreamWaitEvent(stream, event, flags))
CALLS(cudaStreamBeginCapture, (void *stream, int mode), cuStreamBeginCapture_v2(stream, mode))
CALLS(cudaStreamEndCapture, (void *stream, void **graph), cuStreamEndCapture(stream, graph))
CALLS(cudaEventCreate, (void **result), cuEventCreate(result, 0))
CALLS(cudaEventDestroy, (void *event), cuEventDestroy_v2(event))
CALLS(cudaEventRecord, (void *event, void *stream), cuEventRecord(event, stream))
CALLS(cudaEventSynchronize, (void *event), cuEventSynchronize(event))
CALLS(cudaEventElapsedTime, (float *time, void *start, void *end),
      cuEventElapsedTime(time, start, end))
CALLS(cudaGraphInstantiate, (void **result, void *graph, unsigned long long flags),
      cuGraphInstantiateWithFlags(result, graph, flags))
CALLS(cudaGraphLaunch, (void *graph, void *stream), cuGraphLaunch(graph, stream))
CALLS(cudaGraphDestroy, (void *graph), cuGraphDestroy(graph))
CALLS(cudaGraphExecDestroy, (void *graph), cuGraphExecDestroy(graph))
CALLS(cudaDeviceGetAttribute, (int *value, int attribute, int which),
      cuDeviceGetAttribute(value, attribute, which))

EXPORTED int cudaGetDeviceCount(int *count) {
    *count = 0;
    int status = cuInit(0);
    return noted(status ? status : cuDeviceGetCount(count));
}

EXPORTED int cudaSetDevice(int which) {
    device = which;
    return noted(enter());
}

EXPORTED int cudaGetDevice(int *which) {
    *which = device;
    return 0;
}

/* its structure is of CUDA's headers, which the emulator does not have */
EXPORTED int cudaGetDeviceProperties(void *properties, int which) {
    (void)properties, (void)which;
    return noted(801);
}

EXPORTED int cudaMallocHost(void **result, size_t bytes) {
    *result = malloc(bytes + 1);
    return *result ? 0 : noted(2);
}

EXPORTED int cudaFreeHost(void *memory) {
    free(memory);
    return 0;
}

EXPORTED int cudaGetLastError(void) {
    int status = last;
    last = 0;
    return status;
}

EXPORTED int cudaPeekAtLastError(void) { return last; }

EXPORTED const char *cudaGetErrorString(int status) {
    const char *text = "an unknown error";
    cuGetErrorString(status, &text);
    return text ? text : "an unknown error";
}

EXPORTED const char *cudaGetErrorName(int status) {
    const char *text = "an unknown error";
    cuGetErrorName(status, &text);
    return text;
}
