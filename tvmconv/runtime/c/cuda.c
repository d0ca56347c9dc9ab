/* cuda.c: a model's kernels on an NVIDIA GPU. Part of runtime.c where TVMCONV_CUDA is defined.
 *
 * The first state of a model on a GPU loads its kernels there and copies its constants; all states
 * on that GPU share both. A state has a stream and one block of the GPU's memory: its arena, and
 * copies of inputs and outputs in the CPU's memory. modules.c loads kernels, and cuda_run.c runs
 * them. */

#include "driver.c"

/* kernels assume it of each buffer; the driver's own allocations have it */
#define GPU_ALIGNMENT 256

/* sets of operands that a state has graphs of */
#define KNOWN_OPERANDS 4

#include "modules.c"

static struct {
    pthread_mutex_t mutex;
    pid_t process; /* that has the parts */
    struct gpu_part *parts;
} gpus = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Tables of pointers hold the inputs, the outputs, then the extents of varying outputs. */
struct tvmconv_gpu_state {
    struct gpu_part *gpu;
    cu_handle stream;
    cu_pointer memory, arena;
    void **own;        /* memory for operands that the caller has elsewhere */
    void **used;       /* operands of the current call */
    cu_handle *events; /* made by the first profile: the start, then one a layer */
    /* work in a caller's stream that may still run */
    cu_handle queued; /* an event */
    int32_t going_on;
    cu_handle target; /* the stream of the current call */
    /* the caller's capture to which this call belongs, by the driver's number, and the last
     * capture, in which a call ends with an event */
    int32_t captured;
    uint64_t capture, last_capture;
    cu_handle in_graph;
    /* launches as graphs, one for each of the recent sets of operands, such as two alternating
     * buffers */
    int32_t replay; /* 0: launches are made one by one */
    struct {
        void **operands;
        cu_handle graph; /* NULL: none yet */
        int64_t calls, last;
    } known[KNOWN_OPERANDS];
    int64_t clock;    /* counts calls */
    int64_t patience; /* calls before a graph is captured; doubles when one is forgotten */
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
        snprintf(message, size, "cannot copy the %s to the GPU: %s", what, driver_text(status));
    return status == CU_NO_MEMORY ? TVMCONV_MEMORY : TVMCONV_UNSUPPORTED;
}

/* Frees the shared part on the GPU; in the context. */
static void unload(struct gpu_part *part) {
    if (part->constants) driver.release(part->constants);
    unload_kernels(part);
}

/* Loads kernels and constants; in the context. */
static int32_t load(struct gpu_part *part, const char *constants, char *message, size_t size) {
    const uint64_t bytes = tvmconv_this_description.weight_bytes;
    int32_t failed = load_kernels(part, message, size);
    if (failed) return failed;
    if (!bytes) return TVMCONV_OK;
    cu_result status = driver.allocate(&part->constants, bytes);
    if (!status) status = driver.copy(part->constants, (cu_pointer)constants, bytes, NULL);
    if (!status) status = driver.stream_wait(NULL);
    return status ? refuse_status(message, size, "weights", bytes, status) : TVMCONV_OK;
}

/* The number of varying outputs. */
static int32_t extent_count(void) {
    const tvmconv_description *model = &tvmconv_this_description;
    int32_t count = 0;
    for (int32_t i = 0; model->varying_axes && i < model->output_count; ++i)
        count += model->varying_axes[i] >= 0;
    return count;
}

static int32_t operand_count(void) {
    const tvmconv_description *model = &tvmconv_this_description;
    return model->input_count + model->output_count + extent_count();
}

static const tvmconv_tensor *operand_tensor(int32_t index) {
    static const tvmconv_tensor extent = {"an extent", TVMCONV_INT64, 0, NULL, sizeof(int64_t)};
    const tvmconv_description *model = &tvmconv_this_description;
    if (index < model->input_count) return &model->inputs[index];
    index -= model->input_count;
    return index < model->output_count ? &model->outputs[index] : &extent;
}

static int32_t allocate_state(struct tvmconv_gpu_state *own, char *message, size_t size) {
    const tvmconv_description *model = &tvmconv_this_description;
    uint64_t end = aligned(model->arena_bytes, GPU_ALIGNMENT);
    for (int32_t i = 0; i < operand_count(); ++i) {
        own->own[i] = (void *)(uintptr_t)end; /* an offset, until there is memory */
        end += aligned(operand_tensor(i)->bytes, GPU_ALIGNMENT);
    }
    cu_result status = driver.stream_create(&own->stream, CU_STREAM_NON_BLOCKING);
    if (!status) status = driver.event_create(&own->queued, CU_EVENT_NO_TIMING);
    if (!status) status = driver.event_create(&own->in_graph, CU_EVENT_NO_TIMING);
    if (!status) status = driver.allocate(&own->memory, end ? end : 1);
    if (status) return refuse_status(message, size, "activations and tensors", end, status);
    own->arena = own->memory;
    for (int32_t i = 0; i < operand_count(); ++i)
        own->own[i] = (void *)(own->memory + (uintptr_t)own->own[i]);
    return TVMCONV_OK;
}

