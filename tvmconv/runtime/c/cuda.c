/* cuda.c: a model's kernels on an NVIDIA GPU. Part of runtime.c where TVMCONV_CUDA is defined.
 *
 * The first state of a model loads its kernels into the GPU and copies its constants there; all
 * states share both. A state has a stream, and one piece of the GPU's memory for its arena and its
 * inputs and outputs, so that a run copies inputs there, launches the kernels, and copies results
 * back. Pointers of the caller may be of the GPU's memory, too. */

#include "driver.c"

/* what kernels assume of each buffer; the driver's own allocations have it */
#define GPU_ALIGNMENT 256

/* What the states of this model share. */
static struct {
    pthread_mutex_t mutex;
    int32_t states;
    pid_t process;
    int device;
    cu_handle context, *modules, *functions;
    cu_pointer constants;
} gpu = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct tvmconv_gpu_state {
    cu_handle stream;
    cu_pointer memory, arena;
    void **inputs, **outputs; /* in the GPU's memory */
    cu_handle *events;        /* made by the first profile: the start, then one a layer */
};

static uint64_t host_arena_bytes(const tvmconv_description *model) {
    (void)model;
    return 0;
}

static int32_t refuse_status(char *message, size_t size, const char *what, uint64_t bytes,
                             cu_result status) {
    if (status == CU_NO_MEMORY)
        snprintf(message, size, "the GPU has no memory for %llu bytes of %s",
                 (unsigned long long)bytes, what);
    else
        snprintf(message, size, "the GPU cannot be given its %s: %s", what, driver_text(status));
    return status == CU_NO_MEMORY ? TVMCONV_MEMORY : TVMCONV_UNSUPPORTED;
}

/* The first GPU that the driver shows, if it is one that the kernels are for. */
static int32_t find_gpu(char *message, size_t size) {
    int count = 0, major = 0, minor = 0;
    char name[128] = "";
    cu_result status = driver.device_count(&count);
    if (!status && count < 1) status = CU_NO_DEVICE;
    if (!status) status = driver.device_get(&gpu.device, 0);
    if (!status) status = driver.device_attribute(&major, CU_MAJOR, gpu.device);
    if (!status) status = driver.device_attribute(&minor, CU_MINOR, gpu.device);
    if (!status) status = driver.device_name(name, sizeof name, gpu.device);
    if (status) {
        snprintf(message, size, "no GPU is to be had: %s", driver_text(status));
        return TVMCONV_UNSUPPORTED;
    }
    /* a later one takes the machine code of the same generation, or translates the PTX */
    if (10 * major + minor >= tvmconv_this_gpu.architecture) return TVMCONV_OK;
    snprintf(message, size,
             "this model was built for %s, and the GPU here (%s) is of sm_%d%d: build it for that",
             tvmconv_this_description.target, name, major, minor);
    return TVMCONV_UNSUPPORTED;
}

static cu_result load_kernels(void) {
    const tvmconv_gpu_code *code = &tvmconv_this_gpu;
    cu_result status = 0;
    for (int32_t i = 0; i < code->module_count && !status; ++i)
        status = driver.module_load(&gpu.modules[i], code->modules[i]);
    for (int32_t i = 0; i < code->kernel_count && !status; ++i) {
        const tvmconv_kernel *kernel = &code->kernels[i];
        status = driver.module_function(&gpu.functions[i], gpu.modules[kernel->module],
                                        kernel->name);
        if (!status && kernel->shared_bytes)
            status = driver.function_set(gpu.functions[i], CU_MOST_DYNAMIC_SHARED,
                                         (int)kernel->shared_bytes);
    }
    return status;
}

/* Frees what states share; in the context. */
static void unload(void) {
    if (gpu.constants) driver.release(gpu.constants);
    for (int32_t i = 0; gpu.modules && i < tvmconv_this_gpu.module_count; ++i)
        if (gpu.modules[i]) driver.module_unload(gpu.modules[i]);
    free(gpu.modules);
    free(gpu.functions);
    gpu.modules = gpu.functions = NULL;
    gpu.constants = 0;
}

