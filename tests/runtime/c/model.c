/* A network of two kernels in the form that the compiler generates, written by hand. */
#include <string.h>

#include "program.h"

#ifndef TOY_FEATURES
#define TOY_FEATURES NULL
#endif
#ifndef TOY_VECTOR_BITS
#define TOY_VECTOR_BITS 0
#endif
#ifndef TOY_ARENA
#define TOY_ARENA (64 * 256 * 4)
#endif
#define BIAS_BYTES (256 * 4)

int32_t toy_scale(const void *x, const void *bias, void *y);
int32_t toy_sum(const void *y, const void *mask, void *s);

static int32_t step(tvmconv_frame *frame, int32_t index) {
    switch (index) {
    case 0:
        TVMCONV_CALL(0, toy_scale(TVMCONV_IN(0, 0), TVMCONV_CONST(0), TVMCONV_MEM(0)));
        return 0;
    case 1:
        TVMCONV_CALL(1, toy_sum(TVMCONV_MEM(0), TVMCONV_IN(1, 0), TVMCONV_OUT(0, 0)));
        return 0;
    case 2:
        TVMCONV_CALL(2, (memcpy(TVMCONV_OUT(1, 0), TVMCONV_OUT(0, 128), 128), 0));
        return 0;
    }
    return 0;
}

static int32_t run(tvmconv_frame *frame) {
    int32_t status = 0;
    for (int32_t i = 0; i < 3 && !status; ++i) status = step(frame, i);
    return status;
}

/* for any batch, all but the mask have an axis of images before their other axes */
#ifdef TOY_BATCHED
#define IMAGES 1
static const int32_t toy_batched[] = {1, 0};
static const uint8_t heavy[] = {1, 0, 0};
static const tvmconv_steps toy_steps[] = {{step, 3, heavy}};
#else
#define IMAGES 0
#define toy_batched NULL
#define toy_steps NULL
#endif
static const int64_t shape_x[] = {1, 64, 256}, shape_scores[] = {1, 64}, shape_half[] = {1, 32};
static const tvmconv_tensor inputs[] = {
    {"image", TVMCONV_FLOAT32, 2 + IMAGES, shape_x + 1 - IMAGES, 64 * 256 * 4},
    {"mask", TVMCONV_UINT8, 1, shape_scores + 1, 64},
};
static const tvmconv_tensor outputs[] = {
    {"scores", TVMCONV_FLOAT32, 1 + IMAGES, shape_scores + 1 - IMAGES, 256},
    {"half", TVMCONV_FLOAT32, 1 + IMAGES, shape_half + 1 - IMAGES, 128},
};
static const tvmconv_layer layers[] = {
    {"scale", "mul", "", "", "toy_scale", 2 * 64 * 256, 2 * 64 * 256 * 4 + BIAS_BYTES},
    {"sum", "reduce", "", "", "toy_sum", 64 * 256, 64 * 256 * 4 + 64 + 256},
    {"", "copy", "", "", "", 0, 256},
};

static const tvmconv_description *const programs[] = {&tvmconv_this_description};
const tvmconv_description tvmconv_this_description = {
    .size = sizeof(tvmconv_description),
    .input_count = 2,
    .output_count = 2,
    .layer_count = 3,
    .inputs = inputs,
    .outputs = outputs,
    .layers = layers,
    .name = "toy",
    .version = "0",
    .target = "toy-machine",
    .features = "",
    .arena_bytes = TOY_ARENA,
    .workspace_bytes = 2 * BIAS_BYTES,
    .weight_bytes = BIAS_BYTES,
    .threads = 2,
    .programs = programs,
    .program_count = 1,
    .batched = toy_batched,
#ifdef TOY_SEPARATE
    .separate_weights = 1,
#endif
};

static const char *const features[] = {TOY_FEATURES, NULL};
#ifndef TOY_SEPARATE
#define F1(i) (i) / 4.0f
#define F4(i) F1(i), F1(i + 1), F1(i + 2), F1(i + 3)
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)
#define F64(i) F16(i), F16(i + 16), F16(i + 32), F16(i + 48)
static const float bias[256] __attribute__((aligned(64))) = {F64(0), F64(64), F64(128), F64(192)};
#endif

static int32_t (*const runs[])(tvmconv_frame *frame) = {run};
static const tvmconv_target target = {&tvmconv_this_description, runs, features, TOY_VECTOR_BITS,
                                      toy_steps, NULL};
const tvmconv_program tvmconv_this_program = {
    .targets = &target,
    .target_count = 1,
#ifdef TOY_SEPARATE
    .constants = NULL,
    .weights_sha256 = TOY_SEPARATE,
#else
    .constants = (const char *)bias,
    .weights_sha256 = "",
#endif
};

TVMCONV_EXPORTED const tvmconv_model tvmconv_model_toy = TVMCONV_MODEL;
