/* program.h: the interface between the generated model.c and runtime.c. Not installed, as both are
 * compiled together. */
#ifndef TVMCONV_PROGRAM_H
#define TVMCONV_PROGRAM_H

#include "tvmconv.h"

#pragma GCC visibility push(hidden)

#ifdef TVMCONV_CUDA
#include "gpu.h"
#endif

/* Where operands live during one run, and where times go. */
typedef struct tvmconv_frame {
    const void *const *inputs;
    void *const *outputs;
    char *arena;
    char *constants; /* read only */
    int64_t *times;  /* nanoseconds of each call, of all its runs together, or NULL */
    int64_t last;    /* when the last call ended, while times are taken */
    int32_t failed;  /* index of the call that returned an error */
    int32_t queued;  /* 1: to `stream`, whose caller waits for it */
    void *stream;
    const char *refused; /* after TVMCONV_DATA: the message */
#ifdef TVMCONV_CUDA
    struct tvmconv_gpu_state *gpu;
#endif
} tvmconv_frame;

int64_t tvmconv_now(void);
/* Adds the time since the last call's end to a call. */
void tvmconv_stamp(struct tvmconv_frame *frame, int32_t index);

/* The four kinds of operands, by byte offset. `frame` is the parameter of the program. */
#define TVMCONV_IN(i, offset) ((void *)((char *)frame->inputs[i] + (offset)))
#define TVMCONV_OUT(i, offset) ((void *)((char *)frame->outputs[i] + (offset)))
#define TVMCONV_MEM(offset) ((void *)(frame->arena + (offset)))
#define TVMCONV_CONST(offset) ((void *)(frame->constants + (offset)))
#define TVMCONV_CALL(index, call)                                                                  \
    do {                                                                                           \
        int32_t status_ = (call);                                                                  \
        if (status_) {                                                                             \
            frame->failed = (index);                                                               \
            return status_;                                                                        \
        }                                                                                          \
        if (frame->times) tvmconv_stamp(frame, index);                                             \
    } while (0)

/* A call that runs nested programs: they have set the index of the call that failed. */
#define TVMCONV_NESTED(index, call)                                                                \
    do {                                                                                           \
        int32_t status_ = (call);                                                                  \
        if (status_) return status_;                                                               \
        if (frame->times) tvmconv_stamp(frame, index);                                             \
    } while (0)

/* Runs a nested program, which has operands and an arena of its own. */
static inline int32_t tvmconv_nested(tvmconv_frame *frame, int32_t (*run)(tvmconv_frame *frame),
                                     const void *const *inputs, void *const *outputs,
                                     void *arena) {
    const tvmconv_frame outer = *frame;
    frame->inputs = inputs;
    frame->outputs = outputs;
    frame->arena = arena;
    int32_t status = run(frame);
    frame->inputs = outer.inputs;
    frame->outputs = outer.outputs;
    frame->arena = outer.arena;
    return status;
}

/* After a call that writes `count` flags: ends the run if one is not 0. A kernel that writes flags
 * never reads or writes outside its tensors. */
#define TVMCONV_CHECK(index, flags, count, text)                                                   \
    do {                                                                                           \
        const int32_t *flags_ = (const int32_t *)(flags);                                          \
        int32_t found_ = 0;                                                                        \
        for (int32_t i_ = 0; i_ < (count); ++i_) found_ |= flags_[i_];                             \
        if (found_) {                                                                              \
            frame->failed = (index);                                                               \
            frame->refused = (text);                                                               \
            return TVMCONV_DATA;                                                                   \
        }                                                                                          \
    } while (0)

/* A program, call by call. A call of nested programs is one step. */
typedef struct tvmconv_steps {
    int32_t (*run)(tvmconv_frame *frame, int32_t step);
    int32_t count;
    const uint8_t *heavy; /* for each step, 1 if it reads more constants than other tensors */
} tvmconv_steps;

/* The code for one target. */
typedef struct tvmconv_target {
    const tvmconv_description *description;       /* its first program's */
    int32_t (*const *runs)(tvmconv_frame *frame); /* in the order of the description's programs */
    const char *const *features; /* NULL-terminated names, as machines/architectures.py */
    int32_t vector_bits;         /* exact length of scalable vectors that the code needs; 0: any */
    /* One for each program; NULL unless the model serves any batch. */
    const tvmconv_steps *steps;
    /* Starts and ends of the constants that the target reads, up to an end of 0; NULL: all. */
    const uint64_t (*constants)[2];
} tvmconv_target;

