/* queue.c: calls of the model that wait for a free stream. Part of runtime.c.
 *
 * A stream is a thread with a state of its own. It makes the state itself, after it was bound to its
 * CPUs. So the state's threads inherit the binding, and its memory is on the NUMA node of the CPUs. */

typedef struct request {
    struct request *next;
    tvmconv_done done;
    void *argument;
    const void **inputs;
    void **outputs;
    const int64_t **shapes; /* NULL selects the first program */
} request;

typedef struct {
    tvmconv_queue *queue;
    pthread_t thread;
    int32_t first_cpu, cpu_count; /* places in the queue's list */
} stream;

struct tvmconv_queue {
    pthread_mutex_t mutex;
    pthread_cond_t arrived;  /* a request, a stream, or the end */
    pthread_cond_t finished; /* a request */
    request *first, **last;
    int64_t unfinished;
    int32_t ending;
    int32_t begun;       /* streams that have a state, or the reason why not */
    uint32_t started_in; /* forks when the streams were started */
    int32_t status;
    char *message; /* the caller's of queue_create */
    size_t message_size;
    tvmconv_options options;
    cpu_list cpus;
    int32_t count;
    stream streams[];
};

static int32_t answer(tvmconv_state *state, const request *one) {
    int32_t status = TVMCONV_OK;
    int64_t images = one->shapes ? count_images(one->shapes) : 1;
    if (one->shapes) status = tvmconv_set_shapes(state, one->shapes);
    else state->program = 0;
    if (status) return status;
    return images == 1 ? tvmconv_run(state, one->inputs, one->outputs)
                       : tvmconv_run_batch(state, images, one->inputs, one->outputs);
}

/* The state of a stream; NULL if there is none, and the queue then has the reason. */
static tvmconv_state *begin_stream(stream *self) {
    tvmconv_queue *queue = self->queue;
    tvmconv_state *state;
    char message[512];
    if (self->cpu_count) bind_thread(&queue->cpus, self->first_cpu, self->cpu_count);
    int32_t status = tvmconv_create(&queue->options, &state, message, sizeof message);
    pthread_mutex_lock(&queue->mutex);
    if (status && !queue->status)
        queue->status = refuse(queue->message, queue->message_size, status, message);
    ++queue->begun;
    pthread_cond_broadcast(&queue->arrived);
    pthread_mutex_unlock(&queue->mutex);
    return state;
}

static void *serve(void *argument) {
    stream *self = argument;
    tvmconv_queue *queue = self->queue;
    tvmconv_state *state = begin_stream(self);
    if (state == NULL) return NULL;
    pthread_mutex_lock(&queue->mutex);
    for (;;) {
        while (queue->first == NULL && !queue->ending)
            pthread_cond_wait(&queue->arrived, &queue->mutex);
        request *one = queue->first;
        if (one == NULL) break;
        queue->first = one->next;
        if (queue->first == NULL) queue->last = &queue->first;
        pthread_mutex_unlock(&queue->mutex);
        one->done(one->argument, answer(state, one), state);
        free(one);
        pthread_mutex_lock(&queue->mutex);
        --queue->unfinished;
        pthread_cond_broadcast(&queue->finished);
    }
    pthread_mutex_unlock(&queue->mutex);
    tvmconv_destroy(state);
    return NULL;
}

static void end_streams(tvmconv_queue *queue, int32_t started) {
    pthread_mutex_lock(&queue->mutex);
    queue->ending = 1;
    pthread_cond_broadcast(&queue->arrived);
    pthread_mutex_unlock(&queue->mutex);
    for (int32_t i = 0; i < started; ++i) pthread_join(queue->streams[i].thread, NULL);
}

/* Starts the streams and waits until each has a state. */
static int32_t begin_streams(tvmconv_queue *queue) {
    int32_t started = 0;
    while (started < queue->count && start_thread(&queue->streams[started].thread, serve,
                                                  &queue->streams[started]))
        ++started;
    pthread_mutex_lock(&queue->mutex);
    if (started < queue->count)
        queue->status = refuse(queue->message, queue->message_size, TVMCONV_MEMORY,
                               "the system gave no threads for the streams");
    while (queue->begun < started) pthread_cond_wait(&queue->arrived, &queue->mutex);
    pthread_mutex_unlock(&queue->mutex);
    if (queue->status) end_streams(queue, started);
    return queue->status;
}

static int32_t read_queue_options(const tvmconv_queue_options *given, tvmconv_queue_options *options,
                                  char *message, size_t size) {
    memset(options, 0, sizeof *options);
    if (given == NULL) return TVMCONV_OK;
    if (given->size < 8 || given->size > sizeof *options)
        return refuse(message, size, TVMCONV_INVALID,
                      "the size of the queue's options is wrong. Set it to "
                      "sizeof(tvmconv_queue_options), or build the model again.");
    memcpy(options, given, given->size);
    if (options->streams < 0 || options->streams > MOST_THREADS)
        return refuse(message, size, TVMCONV_INVALID, "options.streams is not from 0 to 1024");
    return TVMCONV_OK;
}

