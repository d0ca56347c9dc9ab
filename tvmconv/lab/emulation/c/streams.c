/* streams.c: memory, streams, events and graphs of the emulated driver. Part of driver.c.
 *
 * A stream holds what it is given until somebody waits for it, so that an order that nobody asked
 * for does not come about: what reads results of another stream without waiting for an event of
 * it reads NaN. As the driver does, it takes the source of a copy from pageable memory at once,
 * and returns from a copy to pageable memory when it is done. */

/* ---- Memory ---- */

typedef struct allocation {
    char *first;
    size_t bytes, all;
    int device;
    struct allocation *next;
} allocation;

static allocation *allocations;
static size_t used[MOST_GPUS];

/* The allocation that an address lies in; NULL of the processor's memory. */
static allocation *allocation_of(uintptr_t address) {
    for (allocation *each = allocations; each; each = each->next)
        if (address >= (uintptr_t)each->first && address < (uintptr_t)each->first + each->bytes)
            return each;
    return NULL;
}

/* ---- What streams do ---- */

typedef struct {
    object head;
    void *module;
    const kernel_library *kernels;
    int device, parameters, most_shared;
    int loaded; /* by its first launch, which a capture may not contain */
    char name[256];
} function;

typedef struct {
    object head;
    long issued, done;
    struct stream *stream; /* of the last record */
    struct timespec time;
    uint64_t capture; /* in which it was recorded last; 0: in none */
} event;

typedef enum { LAUNCH, COPY, FILL, RECORD, WAIT } action;

typedef struct operation {
    action what;
    struct operation *next;
    /* LAUNCH */
    function kernel;
    unsigned grid[3], block[3], shared;
    uintptr_t *arguments;
    int foreign; /* an argument is memory of another GPU */
    /* COPY */
    uintptr_t target, source;
    size_t bytes;
    char *staged; /* the source, where it was the processor's memory */
    /* FILL: target, bytes */
    unsigned char value;
    /* RECORD, WAIT */
    event *event;
    long ticket;
    struct stream *recorded_in; /* WAIT */
} operation;

typedef struct {
    operation *first, **end;
} queue;

typedef struct stream {
    object head;
    queue work;
    int device, non_blocking, capturing, invalidated, mode;
    uint64_t capture; /* its number */
    queue captured;
} stream;

typedef struct {
    object head;
    queue work;
} graph;

/* the default stream, whose handles are NULL and 1 */
static stream legacy;

/* Captures that forbid what allocates, loads or asks for an end: of mode 0 in all threads, of mode
 * 1 in the thread that began it. */
static int captures_of_all;
static __thread int captures_of_thread;

static int forbidden(void) {
    if (!captures_of_all && !captures_of_thread) return 0;
    for (object *each = objects; each; each = each->next)
        if (each->kind == STREAM && ((stream *)each)->capturing) ((stream *)each)->invalidated = 1;
    return 1;
}

#define UNCAPTURED                                                                                 \
    do {                                                                                           \
        pthread_mutex_lock(&mutex);                                                                \
        int forbids = forbidden();                                                                 \
        pthread_mutex_unlock(&mutex);                                                              \
        if (forbids) return CAPTURE_UNSUPPORTED;                                                   \
    } while (0)

static void start_queue(queue *work) {
    if (!work->end) work->end = &work->first;
}

static void append(queue *work, operation *made) {
    start_queue(work);
    *work->end = made;
    work->end = &made->next;
}

static void free_operation(operation *done) {
    free(done->arguments);
    free(done->staged);
    free(done);
}

static void clear(queue *work) {
    while (work->first) {
        operation *first = work->first;
        work->first = first->next;
        free_operation(first);
    }
    work->end = &work->first;
}

static operation *copy_of(const operation *given) {
    operation *made = malloc(sizeof *made);
    size_t bytes = (size_t)given->kernel.parameters * sizeof(uintptr_t);
    *made = *given;
    made->next = NULL;
    if (given->arguments) {
        made->arguments = malloc(bytes + 1);
        memcpy(made->arguments, given->arguments, bytes);
    }
    return made;
}

