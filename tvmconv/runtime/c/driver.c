/* driver.c: NVIDIA's driver, opened when a GPU is first asked for. Part of cuda.c.
 *
 * Models need neither CUDA's libraries nor its headers. These are the types and functions of the
 * driver's interface (cuda.h) that models use, under the names that libcuda.so.1 exports. */

typedef int32_t cu_result;
typedef uintptr_t cu_pointer; /* device memory; with unified addressing also a void * */
typedef void *cu_handle;      /* a context, module, function, stream, event or graph */

enum {
    CU_NO_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_BAD_IMAGE = 200,
    CU_NO_BINARY = 209,
    CU_LATER_PTX = 222,
    /* CUdevice_attribute, CUfunction_attribute */
    CU_MAJOR = 75,
    CU_MINOR = 76,
    CU_MOST_DYNAMIC_SHARED = 8,
    /* CUpointer_attribute, CUmemorytype */
    CU_POINTER_MEMORY_TYPE = 2,
    CU_POINTER_DEVICE = 9,
    CU_MEMORY_DEVICE = 2,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_NO_TIMING = 2,
    CU_CAPTURE_THREAD_LOCAL = 1,
    CU_CAPTURE_FAILED = 2 /* CUstreamCaptureStatus */
};

#define DRIVER_FUNCTIONS(use)                                                                      \
    use(init, "cuInit", (unsigned))                                                                \
    use(version, "cuDriverGetVersion", (int *))                                                    \
    use(error_text, "cuGetErrorString", (cu_result, const char **))                                \
    use(device_count, "cuDeviceGetCount", (int *))                                                 \
    use(device_get, "cuDeviceGet", (int *, int))                                                   \
    use(device_name, "cuDeviceGetName", (char *, int, int))                                        \
    use(device_attribute, "cuDeviceGetAttribute", (int *, int, int))                               \
    use(context_retain, "cuDevicePrimaryCtxRetain", (cu_handle *, int))                            \
    use(context_release, "cuDevicePrimaryCtxRelease_v2", (int))                                    \
    use(context_push, "cuCtxPushCurrent_v2", (cu_handle))                                          \
    use(context_pop, "cuCtxPopCurrent_v2", (cu_handle *))                                          \
    use(module_load, "cuModuleLoadData", (cu_handle *, const void *))                              \
    use(module_unload, "cuModuleUnload", (cu_handle))                                              \
    use(module_function, "cuModuleGetFunction", (cu_handle *, cu_handle, const char *))            \
    use(function_set, "cuFuncSetAttribute", (cu_handle, int, int))                                 \
    use(allocate, "cuMemAlloc_v2", (cu_pointer *, size_t))                                         \
    use(release, "cuMemFree_v2", (cu_pointer))                                                     \
    use(pointer_attribute, "cuPointerGetAttribute", (void *, int, cu_pointer))                     \
    use(copy, "cuMemcpyAsync", (cu_pointer, cu_pointer, size_t, cu_handle))                        \
    use(stream_create, "cuStreamCreate", (cu_handle *, unsigned))                                  \
    use(stream_destroy, "cuStreamDestroy_v2", (cu_handle))                                         \
    use(stream_wait, "cuStreamSynchronize", (cu_handle))                                           \
    use(stream_wait_event, "cuStreamWaitEvent", (cu_handle, cu_handle, unsigned))                  \
    use(capture_info, "cuStreamGetCaptureInfo_v2",                                                 \
        (cu_handle, int *, uint64_t *, cu_handle *, const cu_handle **, size_t *))                 \
    use(capture_begin, "cuStreamBeginCapture_v2", (cu_handle, int))                                \
    use(capture_end, "cuStreamEndCapture", (cu_handle, cu_handle *))                               \
    use(graph_instantiate, "cuGraphInstantiateWithFlags",                                          \
        (cu_handle *, cu_handle, unsigned long long))                                              \
    use(graph_launch, "cuGraphLaunch", (cu_handle, cu_handle))                                     \
    use(graph_destroy, "cuGraphDestroy", (cu_handle))                                              \
    use(executable_destroy, "cuGraphExecDestroy", (cu_handle))                                     \
    use(event_create, "cuEventCreate", (cu_handle *, unsigned))                                    \
    use(event_record, "cuEventRecord", (cu_handle, cu_handle))                                     \
    use(event_query, "cuEventQuery", (cu_handle))                                                  \
    use(event_wait, "cuEventSynchronize", (cu_handle))                                             \
    use(event_elapsed, "cuEventElapsedTime", (float *, cu_handle, cu_handle))                      \
    use(event_destroy, "cuEventDestroy_v2", (cu_handle))                                           \
    use(launch, "cuLaunchKernel",                                                                  \
        (cu_handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,          \
         cu_handle, void **, void **))

static struct {
#define DECLARED(name, symbol, parameters) cu_result(*name) parameters;
    DRIVER_FUNCTIONS(DECLARED)
#undef DECLARED
} driver;

static const char *driver_text(cu_result status) {
    const char *text = NULL;
    if (driver.error_text) driver.error_text(status, &text);
    return text ? text : "an error that the driver does not name";
}

/* Whether all further calls of this process fail, too: as cuda.h says of these, or faults of the
 * hardware. */
static int is_lost(cu_result status) {
    static const cu_result lost[] = {214, 220, 226, 700, 702, 709, 710, 714,
                                     715, 716, 717, 718, 719, 721, 999};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; ++i)
        if (status == lost[i]) return 1;
    return 0;
}

/* Finds the driver; afterwards it stays, as it cannot be closed safely. */
static int32_t open_driver(char *message, size_t size) {
    static void *library;
    if (library) return TVMCONV_OK;
    void *found = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (found == NULL) {
        snprintf(message, size,
                 "this model runs on an NVIDIA GPU (%s), and this system has no driver for one: "
                 "libcuda.so.1 is not found. Install NVIDIA's driver, or build the model for a CPU",
                 tvmconv_this_description.target);
        return TVMCONV_UNSUPPORTED;
    }
    const char *missing = NULL;
#define LOOKED_UP(name, symbol, parameters)                                                        \
    if (!(*(void **)&driver.name = dlsym(found, symbol))) missing = symbol;
    DRIVER_FUNCTIONS(LOOKED_UP)
#undef LOOKED_UP
    if (missing) {
        snprintf(message, size, "libcuda.so.1 has no %s: NVIDIA's driver here is too old", missing);
        dlclose(found);
        return TVMCONV_UNSUPPORTED;
    }
    cu_result status = driver.init(0);
    if (status) {
        if (status == CU_NO_DEVICE)
            snprintf(message, size,
                     "this model runs on an NVIDIA GPU (%s), and the driver shows none; "
                     "CUDA_VISIBLE_DEVICES may hide it",
                     tvmconv_this_description.target);
        else
            snprintf(message, size, "NVIDIA's driver does not start: %s", driver_text(status));
        dlclose(found);
        return TVMCONV_UNSUPPORTED;
    }
    library = found;
    return TVMCONV_OK;
}