/* Frees a state on the GPU, after the GPU has finished; in the context. */
static void free_state(struct tvmconv_gpu_state *own) {
    if (own->going_on) driver.event_wait(own->queued);
    for (int32_t i = 0; i < KNOWN_OPERANDS; ++i)
        if (own->known[i].graph) driver.executable_destroy(own->known[i].graph);
    for (int32_t i = 0; own->events && i <= tvmconv_this_description.layer_count; ++i)
        if (own->events[i]) driver.event_destroy(own->events[i]);
    if (own->queued) driver.event_destroy(own->queued);
    if (own->in_graph) driver.event_destroy(own->in_graph);
    if (own->stream) driver.stream_destroy(own->stream);
    if (own->memory) driver.release(own->memory);
}

/* Whether a state replays its launches, by the options, the environment, or the model. */
static int32_t wants_replay(const tvmconv_options *options) {
    const char *variable = getenv("TVMCONV_CUDA_GRAPH");
    if (options->cuda_graph) return options->cuda_graph > 0;
    if (variable && (!strcmp(variable, "0") || !strcmp(variable, "1"))) return variable[0] == '1';
    return tvmconv_this_gpu.replay;
}

/* A state's part for the GPU with empty tables. */
static struct tvmconv_gpu_state *new_state(const tvmconv_options *options) {
    size_t count = (size_t)operand_count();
    struct tvmconv_gpu_state *own = calloc(1, sizeof *own + ((2 + KNOWN_OPERANDS) * count + 1) * sizeof(void *));
    if (own == NULL) return NULL;
    own->own = (void **)(own + 1);
    own->used = own->own + count;
    for (size_t i = 0; i < KNOWN_OPERANDS; ++i)
        own->known[i].operands = own->used + (i + 1) * count;
    own->replay = wants_replay(options);
    own->patience = 1;
    return own;
}

/* Removes a part from the list. */
static void forget_part(const struct gpu_part *part) {
    struct gpu_part **link = &gpus.parts;
    while (*link && *link != part) link = &(*link)->next;
    if (*link) *link = part->next;
}

/* Makes the part of a GPU, with kernels and constants; its context stays current. */
static int32_t make_part(struct gpu_part **result, int index, const char *constants, char *message,
                         size_t size) {
    struct gpu_part *part = calloc(1, sizeof *part);
    if (part == NULL) return refuse(message, size, TVMCONV_MEMORY, "the system gave no memory");
    part->index = index;
    int32_t status = find_gpu(part, message, size);
    cu_result failed = status ? 0 : driver.context_retain(&part->context, part->device);
    if (failed) {
        snprintf(message, size, "the GPU cannot be used: %s", driver_text(failed));
        status = TVMCONV_UNSUPPORTED;
    }
    int retained = !status;
    if (!status) status = enter(part->context, message, size);
    if (!status) {
        status = load(part, constants, message, size);
        if (status) {
            unload(part);
            driver.context_pop(NULL);
        }
    }
    if (status) {
        if (retained) driver.context_release(part->device);
        free_part(part);
        return status;
    }
    part->next = gpus.parts;
    gpus.parts = *result = part;
    return TVMCONV_OK;
}

/* Leaves a part's context, if it was entered, and frees a part without states. */
static void leave_part(struct gpu_part *part, int entered) {
    int last = part->states == 0;
    if (last && entered) unload(part);
    if (entered) driver.context_pop(NULL);
    if (!last) return;
    driver.context_release(part->device);
    forget_part(part);
    free_part(part);
}

static int32_t open_device(tvmconv_state *state, const tvmconv_options *options, char *message,
                           size_t size) {
    struct tvmconv_gpu_state *own = new_state(options);
    if (own == NULL) return refuse(message, size, TVMCONV_MEMORY, "the system gave no memory");
    pthread_mutex_lock(&gpus.mutex);
    int32_t status = TVMCONV_OK;
    if (gpus.parts && gpus.process != getpid())
        status = refuse(message, size, TVMCONV_UNSUPPORTED,
                        "a forked child cannot use the GPU of its parent. Load models in the child "
                        "only, or start it without fork.");
    if (!status) status = open_driver(message, size);
    struct gpu_part *part = gpus.parts;
    while (part && part->index != options->gpu) part = part->next;
    if (!status && part) status = enter(part->context, message, size);
    else if (!status)
        status = make_part(&part, (int)options->gpu, state->constants, message, size);
    if (!status) {
        own->gpu = part;
        status = allocate_state(own, message, size);
        if (status) free_state(own);
        else ++part->states;
        leave_part(part, 1);
    }
    if (status) {
        free(own);
    } else {
        gpus.process = getpid();
        state->gpu = own;
    }
    pthread_mutex_unlock(&gpus.mutex);
    return status;
}

static void close_device(tvmconv_state *state) {
    if (state->gpu == NULL) return;
    struct gpu_part *part = state->gpu->gpu;
    /* a forked child owns nothing on the GPU */
    if (gpus.process == getpid()) {
        pthread_mutex_lock(&gpus.mutex);
        /* a context that cannot be entered may be gone with its handles */
        int entered = !driver.context_push(part->context);
        if (entered) free_state(state->gpu);
        --part->states;
        leave_part(part, entered);
        pthread_mutex_unlock(&gpus.mutex);
    }
    free(state->gpu->events);
    free(state->gpu);
    state->gpu = NULL;
}

#include "cuda_run.c"
