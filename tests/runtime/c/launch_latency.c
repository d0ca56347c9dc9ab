/* How long a parallel kernel takes beyond its work: pools of models, OpenMP, TVM's pool.
 *
 * Build a toy model and the program, with R=tvmconv/runtime/c and T=tests/runtime/c:
 * `cc -O2 -fPIC -shared -I$R -o toy.so $T/model.c $T/kernels.c $R/runtime.c -lpthread -ldl`
 * `cc -O2 -fopenmp -I$R -o latency $T/launch_latency.c -ldl`.
 *
 * Run it for each POOL of serial, openmp, libtvm_runtime.so and ./toy.so:
 * `TVM_NUM_THREADS=2 TVM_BIND_THREADS=0 ./latency 2 POOL`.
 *
 * Prints the minimum and the median time of a launch, for each kernel and pause between kernels.
 * Pools of one process are interleaved, so that other load on the machine affects all of them.
 * Idle threads of TVM's pool poll for long, and take the CPUs from the other pools.
 * -DTVMCONV_SPIN_NANOSECONDS=... makes models that poll for another time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tvmconv.h"

enum { ROUNDS = 20, LAUNCHES = 50, WARM_UP = 5, MOST = 16 };

typedef struct {
    const char *name;
    tvmconv_parallel_for parallel_for;
    void *context;
} contender;

static int threads;
static int64_t work_nanoseconds; /* for the whole kernel */

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Work is counted, not timed: a part that loses its CPU has to do it all the same. */
static double turns_per_nanosecond;

static int32_t part(void *argument, int32_t index) {
    volatile int64_t turns = (int64_t)((double)work_nanoseconds / threads * turns_per_nanosecond);
    (void)argument, (void)index;
    while (turns > 0) --turns;
    return 0;
}

static void calibrate(void) {
    for (int i = 0; i < 100; ++i) { /* the fastest: other work may come between */
        volatile int64_t turns = 100000;
        int64_t start = now();
        while (turns > 0) --turns;
        double rate = 100000.0 / (double)(now() - start);
        if (rate > turns_per_nanosecond) turns_per_nanosecond = rate;
    }
}

static int32_t serial(void *context, int32_t count, tvmconv_task task, void *argument) {
    (void)context;
    for (int32_t i = 0; i < count; ++i) task(argument, i);
    return 0;
}

typedef int (*tvm_part)(int, void *, void *);
typedef struct {
    tvmconv_task task;
    void *argument;
} tvm_closure;

static int tvm_run(int id, void *group, void *closure) {
    tvm_closure *own = closure;
    (void)group;
    return own->task(own->argument, id);
}

static int32_t tvm(void *context, int32_t count, tvmconv_task task, void *argument) {
    int (*launch)(tvm_part, void *, int);
    tvm_closure closure = {task, argument};
    memcpy(&launch, &context, sizeof launch);
    return launch(tvm_run, &closure, count);
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments) {
    static int64_t times[MOST][ROUNDS * LAUNCHES];
    static const int64_t works[] = {0, 20000, 1000000};
    static const int64_t pauses[] = {0, 20000, 100000, 500000};
    contender all[MOST];
    int contenders = 0;
    if (count < 2) return 2;
    threads = atoi(arguments[1]);
    for (int i = 2; i < count && contenders < MOST; ++i) {
        contender *one = &all[contenders++];
        *one = (contender){arguments[i], serial, NULL};
        if (!strcmp(one->name, "serial")) continue;
        if (!strcmp(one->name, "openmp")) {
            one->parallel_for = tvmconv_openmp_parallel_for;
            continue;
        }
        void *library = dlopen(one->name, RTLD_NOW), *launch;
        if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
        const tvmconv_model *model = dlsym(library, "tvmconv_model");
        if (model) {
            tvmconv_pool *pool;
            if (model->pool_create(threads, &pool)) return 1;
            one->parallel_for = model->pool_parallel_for;
            one->context = pool;
        } else if ((launch = dlsym(library, "TVMBackendParallelLaunch")) != NULL) {
            one->parallel_for = tvm;
            one->context = launch;
        }
    }
    calibrate();
    for (size_t w = 0; w < sizeof works / sizeof *works; ++w)
        for (size_t p = 0; p < sizeof pauses / sizeof *pauses; ++p) {
            work_nanoseconds = works[w];
            for (int round = 0; round < ROUNDS; ++round)
                for (int c = 0; c < contenders; ++c) {
                    usleep(5000); /* for the workers of the one before to fall asleep */
                    for (int i = -WARM_UP; i < LAUNCHES; ++i) {
                        int64_t start = now(), end = start + pauses[p];
                        while (now() < end) continue;
                        start = now();
                        all[c].parallel_for(all[c].context, threads, part, NULL);
                        if (i >= 0) times[c][round * LAUNCHES + i] = now() - start;
                    }
                }
            for (int c = 0; c < contenders; ++c) {
                int n = ROUNDS * LAUNCHES;
                qsort(times[c], (size_t)n, sizeof **times, ascending);
                printf("work %4d us, pause %5d us: min %8.2f us, median %8.2f us, 90%% %8.2f us  %s\n",
                       (int)(works[w] / 1000), (int)(pauses[p] / 1000), times[c][0] / 1e3,
                       times[c][n / 2] / 1e3, times[c][n * 9 / 10] / 1e3, all[c].name);
            }
        }
    return 0;
}
