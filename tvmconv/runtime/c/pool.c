/* pool.c: threads that run the parts of one kernel side by side. Part of runtime.c.
 *
 * In a job, worker w of n runs the parts w, w + n and so on; the caller is worker 0. Caller and
 * worker share the job and the worker's state:
 *
 *     IDLE -> POSTED    caller: here is a job
 *     POSTED -> RUNNING worker: I have begun
 *     POSTED -> IDLE    caller: you have not begun, so I did your parts myself
 *     RUNNING -> IDLE   worker: done
 *     IDLE -> ASLEEP    worker: no job for a while; ASLEEP -> POSTED wakes it
 *     RUNNING -> AWAITED caller: you take long, I sleep; AWAITED -> IDLE wakes it
 *     any -> STOPPED    caller: the pool ends
 *
 * So a caller waits only for running workers, never for one that the system has not scheduled. The
 * same parts give the same bits on any thread. */

enum { IDLE, POSTED, RUNNING, ASLEEP, AWAITED, STOPPED };

/* Parallel layers of a network follow each other within microseconds. A worker that polls is ready
 * for the next layer, and a worker that sleeps costs its caller a system call of microseconds.
 * tests/runtime/c/launch_latency.c measures it. */
#ifndef TVMCONV_SPIN_NANOSECONDS
#define TVMCONV_SPIN_NANOSECONDS 200000
#endif

#define CACHE_LINE 64

typedef struct {
    uint32_t state;
    int32_t status;
    int32_t index;
    tvmconv_pool *pool;
    pthread_t thread;
#ifdef TVMCONV_FUTEX
    pid_t id;
#else
    pthread_mutex_t mutex;
    pthread_cond_t changed;
#endif
} __attribute__((aligned(CACHE_LINE))) worker;

struct tvmconv_pool {
    uint32_t busy;       /* forks * 2 + 1 while a caller uses the workers */
    uint32_t started_in; /* forks when the workers were started */
    int32_t threads;
    int32_t count; /* the job */
    tvmconv_task task;
    void *argument;
    worker workers[]; /* the first stands for the caller */
};

/* The number of forks from the first process to this one. A forked child has the memory of its
 * parent and none of its threads. */
static uint32_t forks;

static void renew_locks(void);

static void in_child(void) {
    ++forks;
    renew_locks();
}

static void register_fork(void) { pthread_atfork(NULL, NULL, in_child); }

static void prepare_for_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork);
}

/* Takes what a process before a fork may have left taken. */
static int take(uint32_t *busy) {
    uint32_t seen = __atomic_load_n(busy, __ATOMIC_RELAXED);
    uint32_t taken = forks * 2 + 1;
    return seen != taken && __atomic_compare_exchange_n(busy, &seen, taken, 0, __ATOMIC_ACQUIRE,
                                                        __ATOMIC_RELAXED);
}

static void give_back(uint32_t *busy) { __atomic_store_n(busy, forks * 2, __ATOMIC_RELEASE); }

static int change(uint32_t *state, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

#ifdef TVMCONV_FUTEX
/* as in linux/futex.h, which a C library's headers need not come with */
enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129 };

