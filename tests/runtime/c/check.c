/* Drives the toy model as a C program does: check MODEL.so TEST [RUNS]. Prints what went wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tvmconv.h"

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { ROWS = 64, COLUMNS = 256, THREADS = 8 };

static const tvmconv_model *model;
static int runs = 20;
static float serial_scores[ROWS];

/* One call's memory; the mask is at an odd address, the image 4 bytes off any alignment. */
typedef struct {
    float room[ROWS * COLUMNS + 32];
    uint8_t mask_room[ROWS + 1];
    float scores[ROWS], half[ROWS / 2];
    float *image;
    uint8_t *mask;
} call;

static call *new_call(void) {
    call *own = calloc(1, sizeof *own);
    EXPECT(own);
    own->image = (float *)(((uintptr_t)own->room + 63) / 64 * 64) + 1;
    own->mask = own->mask_room + !((uintptr_t)own->mask_room % 2);
    for (int i = 0; i < ROWS * COLUMNS; ++i) own->image[i] = (float)(i * 37 % 101) / 101;
    for (int i = 0; i < ROWS; ++i) own->mask[i] = (uint8_t)(i % 3);
    return own;
}

static int32_t run(tvmconv_state *state, call *own) {
    const void *inputs[] = {own->image, own->mask};
    void *outputs[] = {own->scores, own->half};
    return model->run(state, inputs, outputs);
}

static void run_and_compare(tvmconv_state *state, call *own) {
    memset(own->scores, 0xff, sizeof own->scores);
    memset(own->half, 0xff, sizeof own->half);
    int32_t status = run(state, own);
    if (status) fprintf(stderr, "%d: %s\n", (int)status, model->message(state));
    EXPECT(status == TVMCONV_OK);
    EXPECT(!memcmp(own->scores, serial_scores, sizeof own->scores));
    EXPECT(!memcmp(own->half, serial_scores + ROWS / 2, sizeof own->half));
}

static tvmconv_state *new_state(const tvmconv_options *options) {
    char message[512];
    tvmconv_state *state = NULL;
    int32_t status = model->create(options, &state, message, sizeof message);
    if (status) fprintf(stderr, "%d: %s\n", (int)status, message);
    EXPECT(status == TVMCONV_OK && state && !message[0]);
    return state;
}

static tvmconv_options with_threads(int32_t threads) {
    tvmconv_options options = {0};
    options.size = sizeof options;
    options.threads = threads;
    return options;
}

/* A caller's own parallel-for: any order, threads of its own. */
typedef struct {
    tvmconv_task task;
    void *argument;
    int32_t index, status;
} own_part;

static void *run_own_part(void *argument) {
    own_part *part = argument;
    part->status = part->task(part->argument, part->index);
    return NULL;
}

static int32_t backwards(void *context, int32_t count, tvmconv_task task, void *argument) {
    pthread_t threads[64];
    own_part parts[64];
    int32_t status = 0;
    EXPECT(count <= 64);
    ++*(int *)context;
    for (int32_t i = count - 1; i >= 0; --i) {
        parts[i] = (own_part){task, argument, i, 0};
        EXPECT(!pthread_create(&threads[i], NULL, run_own_part, &parts[i]));
    }
    for (int32_t i = 0; i < count; ++i) {
        pthread_join(threads[i], NULL);
        if (parts[i].status) status = parts[i].status;
    }
    return status;
}

static void test_one(void) {
    call *own = new_call();
    for (int32_t threads = 0; threads <= 2; ++threads) {
        tvmconv_options options = with_threads(threads);
        tvmconv_state *state = new_state(threads ? &options : NULL);
        EXPECT(model->threads(state) >= 1 && model->threads(state) <= 2);
        EXPECT(!strcmp(model->message(state), ""));
        for (int i = 0; i < runs; ++i) run_and_compare(state, own);
        model->destroy(state);
    }
    for (int i = 0; i < ROWS; ++i) {
        double sum = 0;
        for (int j = 0; j < COLUMNS; ++j) sum += 2.0 * own->image[i * COLUMNS + j] + j / 4.0;
        sum *= own->mask[i];
        EXPECT(fabs(own->scores[i] - sum) <= 1e-5 * fabs(sum));
    }
    free(own);
}