/* Loads kernels and constants; in the context. */
static int32_t load(const char *constants, char *message, size_t size) {
    const uint64_t bytes = tvmconv_this_description.weight_bytes;
    gpu.modules = calloc((size_t)tvmconv_this_gpu.module_count + 1, sizeof *gpu.modules);
    gpu.functions = calloc((size_t)tvmconv_this_gpu.kernel_count + 1, sizeof *gpu.functions);
    if (!gpu.modules || !gpu.functions)
        return refuse(message, size, TVMCONV_MEMORY, "the system gave no memory");
    cu_result status = load_kernels();
    if (status) {
        snprintf(message, size, "the GPU's driver does not take kernels for %s: %s%s",
                 tvmconv_this_description.target, driver_text(status),
                 status == CU_NO_BINARY ? "; build the model for this GPU" : "");
        return TVMCONV_UNSUPPORTED;
    }
    if (!bytes) return TVMCONV_OK;
    status = driver.allocate(&gpu.constants, bytes);
    if (!status) status = driver.copy(gpu.constants, (cu_pointer)constants, bytes, NULL);
    if (!status) status = driver.stream_wait(NULL);
    return status ? refuse_status(message, size, "weights", bytes, status) : TVMCONV_OK;
}

/* Offsets of inputs, or of outputs, in the memory of a state; returns the end. */
static uint64_t place_tensors(void **places, const tvmconv_tensor *tensors, int32_t count,
                              uint64_t end) {
    for (int32_t i = 0; i < count; ++i) {
        places[i] = (void *)(uintptr_t)end;
        end += aligned(tensors[i].bytes, GPU_ALIGNMENT);
    }
    return end;
}

static int32_t allocate_state(struct tvmconv_gpu_state *own, char *message, size_t size) {
    const tvmconv_description *model = &tvmconv_this_description;
    uint64_t end = aligned(model->arena_bytes, GPU_ALIGNMENT);
    end = place_tensors(own->inputs, model->inputs, model->input_count, end);
    end = place_tensors(own->outputs, model->outputs, model->output_count, end);
    cu_result status = driver.stream_create(&own->stream, CU_STREAM_NON_BLOCKING);
    if (!status) status = driver.allocate(&own->memory, end ? end : 1);
    if (status) return refuse_status(message, size, "activations and tensors", end, status);
    own->arena = own->memory;
    for (int32_t i = 0; i < model->input_count; ++i)
        own->inputs[i] = (void *)(own->memory + (uintptr_t)own->inputs[i]);
    for (int32_t i = 0; i < model->output_count; ++i)
        own->outputs[i] = (void *)(own->memory + (uintptr_t)own->outputs[i]);
    return TVMCONV_OK;
}

/* Frees what a state has of the GPU; in the context. */
static void free_state(struct tvmconv_gpu_state *own) {
    for (int32_t i = 0; own->events && i <= tvmconv_this_description.layer_count; ++i)
        if (own->events[i]) driver.event_destroy(own->events[i]);
    if (own->stream) driver.stream_destroy(own->stream);
    if (own->memory) driver.release(own->memory);
}

static int32_t open_device(tvmconv_state *state, char *message, size_t size) {
    const tvmconv_description *model = &tvmconv_this_description;
    size_t pointers = (size_t)model->input_count + (size_t)model->output_count + 1;
    struct tvmconv_gpu_state *own = calloc(1, sizeof *own + pointers * sizeof(void *));
    if (own == NULL) return refuse(message, size, TVMCONV_MEMORY, "the system gave no memory");
    own->inputs = (void **)(own + 1);
    own->outputs = own->inputs + model->input_count;
    pthread_mutex_lock(&gpu.mutex);
    int32_t status = TVMCONV_OK, first = gpu.states == 0;
    if (!first && gpu.process != getpid())
        status = refuse(message, size, TVMCONV_UNSUPPORTED,
                        "a forked child cannot use the GPU of its parent: load models in the child "
                        "alone, or start it by another way than fork");
    if (!status) status = open_driver(message, size);
    if (!status && first) {
        status = find_gpu(message, size);
        cu_result failed = status ? 0 : driver.context_retain(&gpu.context, gpu.device);
        if (failed) {
            snprintf(message, size, "the GPU cannot be used: %s", driver_text(failed));
            status = TVMCONV_UNSUPPORTED;
        }
        if (status) first = 0; /* there is nothing to release */
    }
    if (!status) {
        driver.context_push(gpu.context);
        if (first) status = load(state->constants, message, size);
        if (!status) status = allocate_state(own, message, size);
        if (status) free_state(own);
        if (status && first) unload();
        driver.context_pop(NULL);
        if (status && first) driver.context_release(gpu.device);
    }
    if (status) {
        free(own);
    } else {
        gpu.process = getpid();
        ++gpu.states;
        state->gpu = own;
    }
    pthread_mutex_unlock(&gpu.mutex);
    return status;
}

