/* program.h: what the generated model.c gives to the runtime (runtime.c). Not installed: both are
 * compiled together. */
#ifndef TVMCONV_PROGRAM_H
#define TVMCONV_PROGRAM_H

#include "tvmconv.h"

/* Where operands live during one run, and where times go. */
typedef struct tvmconv_frame {
    char *const *inputs;
    char *const *outputs;
    char *arena;
    char *constants; /* read only */
    int64_t *times;  /* end of each call in nanoseconds of the clock, or NULL */
    int32_t failed;  /* index of the call that returned an error */
} tvmconv_frame;

int64_t tvmconv_now(void);

/* The four kinds of operands, by byte offset. `frame` is the parameter of the program. */
#define TVMCONV_IN(i, offset) ((void *)(frame->inputs[i] + (offset)))
#define TVMCONV_OUT(i, offset) ((void *)(frame->outputs[i] + (offset)))
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
    const tvmconv_description *description;
    int32_t (*run)(tvmconv_frame *frame);
    const char *const *features; /* NULL-terminated names, as tvmconv/machines/features.py */
    int32_t vector_bits;         /* exact length of scalable vectors that the code needs; 0: any */
    const char *constants;       /* NULL where weights are separate */
    const char *weights_sha256;  /* hex, of the separate file; "" otherwise */
} tvmconv_program;

extern const tvmconv_program tvmconv_this_program;

#endif