static void test_errors(void) {
    char message[256];
    tvmconv_state *state = (tvmconv_state *)message;
    tvmconv_options options = with_threads(-1);
    EXPECT(model->create(&options, &state, message, sizeof message) == TVMCONV_INVALID);
    EXPECT(state == NULL && strstr(message, "threads"));
    EXPECT(model->create(&options, &state, message, 5) == TVMCONV_INVALID && !message[4]);
    EXPECT(model->create(&options, &state, NULL, 0) == TVMCONV_INVALID);
    EXPECT(model->create(NULL, NULL, message, sizeof message) == TVMCONV_INVALID);
    options.threads = 1 << 20;
    EXPECT(model->create(&options, &state, message, sizeof message) == TVMCONV_INVALID);
    options = with_threads(1);
    options.size = 4;
    EXPECT(model->create(&options, &state, message, sizeof message) == TVMCONV_INVALID);
    EXPECT(strstr(message, "size"));
    options.size = 0xffffffff;
    EXPECT(model->create(&options, &state, message, sizeof message) == TVMCONV_INVALID);
    EXPECT(strstr(message, "size"));
    options.size = 8; /* a caller of the first version knows threads only */
    model->destroy(new_state(&options));
    struct {
        tvmconv_options known;
        uint64_t unknown;
    } newer = {with_threads(1), 0};
    newer.known.size = sizeof newer;
    model->destroy(new_state(&newer.known));
    newer.unknown = 1;
    EXPECT(model->create(&newer.known, &state, message, sizeof message) == TVMCONV_INVALID);
    EXPECT(strstr(message, "does not know"));

    call *own = new_call();
    int64_t times[3];
    state = new_state(NULL);
    const void *inputs[] = {own->image, own->mask};
    void *outputs[] = {own->scores, own->half};
    EXPECT(model->run(NULL, inputs, outputs) == TVMCONV_INVALID);
    EXPECT(model->run(state, NULL, outputs) == TVMCONV_INVALID);
    EXPECT(strstr(model->message(state), "image") && strstr(model->message(state), "NULL"));
    EXPECT(model->run(state, inputs, NULL) == TVMCONV_INVALID);
    EXPECT(strstr(model->message(state), "scores"));
    inputs[1] = NULL;
    EXPECT(model->run(state, inputs, outputs) == TVMCONV_INVALID);
    EXPECT(strstr(model->message(state), "mask"));
    inputs[0] = (char *)own->image + 1;
    EXPECT(model->run(state, inputs, outputs) == TVMCONV_INVALID);
    EXPECT(strstr(model->message(state), "aligned"));
    inputs[0] = own->image, inputs[1] = own->mask;
    EXPECT(model->profile(state, inputs, outputs, NULL) == TVMCONV_INVALID);
    float first = own->image[0];
    own->image[0] = 1e30f;
    EXPECT(run(state, own) == TVMCONV_FAILED);
    EXPECT(strstr(model->message(state), "toy_scale returned 7"));
    own->image[0] = 2e30f;
    EXPECT(model->profile(state, inputs, outputs, times) == TVMCONV_FAILED);
    EXPECT(strstr(model->message(state), "scratch memory"));
    own->image[0] = first;
    run_and_compare(state, own); /* a failed call does no harm */
    model->destroy(state);
    model->destroy(NULL);
    EXPECT(!strcmp(model->message(NULL), "") && model->threads(NULL) == 0);

    tvmconv_pool *pool;
    EXPECT(model->pool_create(-1, &pool) == TVMCONV_INVALID);
    EXPECT(model->pool_create(2, NULL) == TVMCONV_INVALID);
    EXPECT(model->pool_create(0, &pool) == TVMCONV_OK);
    model->pool_destroy(pool);
    model->pool_destroy(NULL);
    free(own);
}

static void test_states(void) {
    tvmconv_state *states[3];
    call *own = new_call();
    for (int i = 0; i < 3; ++i) states[i] = new_state(NULL);
    for (int i = 0; i < 3 * runs; ++i) run_and_compare(states[i % 3], own);
    for (int i = 0; i < 3; ++i) model->destroy(states[i]);
    free(own);
}