static void run_kernel(operation *launch) {
    void *pointers[launch->kernel.parameters + 1];
    for (int i = 0; i < launch->kernel.parameters; ++i) pointers[i] = &launch->arguments[i];
    if (++counts.kernels == variable("TVMCONV_EMULATED_LOST", 0)) {
        sticky = LOST;
    } else if (launch->foreign) {
        snprintf(failure, sizeof failure, "%s was given memory of another GPU",
                 launch->kernel.name);
        sticky = FAILED;
    } else if (launch->kernel.kernels->launch(launch->kernel.name, launch->grid, launch->block,
                                              launch->shared, pointers)) {
        snprintf(failure, sizeof failure, "%s", launch->kernel.kernels->message());
        sticky = FAILED;
    }
}

static void drain_until(stream *given, const event *reached, long ticket) {
    while (given->work.first && !(reached && reached->done >= ticket)) {
        operation *next = given->work.first;
        given->work.first = next->next;
        if (!next->next) given->work.end = &given->work.first;
        if (sticky) {
            /* nothing more happens on a GPU that is lost */
        } else if (next->what == LAUNCH) {
            run_kernel(next);
        } else if (next->what == COPY) {
            const void *source = next->staged ? next->staged : (const void *)next->source;
            memmove((void *)next->target, source, next->bytes);
        } else if (next->what == FILL) {
            memset((void *)next->target, next->value, next->bytes);
        } else if (next->what == RECORD) {
            clock_gettime(CLOCK_MONOTONIC, &next->event->time);
        } else if (next->event->done < next->ticket) {
            drain_until(next->recorded_in, next->event, next->ticket);
        }
        if (next->what == RECORD && next->event->done < next->ticket)
            next->event->done = next->ticket;
        free_operation(next);
    }
}

static void drain(stream *given) { drain_until(given, NULL, 0); }

static void drain_all(void) {
    drain(&legacy);
    for (object *each = objects; each; each = each->next)
        if (each->kind == STREAM) drain((stream *)each);
}

/* A stream of the current context's GPU. */
static stream *stream_of(void *handle) {
    if (handle == NULL || handle == (void *)1) return &legacy;
    stream *found = find(handle, STREAM);
    return found && found->device == device_of_context() ? found : NULL;
}

/* Gives a stream, or the graph that it is captured into, something to do. */
static int submit(void *handle, operation *made) {
    stream *given = stream_of(handle);
    if (!given) {
        free_operation(made);
        return BAD_HANDLE;
    }
    if (given->capturing) {
        int graphic = made->what == LAUNCH || made->what == FILL ||
                      (made->what == COPY && !made->staged);
        if (graphic && !given->invalidated) {
            append(&given->captured, made);
            return 0;
        }
        free_operation(made);
        given->invalidated = 1;
        return CAPTURE_UNSUPPORTED;
    }
    if (given == &legacy) { /* it goes after all others, and they go after it */
        for (object *each = objects; each; each = each->next)
            if (each->kind == STREAM && !((stream *)each)->non_blocking) drain((stream *)each);
    } else if (!given->non_blocking) {
        drain(&legacy);
    }
    append(&given->work, made);
    return 0;
}

static operation *operation_of(action what) {
    operation *made = calloc(1, sizeof *made);
    made->what = what;
    return made;
}

/* ---- Memory, as the driver gives it ---- */

