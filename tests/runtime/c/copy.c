/* A model that is one copy: no arena, no constants, no kernels. */
#include <string.h>

#include "program.h"

static int32_t run(tvmconv_frame *frame) {
    TVMCONV_CALL(0, (memcpy(TVMCONV_OUT(0, 0), TVMCONV_IN(0, 0), 40), 0));
    return 0;
}

static const int64_t shape[] = {10};
static const tvmconv_tensor inputs[] = {{"image", TVMCONV_FLOAT32, 1, shape, 40}};
static const tvmconv_tensor outputs[] = {{"scores", TVMCONV_FLOAT32, 1, shape, 40}};
static const tvmconv_layer layers[] = {{"", "copy", "", "", "", 0, 80}};

static const tvmconv_description *const programs[] = {&tvmconv_this_description};
const tvmconv_description tvmconv_this_description = {
    .size = sizeof(tvmconv_description),
    .input_count = 1,
    .output_count = 1,
    .layer_count = 1,
    .inputs = inputs,
    .outputs = outputs,
    .layers = layers,
    .name = "copy",
    .version = "0",
    .target = "any",
    .features = "",
    .threads = 1,
    .programs = programs,
    .program_count = 1,
};
static const char *const features[] = {NULL};
static int32_t (*const runs[])(tvmconv_frame *frame) = {run};
static const tvmconv_target target = {&tvmconv_this_description, runs, features, 0, NULL, NULL};
const tvmconv_program tvmconv_this_program = {
    .targets = &target,
    .target_count = 1,
    .constants = "",
    .weights_sha256 = "",
};
