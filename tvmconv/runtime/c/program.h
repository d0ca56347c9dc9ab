/* program.h: what the generated model.c gives to the runtime (runtime.c). Not installed: both are
 * compiled together. */
#ifndef TVMCONV_PROGRAM_H
#define TVMCONV_PROGRAM_H

#include "tvmconv.h"

#pragma GCC visibility push(hidden)

/* Where operands live during one run, and where times go. */
typedef struct tvmconv_frame {
    const void *const *inputs;
    void *const *outputs;
    char *arena;
    char *constants; /* read only */
    int64_t *times;  /* end of each call in nanoseconds of the clock, or NULL */
    int32_t failed;  /* index of the call that returned an error */
} tvmconv_frame;

int64_t tvmconv_now(void);

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
        if (frame->times) frame->times[index] = tvmconv_now();                                     \
    } while (0)

typedef struct tvmconv_program {
    int32_t (*run)(tvmconv_frame *frame);
    const char *const *features; /* NULL-terminated names, as tvmconv/machines/features.py */
    int32_t vector_bits;         /* exact length of scalable vectors that the code needs; 0: any */
    const char *constants;       /* NULL where weights are separate */
    const char *weights_sha256;  /* hex, of the separate file; "" otherwise */
} tvmconv_program;

/* Both are defined by model.c. */
extern const tvmconv_program tvmconv_this_program;
extern const tvmconv_description tvmconv_this_description;

/* Separate weights: this header, then the constants. The hash is that of the constants; it says
 * whose they are and is not computed when a model is loaded. */
#define TVMCONV_WEIGHTS_MAGIC "tvmconv\1"
typedef struct tvmconv_weights_header {
    char magic[8];
    uint64_t bytes; /* of the constants */
    uint8_t sha256[32];
    uint8_t reserved[16]; /* zero; the constants that follow are 64-byte aligned */
} tvmconv_weights_header;

#pragma GCC visibility pop
#endif