EXPORTED int cuMemAlloc_v2(uintptr_t *result, size_t bytes) {
    IN_CONTEXT;
    UNCAPTURED;
    if (!bytes) return INVALID;
    int device = device_of_context(), status = NO_MEMORY;
    size_t all = (bytes + 255) / 256 * 256;
    pthread_mutex_lock(&mutex);
    if (used[device] + all <= (size_t)variable("TVMCONV_EMULATED_MEMORY", 1l << 30)) {
        allocation *made = calloc(1, sizeof *made);
        made->first = aligned_alloc(256, all);
        memset(made->first, 0xff, all);
        made->bytes = bytes;
        made->all = all;
        made->device = device;
        made->next = allocations;
        allocations = made;
        for (kernel_library *each = libraries; each; each = each->next)
            each->remember(made->first, bytes);
        used[device] += all;
        *result = (uintptr_t)made->first;
        status = 0;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuMemFree_v2(uintptr_t pointer) {
    IN_CONTEXT;
    UNCAPTURED;
    pthread_mutex_lock(&mutex);
    drain_all(); /* it waits for the GPU */
    allocation **link = &allocations;
    while (*link && (uintptr_t)(*link)->first != pointer) link = &(*link)->next;
    allocation *found = *link;
    if (found) {
        *link = found->next;
        for (kernel_library *each = libraries; each; each = each->next) each->forget(found->first);
        used[found->device] -= found->all;
        memset(found->first, 0xff, found->all);
        free(found->first);
        free(found);
    }
    pthread_mutex_unlock(&mutex);
    return found ? 0 : INVALID;
}

EXPORTED int cuPointerGetAttribute(void *value, int attribute, uintptr_t pointer) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    allocation *found = allocation_of(pointer);
    int status = found && (attribute == 2 || attribute == 9) ? 0 : INVALID;
    /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_DEVICE; CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */
    if (!status) *(unsigned *)value = attribute == 2 ? 2u : (unsigned)found->device;
    pthread_mutex_unlock(&mutex);
    return status;
}

static int fits(const allocation *found, uintptr_t address, size_t bytes) {
    return !found || bytes <= found->bytes - (address - (uintptr_t)found->first);
}

EXPORTED int cuMemcpyAsync(uintptr_t target, uintptr_t source, size_t bytes, void *handle) {
    IN_CONTEXT;
    if (!target || !source) return INVALID;
    pthread_mutex_lock(&mutex);
    const allocation *to = allocation_of(target), *from = allocation_of(source);
    int status = fits(to, target, bytes) && fits(from, source, bytes) ? 0 : INVALID;
    if (!status) {
        operation *made = operation_of(COPY);
        made->target = target;
        made->source = source;
        made->bytes = bytes;
        if (!from) {
            made->staged = malloc(bytes + 1);
            memcpy(made->staged, (const void *)source, bytes);
        }
        ++*(to && from ? &counts.copies : &counts.host_copies);
        status = submit(handle, made);
        stream *given = stream_of(handle);
        if (!status && !to && given->capturing) {
            given->invalidated = 1;
            status = CAPTURE_UNSUPPORTED;
        } else if (!status && !to) {
            drain(given);
            status = sticky;
        }
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuMemsetD8Async(uintptr_t target, unsigned char value, size_t bytes, void *handle) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    const allocation *to = allocation_of(target);
    int status = to && fits(to, target, bytes) ? 0 : INVALID;
    if (!status) {
        operation *made = operation_of(FILL);
        made->target = target;
        made->value = value;
        made->bytes = bytes;
        status = submit(handle, made);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuMemcpyHtoD_v2(uintptr_t target, const void *source, size_t bytes) {
    return cuMemcpyAsync(target, (uintptr_t)source, bytes, NULL);
}

EXPORTED int cuMemcpyDtoH_v2(void *target, uintptr_t source, size_t bytes) {
    return cuMemcpyAsync((uintptr_t)target, source, bytes, NULL);
}

EXPORTED int cuMemcpyHtoDAsync_v2(uintptr_t target, const void *source, size_t bytes,
                                  void *handle) {
    return cuMemcpyAsync(target, (uintptr_t)source, bytes, handle);
}

EXPORTED int cuMemcpyDtoHAsync_v2(void *target, uintptr_t source, size_t bytes, void *handle) {
    return cuMemcpyAsync((uintptr_t)target, source, bytes, handle);
}

/* ---- Streams and events ---- */

EXPORTED int cuStreamCreate(void **result, unsigned flags) {
    IN_CONTEXT;
    if (flags > 1) return INVALID;
    pthread_mutex_lock(&mutex);
    stream *made = give(STREAM, sizeof *made);
    made->non_blocking = (int)flags;
    made->device = device_of_context();
    *result = made;
    pthread_mutex_unlock(&mutex);
    return 0;
}

EXPORTED int cuStreamDestroy_v2(void *handle) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    stream *given = find(handle, STREAM);
    if (given) {
        drain(given);
        clear(&given->captured);
        take_back(given);
    }
    pthread_mutex_unlock(&mutex);
    return given ? 0 : BAD_HANDLE;
}

EXPORTED int cuStreamSynchronize(void *handle) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    stream *given = stream_of(handle);
    int status = !given ? BAD_HANDLE : 0;
    if (given && given->capturing) {
        given->invalidated = 1;
        status = CAPTURE_UNSUPPORTED;
    } else if (given) {
        drain(given);
        status = sticky;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuStreamGetCaptureInfo_v2(void *handle, int *phase, uint64_t *number, void **graph,
                                       const void ***nodes, size_t *count) {
    IN_CONTEXT;
    if (graph || nodes || count) return INVALID; /* of no use here */
    pthread_mutex_lock(&mutex);
    stream *given = stream_of(handle);
    if (given) *phase = given->capturing ? 1 + given->invalidated : 0;
    if (given) *number = given->capture;
    pthread_mutex_unlock(&mutex);
    return given ? 0 : BAD_HANDLE;
}

EXPORTED int cuEventCreate(void **result, unsigned flags) {
    IN_CONTEXT;
    if (flags > 3) return INVALID;
    pthread_mutex_lock(&mutex);
    *result = give(EVENT, sizeof(event));
    pthread_mutex_unlock(&mutex);
    return 0;
}

EXPORTED int cuEventRecord(void *handle, void *where) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    event *given = find(handle, EVENT);
    stream *place = stream_of(where);
    int status = given && place ? 0 : BAD_HANDLE;
    if (!status) given->capture = place->capturing ? place->capture : 0;
    if (!status && !place->capturing) {
        operation *made = operation_of(RECORD);
        made->event = given;
        made->ticket = given->issued + 1;
        status = submit(where, made);
        if (!status) {
            ++given->issued;
            given->stream = stream_of(where);
        }
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuStreamWaitEvent(void *where, void *handle, unsigned flags) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    event *given = find(handle, EVENT);
    stream *place = stream_of(where);
    int status = flags ? INVALID : given && place ? 0 : BAD_HANDLE;
    if (!status && place->capturing && given->capture != place->capture) {
        place->invalidated = 1;
        status = CAPTURE_ISOLATION;
    } else if (!status && !place->capturing && given->capture) {
        status = CAPTURED_EVENT; /* forks of a capture are not emulated */
    } else if (!status && !place->capturing && given->issued) {
        operation *made = operation_of(WAIT);
        made->event = given;
        made->ticket = given->issued;
        made->recorded_in = given->stream;
        status = submit(where, made);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuEventQuery(void *handle) {
    IN_CONTEXT;
    UNCAPTURED;
    pthread_mutex_lock(&mutex);
    const event *given = find(handle, EVENT);
    int status = !given                        ? BAD_HANDLE
                 : given->capture              ? CAPTURED_EVENT
                 : given->done < given->issued ? NOT_READY
                                               : sticky;
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuEventSynchronize(void *handle) {
    IN_CONTEXT;
    UNCAPTURED;
    pthread_mutex_lock(&mutex);
    event *given = find(handle, EVENT);
    if (given && given->done < given->issued) drain_until(given->stream, given, given->issued);
    pthread_mutex_unlock(&mutex);
    return given ? sticky : BAD_HANDLE;
}

EXPORTED int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    const event *from = find(start, EVENT), *to = find(end, EVENT);
    int status = !from || !to || !from->issued || !to->issued                    ? BAD_HANDLE
                 : from->done < from->issued || to->done < to->issued ? NOT_READY
                                                                                 : 0;
    if (!status)
        *milliseconds = (float)((double)(to->time.tv_sec - from->time.tv_sec) * 1e3 +
                                (double)(to->time.tv_nsec - from->time.tv_nsec) * 1e-6);
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuEventDestroy_v2(void *handle) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    event *given = find(handle, EVENT);
    if (given) {
        drain_all(); /* operations name it */
        take_back(given);
    }
    pthread_mutex_unlock(&mutex);
    return given ? 0 : BAD_HANDLE;
}

/* ---- Launches and graphs ---- */

EXPORTED int cuLaunchKernel(void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, void *where, void **arguments, void **extra) {
    IN_CONTEXT;
    if (extra || !arguments || !grid_x || !grid_y || !grid_z || grid_y > 65535 || grid_z > 65535)
        return INVALID;
    if (!block_x || !block_y || !block_z || block_z > 64 || block_x * block_y * block_z > 1024)
        return INVALID;
    pthread_mutex_lock(&mutex);
    function *given = find(handle, FUNCTION);
    stream *target = stream_of(where);
    int status = given && given->device == device_of_context() ? 0 : BAD_HANDLE;
    if (!status && target && target->capturing && !given->loaded) target->invalidated = 1;
    if (!status && target && !target->capturing) given->loaded = 1;
    if (!status) {
        unsigned most = (unsigned)given->most_shared;
        if (shared_bytes > (most > STATIC_SHARED ? most : STATIC_SHARED)) status = INVALID;
        for (int i = 0; i < given->parameters; ++i)
            if (!arguments[i]) status = INVALID;
    }
    if (!status) {
        operation *made = operation_of(LAUNCH);
        made->kernel = *given;
        made->grid[0] = grid_x, made->grid[1] = grid_y, made->grid[2] = grid_z;
        made->block[0] = block_x, made->block[1] = block_y, made->block[2] = block_z;
        made->shared = shared_bytes;
        made->arguments = malloc((size_t)given->parameters * sizeof(uintptr_t) + 1);
        /* all parameters are pointers */
        for (int i = 0; i < given->parameters; ++i) {
            memcpy(&made->arguments[i], arguments[i], sizeof(uintptr_t));
            const allocation *there = allocation_of(made->arguments[i]);
            if (there && there->device != given->device) made->foreign = 1;
        }
        ++counts.launches;
        status = submit(where, made);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuStreamBeginCapture_v2(void *handle, int mode) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    stream *given = stream_of(handle);
    int status = !given                               ? BAD_HANDLE
                 : mode < 0 || mode > 2               ? INVALID
                 : given == &legacy || given->capturing ? CAPTURE_UNSUPPORTED
                                                      : 0;
    if (!status) {
        static uint64_t captures;
        given->capturing = 1;
        given->invalidated = 0;
        given->mode = mode;
        given->capture = ++captures;
        if (mode == 0) ++captures_of_all;
        if (mode == 1) ++captures_of_thread;
        clear(&given->captured);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

EXPORTED int cuStreamEndCapture(void *handle, void **result) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    stream *given = find(handle, STREAM);
    int status = !given ? BAD_HANDLE : !given->capturing ? INVALID : 0;
    *result = NULL;
    if (!status && given->invalidated) status = CAPTURE_INVALIDATED;
    if (!status) {
        graph *made = give(GRAPH, sizeof *made);
        start_queue(&made->work);
        for (operation *each = given->captured.first; each; each = each->next)
            append(&made->work, copy_of(each));
        *result = made;
    }
    if (given && given->capturing) {
        if (given->mode == 0) --captures_of_all;
        if (given->mode == 1) --captures_of_thread;
    }
    if (given) {
        given->capturing = 0;
        clear(&given->captured);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

static graph *copied(kind_of kind, const graph *given) {
    graph *made = give(kind, sizeof *made);
    start_queue(&made->work);
    for (operation *each = given->work.first; each; each = each->next)
        append(&made->work, copy_of(each));
    return made;
}

EXPORTED int cuGraphInstantiateWithFlags(void **result, void *handle, unsigned long long flags) {
    IN_CONTEXT;
    if (flags) return INVALID;
    if (!variable("TVMCONV_EMULATED_GRAPHS", 1)) return NOT_SUPPORTED;
    pthread_mutex_lock(&mutex);
    const graph *given = find(handle, GRAPH);
    if (given) *result = copied(EXECUTABLE, given);
    pthread_mutex_unlock(&mutex);
    return given ? 0 : BAD_HANDLE;
}

EXPORTED int cuGraphLaunch(void *handle, void *where) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    const graph *given = find(handle, EXECUTABLE);
    int status = given ? 0 : BAD_HANDLE;
    if (given) ++counts.graph_launches;
    for (operation *each = given ? given->work.first : NULL; each && !status; each = each->next)
        status = submit(where, copy_of(each));
    pthread_mutex_unlock(&mutex);
    return status;
}

static int destroy_graph(void *handle, kind_of kind) {
    IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    graph *given = find(handle, kind);
    if (given) {
        clear(&given->work);
        take_back(given);
    }
    pthread_mutex_unlock(&mutex);
    return given ? 0 : BAD_HANDLE;
}

EXPORTED int cuGraphDestroy(void *handle) { return destroy_graph(handle, GRAPH); }

EXPORTED int cuGraphExecDestroy(void *handle) { return destroy_graph(handle, EXECUTABLE); }