int32_t tvmconv_queue_create(const tvmconv_queue_options *given, tvmconv_queue **result,
                             char *message, size_t size) {
    tvmconv_queue_options options;
    tvmconv_options each;
    cpu_list cpus;
    char unread[8];
    if (message == NULL || size == 0) message = unread, size = sizeof unread;
    message[0] = '\0';
    if (result == NULL)
        return refuse(message, size, TVMCONV_INVALID, "the pointer to the queue is NULL");
    *result = NULL;
    int32_t status = read_queue_options(given, &options, message, size);
    if (!status) status = read_options(options.options, &each, message, size);
    if (status) return status;
    if (!find_cpus(options.cpus, &cpus) || (options.cpus && cpus.count == 0)) {
        snprintf(message, size,
                 "options.cpus \"%s\" names no CPU that this process may use. Expected a list such "
                 "as 0-3,8, performance, or node: with a number.",
                 options.cpus ? options.cpus : "");
        return TVMCONV_INVALID;
    }
    int32_t threads = count_threads(&each, tvmconv_this_description.threads);
    int32_t all = options.cpus ? cpus.count : allowed_cpus();
    if (threads > all) threads = all;
    int32_t count = options.streams;
    if (count == 0) count = tvmconv_this_description.device ? 1 : all / threads;

    tvmconv_queue *queue = calloc(1, sizeof *queue + (size_t)count * sizeof(stream));
    if (queue == NULL)
        return refuse(message, size, TVMCONV_MEMORY, "the system gave no memory for the queue");
    prepare_for_forks();
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->arrived, NULL);
    pthread_cond_init(&queue->finished, NULL);
    queue->last = &queue->first;
    queue->started_in = forks;
    queue->message = message;
    queue->message_size = size;
    queue->options = each;
    queue->options.size = sizeof each;
    queue->cpus = cpus;
    queue->count = count;
    for (int32_t i = 0; i < count; ++i)
        queue->streams[i] = (stream){
            .queue = queue, .first_cpu = i * threads, .cpu_count = options.cpus ? threads : 0};
    status = begin_streams(queue);
    if (status) free(queue);
    else *result = queue;
    return status;
}

static void copy_pointers(const void **to, const void *const *from, int32_t count) {
    if (count) memcpy(to, from, (size_t)count * sizeof *to);
}

int32_t tvmconv_queue_submit(tvmconv_queue *queue, const int64_t *const *shapes,
                             const void *const *inputs, void *const *outputs, tvmconv_done done,
                             void *argument) {
    const tvmconv_description *model = &tvmconv_this_description;
    int32_t input_count = model->input_count, output_count = model->output_count;
    if (queue == NULL || done == NULL || (inputs == NULL && input_count) ||
        (outputs == NULL && output_count))
        return TVMCONV_INVALID;
    if (queue->started_in != forks) return TVMCONV_UNSUPPORTED;
    size_t pointers = 2 * (size_t)input_count + (size_t)output_count, extents = 0;
    for (int32_t i = 0; shapes && i < input_count; ++i) {
        if (shapes[i] == NULL && model->inputs[i].rank) return TVMCONV_INVALID;
        extents += (size_t)model->inputs[i].rank;
    }
    request *one = calloc(1, sizeof *one + pointers * sizeof(void *) + extents * sizeof(int64_t));
    if (one == NULL) return TVMCONV_MEMORY;
    one->done = done;
    one->argument = argument;
    one->inputs = (const void **)(one + 1);
    one->outputs = (void **)(one->inputs + input_count);
    copy_pointers(one->inputs, inputs, input_count);
    copy_pointers((const void **)one->outputs, (const void *const *)outputs, output_count);
    const int64_t **copies = (const int64_t **)(void *)(one->outputs + output_count);
    int64_t *next = (int64_t *)(void *)(copies + input_count);
    for (int32_t i = 0; shapes && i < input_count; ++i) {
        size_t rank = (size_t)model->inputs[i].rank;
        if (rank) memcpy(next, shapes[i], rank * sizeof *next);
        copies[i] = next;
        next += rank;
    }
    if (shapes) one->shapes = copies;

    pthread_mutex_lock(&queue->mutex);
    *queue->last = one;
    queue->last = &one->next;
    ++queue->unfinished;
    pthread_cond_signal(&queue->arrived);
    pthread_mutex_unlock(&queue->mutex);
    return TVMCONV_OK;
}

int64_t tvmconv_queue_wait(tvmconv_queue *queue, int64_t most) {
    if (queue == NULL || queue->started_in != forks) return 0;
    pthread_mutex_lock(&queue->mutex);
    while (queue->unfinished > (most < 0 ? 0 : most))
        pthread_cond_wait(&queue->finished, &queue->mutex);
    int64_t unfinished = queue->unfinished;
    pthread_mutex_unlock(&queue->mutex);
    return unfinished;
}

int32_t tvmconv_queue_streams(const tvmconv_queue *queue) { return queue ? queue->count : 0; }

void tvmconv_queue_destroy(tvmconv_queue *queue) {
    if (queue == NULL) return;
    /* a forked child has no streams. It would wait for them here, and does not free what they use */
    if (queue->started_in == forks) {
        end_streams(queue, queue->count);
        pthread_cond_destroy(&queue->arrived);
        pthread_cond_destroy(&queue->finished);
        pthread_mutex_destroy(&queue->mutex);
    }
    free(queue);
}