static void close_device(tvmconv_state *state) {
    if (state->gpu == NULL) return;
    /* of a forked child the GPU knows nothing */
    if (gpu.process == getpid()) {
        pthread_mutex_lock(&gpu.mutex);
        driver.context_push(gpu.context);
        free_state(state->gpu);
        if (--gpu.states == 0) unload();
        driver.context_pop(NULL);
        if (gpu.states == 0) driver.context_release(gpu.device);
        pthread_mutex_unlock(&gpu.mutex);
    }
    free(state->gpu->events);
    free(state->gpu);
    state->gpu = NULL;
}

/* ---- What model.c calls ---- */

int32_t tvmconv_launch(const tvmconv_frame *frame, int32_t index, void **arguments) {
    const tvmconv_kernel *kernel = &tvmconv_this_gpu.kernels[index];
    const uint32_t *grid = kernel->grid, *block = kernel->block;
    return driver.launch(gpu.functions[index], grid[0], grid[1], grid[2], block[0], block[1],
                         block[2], kernel->shared_bytes, frame->gpu->stream, arguments, NULL);
}

int32_t tvmconv_copy(const tvmconv_frame *frame, void *target, const void *source,
                     uint64_t bytes) {
    return driver.copy((cu_pointer)target, (cu_pointer)source, bytes, frame->gpu->stream);
}

void tvmconv_stamp(const tvmconv_frame *frame, int32_t layer) {
    driver.event_record(frame->gpu->events[layer + 1], frame->gpu->stream);
}

/* ---- Runs ---- */

static cu_result make_events(struct tvmconv_gpu_state *own) {
    int32_t count = tvmconv_this_description.layer_count + 1;
    cu_result status = 0;
    if (own->events) return 0;
    own->events = calloc((size_t)count, sizeof *own->events);
    if (own->events == NULL) return CU_NO_MEMORY;
    for (int32_t i = 0; i < count && !status; ++i) status = driver.event_create(&own->events[i], 0);
    return status;
}

/* Times of the events, as of a clock that starts with the first kernel. */
static cu_result read_events(const struct tvmconv_gpu_state *own, int64_t *times, int64_t *start) {
    cu_result status = 0;
    *start = 0;
    for (int32_t i = 0; i < tvmconv_this_description.layer_count && !status; ++i) {
        float milliseconds = 0;
        status = driver.event_elapsed(&milliseconds, own->events[0], own->events[i + 1]);
        times[i] = (int64_t)((double)milliseconds * 1e6);
    }
    return status;
}

static int32_t run_program(tvmconv_state *state, tvmconv_frame *frame, int64_t *start) {
    const tvmconv_description *model = &tvmconv_this_description;
    struct tvmconv_gpu_state *own = state->gpu;
    const void *const *inputs = frame->inputs;
    void *const *outputs = frame->outputs;
    frame->failed = -1;
    if (gpu.process != getpid()) return -1;
    cu_result status = driver.context_push(gpu.context);
    if (status) return status;
    frame->inputs = (const void *const *)own->inputs;
    frame->outputs = own->outputs;
    frame->arena = (char *)own->arena;
    frame->constants = (char *)gpu.constants;
    frame->gpu = own;
    for (int32_t i = 0; i < model->input_count && !status; ++i)
        status = tvmconv_copy(frame, own->inputs[i], inputs[i], model->inputs[i].bytes);
    if (!status && frame->times) status = make_events(own);
    if (!status && frame->times) status = driver.event_record(own->events[0], own->stream);
    if (!status) status = tvmconv_this_program.run(frame);
    for (int32_t i = 0; i < model->output_count && !status; ++i)
        status = tvmconv_copy(frame, outputs[i], own->outputs[i], model->outputs[i].bytes);
    /* after a failure, too: nothing may go on in the caller's memory */
    cu_result waited = driver.stream_wait(own->stream);
    if (!status) status = waited;
    if (!status && frame->times) status = read_events(own, frame->times, start);
    driver.context_pop(NULL);
    return status;
}

static const char *device_fault(int32_t status) {
    return status < 0 ? "a forked child cannot use the GPU of its parent" : driver_text(status);
}