/* A state that two threads use at a time says so and computes nothing wrong. */
static int32_t reenter(void *context, int32_t count, tvmconv_task task, void *argument) {
    call *own = new_call();
    int32_t status = 0;
    EXPECT(run(*(tvmconv_state **)context, own) == TVMCONV_BUSY);
    for (int32_t i = 0; i < count; ++i) status |= task(argument, i);
    EXPECT(task(argument, count) != 0 && task(argument, -1) != 0);
    free(own);
    return status;
}

static void test_parallel_for(void) {
    int calls = 0;
    call *own = new_call();
    tvmconv_options options = with_threads(7);
    options.parallel_for = backwards;
    options.parallel_context = &calls;
    tvmconv_state *state = new_state(&options);
    EXPECT(model->threads(state) == 7);
    for (int i = 0; i < runs; ++i) run_and_compare(state, own);
    EXPECT(calls == 2 * runs); /* no launch within a launch comes here */
    model->destroy(state);

    options.parallel_for = reenter;
    options.parallel_context = &state;
    state = new_state(&options);
    run_and_compare(state, own);
    model->destroy(state);
#ifdef _OPENMP
    options = with_threads(4);
    options.parallel_for = tvmconv_openmp_parallel_for;
    state = new_state(&options);
    for (int i = 0; i < runs; ++i) run_and_compare(state, own);
    model->destroy(state);
#endif
    free(own);
}

static void *run_in_thread(void *pool) {
    call *own = new_call();
    tvmconv_options options = with_threads(pool ? 3 : 2);
    options.parallel_for = pool ? model->pool_parallel_for : NULL;
    options.parallel_context = pool;
    tvmconv_state *state = new_state(&options);
    for (int i = 0; i < runs; ++i) run_and_compare(state, own);
    model->destroy(state);
    free(own);
    return NULL;
}

static void run_in_threads(tvmconv_pool *pool) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i)
        EXPECT(!pthread_create(&threads[i], NULL, run_in_thread, pool));
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

static void test_threads(void) { run_in_threads(NULL); }

static void test_pool(void) {
    tvmconv_pool *pool;
    EXPECT(model->pool_create(4, &pool) == TVMCONV_OK);
    run_in_threads(pool);
    model->pool_destroy(pool);
}

static volatile int looping;

static void *loop(void *state) {
    call *own = new_call();
    while (looping) run_and_compare(state, own);
    free(own);
    return NULL;
}

