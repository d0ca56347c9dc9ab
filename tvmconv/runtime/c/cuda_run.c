/* cuda_run.c: calls of a model on a GPU. Part of cuda.c.
 *
 * Operands of the caller in the GPU's memory are used in place, others are copied. Launches go to a
 * stream one by one. A state that replays captures them at the second call with the same operands,
 * and then launches the graph. A caller's stream that is being captured always gets them one by
 * one. */

/* vector loads of kernels require it of an operand's address */
#define OPERAND_ALIGNMENT 16

/* ---- What model.c calls ---- */

int32_t tvmconv_launch(const tvmconv_frame *frame, int32_t index, void **arguments) {
    const tvmconv_kernel *kernel = &tvmconv_this_gpu.kernels[index];
    const uint32_t *grid = kernel->grid, *block = kernel->block;
    return driver.launch(frame->gpu->gpu->functions[index], grid[0], grid[1], grid[2], block[0], block[1],
                         block[2], kernel->shared_bytes, frame->gpu->target, arguments, NULL);
}

int32_t tvmconv_copy(const tvmconv_frame *frame, void *target, const void *source,
                     uint64_t bytes) {
    return driver.copy((cu_pointer)target, (cu_pointer)source, bytes, frame->gpu->target);
}

/* Marks the end of a layer, once the stream comes to it. */
void tvmconv_stamp(tvmconv_frame *frame, int32_t layer) {
    driver.event_record(frame->gpu->events[layer + 1], frame->gpu->target);
}

/* ---- Operands ---- */

/* Whether memory belongs to any GPU, and whether to the GPU of a state. */
static int on_a_gpu(const struct tvmconv_gpu_state *own, const void *pointer, int *on_this) {
    unsigned kind = 0;
    int device = -1;
    cu_pointer address = (cu_pointer)pointer;
    *on_this = 0;
    if (driver.pointer_attribute(&kind, CU_POINTER_MEMORY_TYPE, address)) return 0;
    if (kind != CU_MEMORY_DEVICE) return 0;
    *on_this = !driver.pointer_attribute(&device, CU_POINTER_DEVICE, address) &&
               device == own->gpu->device;
    return 1;
}

static const void *operand(const tvmconv_frame *frame, int32_t index) {
    int32_t inputs = tvmconv_this_description.input_count;
    return index < inputs ? frame->inputs[index] : frame->outputs[index - inputs];
}

/* Whether the caller captures a stream, and the call can be part of that. Nothing may be loaded,
 * allocated or waited for meanwhile. */
static int32_t check_captured(tvmconv_state *state, cu_handle stream) {
    struct tvmconv_gpu_state *own = state->gpu;
    int phase = 0;
    cu_result status = driver.capture_info(stream, &phase, &own->capture, NULL, NULL, NULL);
    own->captured = !status && phase;
    if (status) {
        snprintf(state->message, sizeof state->message, "the stream cannot be used: %s",
                 driver_text(status));
        return TVMCONV_INVALID;
    }
    if (phase == CU_CAPTURE_FAILED)
        return refuse(state->message, sizeof state->message, TVMCONV_INVALID,
                      "the capture of the stream has failed before this call. End it.");
    if (phase && !__atomic_load_n(&own->gpu->has_run, __ATOMIC_RELAXED))
        return refuse(state->message, sizeof state->message, TVMCONV_INVALID,
                      "the stream is being captured, and the model has not run on this GPU yet. "
                      "Call it once before the capture, which loads its kernels.");
    return TVMCONV_OK;
}

/* Whether a call may be queued to a stream; the reason is left in the state's message. */
static int32_t check_queued(tvmconv_state *state, const tvmconv_frame *frame) {
    int on_this;
    int32_t result = TVMCONV_OK;
    if (gpus.process != getpid()) return TVMCONV_OK; /* the run says it */
    if (extent_count())
        return refuse(state->message, sizeof state->message, TVMCONV_INVALID,
                      "the shape of an output depends on the data, and enqueue cannot return it. "
                      "Call run.");
    if (driver.context_push(state->gpu->gpu->context)) return TVMCONV_OK;
    for (int32_t i = 0; i < operand_count() && !result; ++i) {
        if (on_a_gpu(state->gpu, operand(frame, i), &on_this)) continue;
        snprintf(state->message, sizeof state->message,
                 "%s is not in the GPU's memory, which enqueue requires. Copy it there, or call run.",
                 operand_tensor(i)->name);
        result = TVMCONV_INVALID;
    }
    if (!result) result = check_captured(state, frame->stream);
    driver.context_pop(NULL);
    return result;
}

/* ---- Launches, one by one or as a graph ---- */

/* The entry of the operands of this call; the one that was not used longest where they are new; -1
 * while that cannot be given away. */
static int32_t know_operands(struct tvmconv_gpu_state *own) {
    const size_t bytes = (size_t)operand_count() * sizeof(void *);
    int32_t oldest = 0;
    ++own->clock;
    for (int32_t i = 0; i < KNOWN_OPERANDS; ++i) {
        if (own->known[i].calls && !memcmp(own->known[i].operands, own->used, bytes)) {
            ++own->known[i].calls;
            own->known[i].last = own->clock;
            return i;
        }
        if (own->known[i].last < own->known[oldest].last) oldest = i;
    }
    if (own->known[oldest].graph) {
        /* it may be what still goes on; nobody waits for it here */
        if (own->going_on && driver.event_query(own->queued)) return -1;
        driver.executable_destroy(own->known[oldest].graph);
        if (own->patience < INT32_MAX) own->patience *= 2;
    }
    own->known[oldest].graph = NULL;
    own->known[oldest].calls = 1;
    own->known[oldest].last = own->clock;
    memcpy(own->known[oldest].operands, own->used, bytes);
    return oldest;
}