typedef struct tvmconv_program {
    const tvmconv_target *targets; /* the first that the processor runs is selected */
    int32_t target_count;
    const char *constants;      /* NULL where weights are separate */
    const char *weights_sha256; /* hex, of the separate file; "" otherwise */
} tvmconv_program;

/* Both are defined by model.c. */
extern const tvmconv_program tvmconv_this_program;
extern const tvmconv_description tvmconv_this_description;

/* Defined by runtime.c, and listed in a tvmconv_model. */
int32_t tvmconv_create(const tvmconv_options *options, tvmconv_state **state, char *message,
                       size_t message_size);
int32_t tvmconv_run(tvmconv_state *state, const void *const *inputs, void *const *outputs);
int32_t tvmconv_run_batch(tvmconv_state *state, int64_t images, const void *const *inputs,
                          void *const *outputs);
int32_t tvmconv_profile(tvmconv_state *state, const void *const *inputs, void *const *outputs,
                        int64_t *nanoseconds);
int32_t tvmconv_enqueue(tvmconv_state *state, void *stream, const void *const *inputs,
                        void *const *outputs);
const char *tvmconv_message(const tvmconv_state *state);
void tvmconv_destroy(tvmconv_state *state);
int32_t tvmconv_pool_create(int32_t threads, tvmconv_pool **pool);
int32_t tvmconv_pool_parallel_for(void *pool, int32_t count, tvmconv_task task, void *argument);
void tvmconv_pool_destroy(tvmconv_pool *pool);
int32_t tvmconv_threads(const tvmconv_state *state);
int32_t tvmconv_shape(const tvmconv_state *state, int32_t output, int64_t *shape);
int32_t tvmconv_set_shapes(tvmconv_state *state, const int64_t *const *shapes);
const tvmconv_description *tvmconv_describe(const tvmconv_state *state);
int32_t tvmconv_cpus(const char *text, int32_t *numbers, int32_t capacity);
int32_t tvmconv_queue_create(const tvmconv_queue_options *options, tvmconv_queue **queue,
                             char *message, size_t message_size);
int32_t tvmconv_queue_submit(tvmconv_queue *queue, const int64_t *const *shapes,
                             const void *const *inputs, void *const *outputs, tvmconv_done done,
                             void *argument);
int64_t tvmconv_queue_wait(tvmconv_queue *queue, int64_t most);
int32_t tvmconv_queue_streams(const tvmconv_queue *queue);
void tvmconv_queue_destroy(tvmconv_queue *queue);

/* The content of tvmconv_model, and of the object by which model.c gives it a name of its own. */
#define TVMCONV_MODEL                                                                              \
    {                                                                                              \
        .abi = TVMCONV_ABI,                                                                        \
        .size = sizeof(tvmconv_model),                                                             \
        .description = &tvmconv_this_description,                                                  \
        .create = tvmconv_create,                                                                  \
        .run = tvmconv_run,                                                                        \
        .profile = tvmconv_profile,                                                                \
        .message = tvmconv_message,                                                                \
        .destroy = tvmconv_destroy,                                                                \
        .pool_create = tvmconv_pool_create,                                                        \
        .pool_parallel_for = tvmconv_pool_parallel_for,                                            \
        .pool_destroy = tvmconv_pool_destroy,                                                      \
        .threads = tvmconv_threads,                                                                \
        .enqueue = tvmconv_enqueue,                                                                \
        .shape = tvmconv_shape,                                                                    \
        .set_shapes = tvmconv_set_shapes,                                                          \
        .describe = tvmconv_describe,                                                              \
        .run_batch = tvmconv_run_batch,                                                            \
        .cpus = tvmconv_cpus,                                                                      \
        .queue_create = tvmconv_queue_create,                                                      \
        .queue_submit = tvmconv_queue_submit,                                                      \
        .queue_wait = tvmconv_queue_wait,                                                          \
        .queue_streams = tvmconv_queue_streams,                                                    \
        .queue_destroy = tvmconv_queue_destroy,                                                    \
    }
#define TVMCONV_EXPORTED __attribute__((visibility("default")))

/* Separate weights: this header, then the constants. The hash of the constants identifies their
 * model; loading does not compute it. */
#define TVMCONV_WEIGHTS_MAGIC "tvmconv\1"
typedef struct tvmconv_weights_header {
    char magic[8];
    uint64_t bytes; /* size of the constants */
    uint8_t sha256[32];
    uint8_t reserved[16]; /* zero; the constants that follow are 64-byte aligned */
} tvmconv_weights_header;

#pragma GCC visibility pop
#endif