/* Children of a process whose other thread is in the middle of a run with the same pool. */
static void test_fork(void) {
    tvmconv_pool *pool;
    pthread_t other;
    call *own = new_call();
    EXPECT(model->pool_create(2, &pool) == TVMCONV_OK);
    tvmconv_options options = with_threads(2);
    options.parallel_for = model->pool_parallel_for;
    options.parallel_context = pool;
    tvmconv_state *sharing[] = {new_state(&options), new_state(&options)}, *alone = new_state(NULL);
    run_and_compare(alone, own);
    looping = 1;
    EXPECT(!pthread_create(&other, NULL, loop, sharing[0]));
    for (int i = 0; i < runs; ++i) {
        run_and_compare(sharing[1], own);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            for (int j = 0; j < 3; ++j) {
                run_and_compare(alone, own);
                run_and_compare(sharing[0], own);
                run_and_compare(sharing[1], own);
            }
            pid_t grandchild = fork();
            if (grandchild == 0) {
                alarm(60); /* a child inherits none */
                run_and_compare(alone, own);
                model->destroy(alone);
                _exit(0);
            }
            int ended = -1;
            EXPECT(waitpid(grandchild, &ended, 0) == grandchild && ended == 0);
            model->destroy(alone);
            model->destroy(sharing[0]);
            model->destroy(sharing[1]);
            if (i % 2) model->pool_destroy(pool);
            _exit(0);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
    looping = 0;
    pthread_join(other, NULL);
    for (int i = 0; i < 2; ++i) model->destroy(sharing[i]);
    model->destroy(alone);
    model->pool_destroy(pool);
    free(own);
}

/* A queue's options; the state of each stream has `threads`. */
static tvmconv_queue *new_queue(int32_t streams, int32_t threads, const char *cpus) {
    char message[512];
    tvmconv_queue *queue = NULL;
    tvmconv_options each = with_threads(threads);
    tvmconv_queue_options options = {sizeof options, streams, &each, cpus};
    int32_t status = model->queue_create(&options, &queue, message, sizeof message);
    if (status) fprintf(stderr, "%d: %s\n", (int)status, message);
    EXPECT(status == TVMCONV_OK && queue && !message[0]);
    return queue;
}

/* A submitted call and what became of it. */
typedef struct {
    call *own;
    int32_t status, ended;
    char message[128];
} queued;

static void note(void *argument, int32_t status, const tvmconv_state *state) {
    queued *one = argument;
    one->status = status;
    snprintf(one->message, sizeof one->message, "%s", model->message(state));
    __atomic_fetch_add(&one->ended, 1, __ATOMIC_RELEASE);
}

static int32_t submit(tvmconv_queue *queue, queued *one) {
    const void *inputs[] = {one->own->image, one->own->mask};
    void *outputs[] = {one->own->scores, one->own->half};
    return model->queue_submit(queue, NULL, inputs, outputs, note, one);
}

enum { QUEUED = 32 };

static void *submit_many(void *argument) {
    tvmconv_queue *queue = argument;
    queued calls[QUEUED] = {{0}};
    for (int i = 0; i < QUEUED; ++i) calls[i].own = new_call();
    for (int i = 0; i < runs; ++i) {
        EXPECT(submit(queue, &calls[i % QUEUED]) == TVMCONV_OK);
        EXPECT(model->queue_wait(queue, QUEUED / 2) <= QUEUED / 2);
        if (i % QUEUED == QUEUED - 1) model->queue_wait(queue, 0);
    }
    model->queue_wait(queue, 0);
    for (int i = 0; i < QUEUED; ++i) {
        if (i < runs) EXPECT(!memcmp(calls[i].own->scores, serial_scores, sizeof serial_scores));
        EXPECT(calls[i].status == TVMCONV_OK);
        free(calls[i].own);
    }
    return NULL;
}

static void test_queue(void) {
    const char *const cpus[] = {NULL, NULL, "performance", "0-9999"};
    const int64_t image_shape[] = {64, 256}, mask_shape[] = {64}, other[] = {65};
    const int64_t *shapes[] = {image_shape, mask_shape}, *wrong[] = {image_shape, other};
    queued one = {new_call(), 0, 0, ""};
    for (int32_t i = 0; i < 4; ++i) {
        pthread_t others[2];
        tvmconv_queue *queue = new_queue(i, i % 2 + 1, cpus[i]);
        EXPECT(i ? model->queue_streams(queue) == i : model->queue_streams(queue) >= 1);
        for (int j = 0; j < 2; ++j)
            EXPECT(!pthread_create(&others[j], NULL, submit_many, queue));
        for (int j = 0; j < 2; ++j) pthread_join(others[j], NULL);
        model->queue_destroy(queue);
    }
    tvmconv_queue *queue = new_queue(1, 1, NULL);
    const void *inputs[] = {one.own->image, one.own->mask};
    void *outputs[] = {one.own->scores, NULL};
    EXPECT(model->queue_submit(queue, NULL, inputs, outputs, note, &one) == TVMCONV_OK);
    EXPECT(model->queue_wait(queue, 0) == 0 && one.ended == 1);
    EXPECT(one.status == TVMCONV_INVALID && strstr(one.message, "output 1, half, is NULL"));
    outputs[1] = one.own->half;
    EXPECT(model->queue_submit(queue, wrong, inputs, outputs, note, &one) == TVMCONV_OK);
    model->queue_wait(queue, 0);
    EXPECT(one.status == TVMCONV_INVALID && strstr(one.message, "was not built for"));
    EXPECT(model->queue_submit(queue, shapes, inputs, outputs, note, &one) == TVMCONV_OK);
    model->queue_wait(queue, 0);
    EXPECT(one.status == TVMCONV_OK && one.ended == 3);
    EXPECT(model->queue_submit(queue, NULL, NULL, outputs, note, &one) == TVMCONV_INVALID);
    EXPECT(model->queue_submit(queue, NULL, inputs, outputs, NULL, &one) == TVMCONV_INVALID);
    for (int i = 0; i < 5; ++i) EXPECT(submit(queue, &one) == TVMCONV_OK);
    model->queue_destroy(queue); /* runs what waits */
    EXPECT(one.ended == 8);
    free(one.own);
}

static void test_queue_options(void) {
    char message[512];
    tvmconv_queue *queue = (tvmconv_queue *)message;
    tvmconv_queue_options options = {sizeof options, -1, NULL, NULL};
    EXPECT(model->queue_create(&options, &queue, message, sizeof message) == TVMCONV_INVALID);
    EXPECT(queue == NULL && strstr(message, "streams"));
    options.size = sizeof options + 8;
    EXPECT(model->queue_create(&options, &queue, message, sizeof message) == TVMCONV_INVALID);
    EXPECT(strstr(message, "sizeof(tvmconv_queue_options)"));
    const char *const texts[] = {"", "fast", "node:", "node:x", "node:77", "1-", "3-1", "0,", "60000"};
    options = (tvmconv_queue_options){sizeof options, 1, NULL, NULL};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        options.cpus = texts[i];
        EXPECT(model->queue_create(&options, &queue, message, sizeof message) == TVMCONV_INVALID);
        EXPECT(queue == NULL && strstr(message, "names no CPU"));
    }
    tvmconv_options each = with_threads(-1);
    options = (tvmconv_queue_options){sizeof options, 2, &each, NULL};
    EXPECT(model->queue_create(&options, &queue, message, sizeof message) == TVMCONV_INVALID);
    EXPECT(strstr(message, "threads"));
    EXPECT(model->queue_create(NULL, &queue, NULL, 0) == TVMCONV_OK);
    model->queue_destroy(queue);
    model->queue_destroy(NULL);
    int32_t all = model->cpus(NULL, NULL, 0), first = -1;
    EXPECT(all >= 1 && model->cpus(NULL, &first, 1) == all && first >= 0);
    EXPECT(model->cpus("all", NULL, 0) == -1 && model->cpus("node:77", NULL, 0) == 0);
}