/* A graph of the launches of a call; NULL where none can be had, and is never asked for again. */
static cu_handle capture(struct tvmconv_gpu_state *own, tvmconv_frame *frame) {
    cu_handle target = own->target, captured = NULL, graph = NULL;
    own->replay = 0;
    if (driver.capture_begin(own->stream, CU_CAPTURE_THREAD_LOCAL)) return NULL;
    own->target = own->stream;
    cu_result status = tvmconv_this_program.targets[0].runs[0](frame);
    cu_result ended = driver.capture_end(own->stream, &captured);
    own->target = target;
    frame->failed = -1;
    if (!status && !ended && driver.graph_instantiate(&graph, captured, 0)) graph = NULL;
    if (captured) driver.graph_destroy(captured);
    own->replay = graph != NULL;
    return graph;
}

static cu_result launch_all(struct tvmconv_gpu_state *own, tvmconv_frame *frame) {
    if (own->replay && !frame->times && !own->captured) {
        int32_t entry = know_operands(own);
        /* the first call is made plainly, too: it loads kernels, which a capture may not */
        if (entry >= 0 && !own->known[entry].graph && own->known[entry].calls > own->patience)
            own->known[entry].graph = capture(own, frame);
        if (entry >= 0 && own->known[entry].graph)
            return driver.graph_launch(own->known[entry].graph, own->target);
    }
    return tvmconv_this_program.targets[0].runs[0](frame);
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

/* Times between the events. */
static cu_result read_events(const struct tvmconv_gpu_state *own, int64_t *times) {
    cu_result status = 0;
    for (int32_t i = 0; i < tvmconv_this_description.layer_count && !status; ++i) {
        float milliseconds = 0;
        status = driver.event_elapsed(&milliseconds, own->events[i], own->events[i + 1]);
        times[i] = (int64_t)((double)milliseconds * 1e6);
    }
    return status;
}

/* Everything of a call that goes to its stream. */
static cu_result submit(struct tvmconv_gpu_state *own, tvmconv_frame *frame) {
    const int32_t inputs = tvmconv_this_description.input_count, count = operand_count();
    const void *const *given = frame->inputs;
    void *const *results = frame->outputs;
    cu_result status = 0;
    int on_this;
    if (own->captured && own->last_capture == own->capture)
        status = driver.stream_wait_event(own->target, own->in_graph, 0);
    else if (own->going_on && !own->captured)
        status = driver.stream_wait_event(own->target, own->queued, 0);
    for (int32_t i = 0; i < count && !status; ++i) {
        const void *there = operand(frame, i);
        on_a_gpu(own, there, &on_this);
        int in_place = on_this && (uintptr_t)there % OPERAND_ALIGNMENT == 0;
        own->used[i] = in_place ? (void *)there : own->own[i];
        if (!in_place && i < inputs)
            status = tvmconv_copy(frame, own->used[i], there, operand_tensor(i)->bytes);
    }
    frame->inputs = (const void *const *)own->used;
    frame->outputs = own->used + inputs;
    if (!status && frame->times) status = make_events(own);
    if (!status && frame->times) status = driver.event_record(own->events[0], own->target);
    if (!status) status = launch_all(own, frame);
    frame->inputs = given;
    frame->outputs = results;
    for (int32_t i = inputs; i < count && !status; ++i)
        if (own->used[i] != results[i - inputs])
            status = tvmconv_copy(frame, results[i - inputs], own->used[i],
                                  operand_tensor(i)->bytes);
    return status;
}

static int32_t run_program(tvmconv_state *state, tvmconv_frame *frame) {
    struct tvmconv_gpu_state *own = state->gpu;
    frame->failed = -1;
    if (gpus.process != getpid()) return -1;
    cu_result status = driver.context_push(state->gpu->gpu->context);
    if (status) return status;
    frame->arena = (char *)own->arena;
    frame->constants = (char *)own->gpu->constants;
    frame->gpu = own;
    own->target = frame->queued ? frame->stream : own->stream;
    own->captured = own->captured && frame->queued;
    status = submit(own, frame);
    if (own->captured) {
        /* a graph has no end to wait for: its owner orders its replays */
        own->last_capture = own->capture;
        if (!status) status = driver.event_record(own->in_graph, own->target);
        driver.context_pop(NULL);
        return status;
    }
    if (!status) __atomic_store_n(&own->gpu->has_run, 1, __ATOMIC_RELAXED);
    if (!status && frame->queued) {
        status = driver.event_record(own->queued, own->target);
        own->going_on = !status;
    }
    if (status || !frame->queued) {
        /* after a failure, too: nothing may go on in the caller's memory */
        cu_result waited = driver.stream_wait(own->target);
        if (!status) status = waited;
        own->going_on = 0;
    }
    if (!status && frame->times) status = read_events(own, frame->times);
    driver.context_pop(NULL);
    if (is_lost(status)) frame->failed = -1; /* another call may have caused it */
    return status;
}

static const char *device_fault(int32_t status) {
    static __thread char text[256];
    if (status < 0) return "a forked child cannot use the GPU of its parent";
    if (!is_lost(status)) return driver_text(status);
    snprintf(text, sizeof text,
             "%s; the GPU is lost to this process, which has to be started again",
             driver_text(status));
    return text;
}