static void sleep_while(worker *one, uint32_t value) {
    while (__atomic_load_n(&one->state, __ATOMIC_ACQUIRE) == value)
        syscall(SYS_futex, &one->state, WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(worker *one) { syscall(SYS_futex, &one->state, WAKE_PRIVATE, 1, NULL, NULL, 0); }

/* Wakes a worker for a job on another CPU than this one, which the caller keeps busy. In a virtual
 * machine the system may take an idle CPU for an absent one. The worker would then wait here until
 * its caller has done all parts. If anything fails, this wakes the worker without a choice of CPU. */
static void wake_for_job(worker *one) {
    enum { BITS = 8 * sizeof(unsigned long), LONGS = 16 };
    unsigned long allowed[LONGS], elsewhere[LONGS] = {0}, any = 0;
    unsigned here = 0;
    long bytes = syscall(SYS_sched_getaffinity, one->id, sizeof allowed, allowed);
    if (bytes > 0 && !syscall(SYS_getcpu, &here, NULL, NULL)) {
        for (unsigned i = 0; i < (size_t)bytes / sizeof *allowed; ++i) {
            elsewhere[i] = i == here / BITS ? allowed[i] & ~(1ul << here % BITS) : allowed[i];
            any |= elsewhere[i];
        }
        any = any && !syscall(SYS_sched_setaffinity, one->id, (size_t)bytes, elsewhere);
    }
    wake(one);
    if (any) syscall(SYS_sched_setaffinity, one->id, (size_t)bytes, allowed);
}
#else
static void sleep_while(worker *one, uint32_t value) {
    pthread_mutex_lock(&one->mutex);
    while (__atomic_load_n(&one->state, __ATOMIC_ACQUIRE) == value)
        pthread_cond_wait(&one->changed, &one->mutex);
    pthread_mutex_unlock(&one->mutex);
}

static void wake(worker *one) {
    pthread_mutex_lock(&one->mutex);
    pthread_cond_signal(&one->changed);
    pthread_mutex_unlock(&one->mutex);
}

static void wake_for_job(worker *one) { wake(one); }
#endif

/* Polls while the state has the value, for as long as layers usually take. */
static uint32_t poll_while(worker *one, uint32_t value) {
    uint32_t now = value;
    int64_t end = 0;
    for (int turn = 0; (now = __atomic_load_n(&one->state, __ATOMIC_ACQUIRE)) == value; ++turn) {
        relax();
        if (turn % 64 != 63) continue;
        int64_t time = tvmconv_now();
        /* where CPUs are shared, the one who is polled for may be waiting for this one */
        sched_yield();
        if (end == 0) end = time + TVMCONV_SPIN_NANOSECONDS;
        if (time > end) break;
    }
    return now;
}

static int32_t run_parts(const tvmconv_pool *pool, int32_t first) {
    int32_t status = 0;
    for (int32_t i = first; i < pool->count; i += pool->threads) {
        int32_t result = pool->task(pool->argument, i);
        if (result) status = result;
    }
    return status;
}

static void *work(void *argument) {
    worker *self = argument;
#ifdef TVMCONV_FUTEX
    self->id = (pid_t)syscall(SYS_gettid);
#endif
    touch_thread_locals();
    for (;;) {
        uint32_t state = poll_while(self, IDLE);
        if (state == IDLE && change(&self->state, IDLE, ASLEEP)) sleep_while(self, ASLEEP);
        state = __atomic_load_n(&self->state, __ATOMIC_ACQUIRE);
        if (state == STOPPED) return NULL;
        if (state != POSTED || !change(&self->state, POSTED, RUNNING)) continue;
        self->status = run_parts(self->pool, self->index);
        if (__atomic_exchange_n(&self->state, IDLE, __ATOMIC_ACQ_REL) == AWAITED) wake(self);
    }
}

static void stop_workers(tvmconv_pool *pool, int32_t started) {
    for (int32_t i = 1; i < started; ++i) {
        worker *one = &pool->workers[i];
        if (__atomic_exchange_n(&one->state, STOPPED, __ATOMIC_ACQ_REL) == ASLEEP) wake(one);
        pthread_join(one->thread, NULL);
    }
}

/* Starts a thread that runs no signal handlers: those are the caller's, and may expect its threads. */
static int start_thread(pthread_t *thread, void *(*body)(void *), void *argument) {
    sigset_t all, before;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return 0;
    /* musl's default of 128 KB is little for generated code, glibc's is what ulimit says */
    pthread_attr_setstacksize(&attributes, 1 << 20);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(thread, &attributes, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return status == 0;
}

static int start_workers(tvmconv_pool *pool) {
    int32_t started = 1;
    for (; started < pool->threads; ++started) {
        worker *one = &pool->workers[started];
        one->state = IDLE;
        one->index = started;
        one->pool = pool;
#ifndef TVMCONV_FUTEX
        pthread_mutex_init(&one->mutex, NULL);
        pthread_cond_init(&one->changed, NULL);
#endif
        if (!start_thread(&one->thread, work, one)) break;
    }
    if (started < pool->threads) {
        stop_workers(pool, started);
        return 0;
    }
    pool->started_in = forks;
    return 1;
}

static int32_t run_serially(int32_t count, tvmconv_task task, void *argument) {
    int32_t status = 0;
    for (int32_t i = 0; i < count; ++i) {
        int32_t result = task(argument, i);
        if (result) status = result;
    }
    return status;
}

int32_t tvmconv_pool_parallel_for(void *context, int32_t count, tvmconv_task task,
                                  void *argument) {
    tvmconv_pool *pool = context;
    if (count < 2 || pool->threads < 2 || !take(&pool->busy))
        return run_serially(count, task, argument);
    if (pool->started_in != forks && !start_workers(pool)) {
        give_back(&pool->busy);
        return run_serially(count, task, argument);
    }
    int32_t used = count < pool->threads ? count : pool->threads;
    pool->count = count;
    pool->task = task;
    pool->argument = argument;
    for (int32_t i = 1; i < used; ++i) {
        worker *one = &pool->workers[i];
        if (__atomic_exchange_n(&one->state, POSTED, __ATOMIC_ACQ_REL) == ASLEEP)
            wake_for_job(one);
    }
    int32_t status = run_parts(pool, 0);
    for (int32_t i = 1; i < used; ++i) {
        worker *one = &pool->workers[i];
        int32_t result;
        if (change(&one->state, POSTED, IDLE)) {
            result = run_parts(pool, i);
        } else {
            if (poll_while(one, RUNNING) == RUNNING && change(&one->state, RUNNING, AWAITED))
                sleep_while(one, AWAITED);
            result = one->status;
        }
        if (result) status = result;
    }
    give_back(&pool->busy);
    return status;
}

int32_t tvmconv_pool_create(int32_t threads, tvmconv_pool **result) {
    void *memory;
    if (result == NULL || threads < 0 || threads > MOST_THREADS) return TVMCONV_INVALID;
    *result = NULL;
    if (threads == 0 && threads_variable() < 0) return TVMCONV_INVALID;
    if (threads == 0) threads = allowed_cpus();
    size_t size = sizeof(tvmconv_pool) + (size_t)threads * sizeof(worker);
    if (posix_memalign(&memory, CACHE_LINE, size)) return TVMCONV_MEMORY;
    memset(memory, 0, size);
    tvmconv_pool *pool = memory;
    pool->threads = threads;
    prepare_for_forks();
    give_back(&pool->busy);
    if (!start_workers(pool)) {
        free(pool);
        return TVMCONV_MEMORY;
    }
    *result = pool;
    return TVMCONV_OK;
}

void tvmconv_pool_destroy(tvmconv_pool *pool) {
    if (pool == NULL) return;
    if (pool->started_in == forks) stop_workers(pool, pool->threads);
    free(pool);
}