static void test_queue_fork(void) {
    queued one = {new_call(), 0, 0, ""};
    tvmconv_queue *queue = new_queue(2, 2, NULL);
    for (int i = 0; i < runs; ++i) {
        EXPECT(submit(queue, &one) == TVMCONV_OK);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            queued other = {new_call(), 0, 0, ""};
            EXPECT(submit(queue, &other) == TVMCONV_UNSUPPORTED);
            EXPECT(model->queue_wait(queue, 0) == 0);
            model->queue_destroy(queue);
            queue = new_queue(2, 2, NULL);
            EXPECT(submit(queue, &other) == TVMCONV_OK);
            model->queue_destroy(queue);
            EXPECT(other.ended == 1 && other.status == TVMCONV_OK);
            _exit(0);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        model->queue_wait(queue, 0);
    }
    model->queue_destroy(queue);
    free(one.own);
}

enum { IMAGES = 19, PIXELS = ROWS * COLUMNS };

/* Images with another first pixel each, and what single calls make of them. */
typedef struct {
    float *images, *scores, *half;
    call *own;
    float right[IMAGES * ROWS];
    int32_t count, failing, ended;
} batch;

static void use_images(batch *one, int32_t count, int32_t failing) {
    one->count = count, one->failing = failing;
    one->images = malloc((size_t)count * PIXELS * sizeof(float));
    one->scores = calloc((size_t)count * ROWS, sizeof(float));
    one->half = calloc((size_t)count * ROWS / 2, sizeof(float));
    EXPECT(one->images && one->scores && one->half);
    for (int32_t i = 0; i < count; ++i) {
        memcpy(one->images + i * PIXELS, one->own->image, PIXELS * sizeof(float));
        one->images[i * PIXELS + 2 * COLUMNS] = i == failing ? 0 : (float)i;
    }
    if (failing >= 0) one->images[failing * PIXELS] = 1e30f;
}

