/* layers.c: calls a model under count.c, each of its layers a section.
 *
 *     layers model.so [outputs]
 *
 * Inputs are zeros. `outputs` is written with the bytes of all outputs, one behind the other. A
 * model reads the clock once before its layers and once behind each. This program is that clock,
 * and marks a section at each reading: the first is 1. */
#define _GNU_SOURCE
#include "tvmconv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MARK 0x74760000

static int counting, section;

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    if (counting) close(MARK + ++section);
    time->tv_sec = section;
    time->tv_nsec = 0;
    return 0;
}

static int fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

/* Memory for each of `count` tensors, zeros. */
static void **allocated(const tvmconv_tensor *tensors, int count) {
    void **memory = calloc((size_t)count + 1, sizeof *memory);
    for (int i = 0; memory && i < count; ++i) {
        memory[i] = calloc(tensors[i].bytes ? (size_t)tensors[i].bytes : 1, 1);
        if (!memory[i]) return NULL;
    }
    return memory;
}

int main(int count, char **arguments) {
    char message[512] = "";
    tvmconv_state *state = NULL;
    tvmconv_options options;
    if (count != 2 && count != 3) return fail("layers", "expected model.so and perhaps outputs");
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return fail("dlopen", dlerror());
    const tvmconv_model *model = dlsym(library, "tvmconv_model");
    if (!model || model->abi != TVMCONV_ABI) return fail(arguments[1], "no model of this interface");
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.threads = 1;
    if (model->create(&options, &state, message, sizeof message)) return fail("create", message);

    const tvmconv_description *description = model->description;
    void **inputs = allocated(description->inputs, description->input_count);
    void **outputs = allocated(description->outputs, description->output_count);
    int64_t *times = calloc((size_t)description->layer_count + 1, sizeof *times);
    if (!inputs || !outputs || !times) return fail("layers", "no memory");
    counting = 1;
    int status = model->profile(state, (const void *const *)inputs, outputs, times);
    counting = 0;
    close(MARK);
    if (status) return fail("profile", model->message(state));
    model->destroy(state);
    if (section != description->layer_count + 1) return fail("layers", "read no clock");
    FILE *file = count == 3 ? fopen(arguments[2], "wb") : NULL;
    if (count == 3 && !file) return fail(arguments[2], "cannot be written");
    for (int i = 0; file && i < description->output_count; ++i) {
        size_t bytes = (size_t)description->outputs[i].bytes;
        if (fwrite(outputs[i], 1, bytes, file) != bytes) return fail(arguments[2], "is cut short");
    }
    if (file && fclose(file)) return fail(arguments[2], "is cut short");
    return 0;
}