static void check_images(batch *one, int32_t status, const tvmconv_state *state) {
    EXPECT(status == (one->failing < 0 ? TVMCONV_OK : TVMCONV_FAILED));
    if (status) EXPECT(strstr(model->message(state), "toy_scale returned 7"));
    else EXPECT(!memcmp(one->scores, one->right, (size_t)one->count * ROWS * sizeof(float)));
    for (int32_t i = 0; !status && i < one->count; ++i)
        EXPECT(!memcmp(one->half + i * ROWS / 2, one->right + i * ROWS + ROWS / 2,
                       ROWS / 2 * sizeof(float)));
    free(one->images), free(one->scores), free(one->half);
    ++one->ended;
}

static void check_queued_images(void *argument, int32_t status, const tvmconv_state *state) {
    check_images(argument, status, state);
}

static void run_images(tvmconv_state *state, batch *one) {
    for (int32_t count = 1; count <= IMAGES; count += 1 + count / 5)
        for (int32_t failing = -1; failing < count; failing += 2 + count / 2) {
            use_images(one, count, failing);
            const void *inputs[] = {one->images, one->own->mask};
            void *outputs[] = {one->scores, one->half};
            check_images(one, model->run_batch(state, count, inputs, outputs), state);
        }
}

static void queue_images(batch *one) {
    const int64_t mask_shape[] = {ROWS};
    tvmconv_queue *queue = new_queue(2, 2, NULL);
    batch each[IMAGES];
    for (int32_t i = 0; i < IMAGES; ++i) {
        const int64_t shape[] = {i + 1, ROWS, COLUMNS}, *shapes[] = {shape, mask_shape};
        each[i] = *one;
        each[i].ended = 0;
        use_images(&each[i], i + 1, i % 4 ? -1 : i / 2);
        const void *inputs[] = {each[i].images, one->own->mask};
        void *outputs[] = {each[i].scores, each[i].half};
        EXPECT(!model->queue_submit(queue, shapes, inputs, outputs, check_queued_images, &each[i]));
    }
    model->queue_destroy(queue);
    for (int32_t i = 0; i < IMAGES; ++i) EXPECT(each[i].ended == 1);
}

/* For a model of any batch. */
static void test_batch(void) {
    static const int32_t threads[] = {1, 2, 5, 16};
    static batch one;
    int calls = 0;
    one.own = new_call();
    one.own->mask[2] = 1;
    tvmconv_state *state = new_state(NULL);
    for (int32_t i = 0; i < IMAGES; ++i) {
        float half[ROWS / 2];
        one.own->image[2 * COLUMNS] = (float)i;
        const void *inputs[] = {one.own->image, one.own->mask};
        void *outputs[] = {one.right + i * ROWS, half};
        EXPECT(model->run(state, inputs, outputs) == TVMCONV_OK);
        EXPECT(i == 0 || one.right[i * ROWS + 2] != one.right[2]);
    }
    run_images(state, &one);
    model->destroy(state);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; ++i) {
        tvmconv_options options = with_threads(threads[i]);
        options.parallel_for = backwards;
        options.parallel_context = &calls;
        state = new_state(&options);
        run_images(state, &one);
        model->destroy(state);
    }
    for (int i = 0; i < runs; ++i) queue_images(&one);
    free(one.own);
}

static void test_profile(void) {
    int64_t times[3];
    call *own = new_call();
    tvmconv_state *state = new_state(NULL);
    const void *inputs[] = {own->image, own->mask};
    void *outputs[] = {own->scores, own->half};
    EXPECT(model->description->layer_count == 3);
    for (int i = 0; i < runs; ++i) {
        memset(times, 0xff, sizeof times);
        EXPECT(model->profile(state, inputs, outputs, times) == TVMCONV_OK);
        for (int j = 0; j < 3; ++j) EXPECT(times[j] >= 0 && times[j] < 60000000000);
        EXPECT(!memcmp(own->scores, serial_scores, sizeof own->scores));
    }
    model->destroy(state);
    free(own);
}

#ifdef COUNT_ALLOCATIONS
/* In place of the C library's, which count. */
static int64_t allocations;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static void count_allocation(void) { __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED); }

void *malloc(size_t bytes) { return count_allocation(), __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return count_allocation(), __libc_calloc(count, bytes); }
void *realloc(void *block, size_t bytes) { return count_allocation(), __libc_realloc(block, bytes); }
int posix_memalign(void **block, size_t alignment, size_t bytes) {
    count_allocation();
    *block = __libc_memalign(alignment, bytes);
    return *block == NULL;
}

static void test_allocations(void) {
    tvmconv_pool *pool;
    call *own = new_call();
    EXPECT(model->pool_create(2, &pool) == TVMCONV_OK);
    tvmconv_options options = with_threads(2), shared = with_threads(3);
    shared.parallel_for = model->pool_parallel_for;
    shared.parallel_context = pool;
    tvmconv_state *states[] = {new_state(&options), new_state(&shared)};
    usleep(20000); /* let the threads begin, which the C library may allocate for */
    int64_t before = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
    EXPECT(before > 0);
    for (int i = 0; i < 2 * runs; ++i) run_and_compare(states[i % 2], own);
    EXPECT(__atomic_load_n(&allocations, __ATOMIC_RELAXED) == before);
    for (int i = 0; i < 2; ++i) model->destroy(states[i]);
    model->pool_destroy(pool);
    free(own);
}
#endif

/* Prints the message of create, for tests that expect an error: check MODEL.so create [WEIGHTS]. */
static int print_create(const char *weights) {
    char message[512];
    tvmconv_state *state;
    tvmconv_options options = with_threads(1);
    options.weights_path = weights;
    int32_t status = model->create(&options, &state, message, sizeof message);
    printf("%d %s\n", (int)status, message);
    if (status) return 0;
    call *own = new_call();
    run_and_compare(state, own);
    model->destroy(state);
    free(own);
    return 0;
}

/* For the tests of limits: the threads of a state by default, and of one that asks for many. */
static void print_threads(void) {
    for (int32_t asked = 0; asked <= 2; asked += 2) {
        tvmconv_options options = with_threads(asked);
        tvmconv_state *state = new_state(&options);
        printf("%d\n", (int)model->threads(state));
        model->destroy(state);
    }
}

static const struct {
    const char *name;
    void (*test)(void);
} tests[] = {
    {"one", test_one},         {"errors", test_errors},
    {"states", test_states},   {"parallel_for", test_parallel_for},
    {"threads", test_threads}, {"pool", test_pool},
    {"fork", test_fork},       {"profile", test_profile},
    {"queue", test_queue},     {"queue_options", test_queue_options},
    {"queue_fork", test_queue_fork}, {"print_threads", print_threads},
    {"batch", test_batch},
#ifdef COUNT_ALLOCATIONS
    {"allocations", test_allocations},
#endif
};

/* The same arithmetic in the same order as the kernels'. */
static void compute_serially(void) {
    call *own = new_call();
    for (int i = 0; i < ROWS; ++i) {
        float sum = 0;
        for (int j = 0; j < COLUMNS; ++j) {
            float doubled = 2 * own->image[i * COLUMNS + j];
            sum += doubled + (float)j / 4.0f;
        }
        serial_scores[i] = sum * own->mask[i];
    }
    free(own);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    model = dlsym(library, "tvmconv_model");
    EXPECT(model && model->abi == TVMCONV_ABI && model->size == sizeof *model);
    EXPECT(model->description->size == sizeof *model->description);
    compute_serially();
    if (!strcmp(arguments[2], "create")) return print_create(count > 3 ? arguments[3] : NULL);
    if (count > 3) runs = atoi(arguments[3]);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; ++i)
        if (!strcmp(arguments[2], tests[i].name)) {
            int status = -1;
            tests[i].test();
            dlclose(library); /* and with it what it does at forks */
            pid_t child = fork();
            if (child == 0) _exit(0);
            EXPECT(waitpid(child, &status, 0) == child && status == 0);
            return 0;
        }
    fprintf(stderr, "there is no test %s\n", arguments[2]);
    return 2;
}
