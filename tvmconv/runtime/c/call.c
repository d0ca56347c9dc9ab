/* call.c: a program that calls a model once.
 *
 *     call model.so inputs outputs
 *
 * `inputs` holds the bytes of all inputs, one after the other, in the order and layout of the
 * description; `outputs` is written likewise. A model with several input shapes runs the first one whose
 * inputs have that size. The exit status is 0, or 1 with a message. */
#include "tvmconv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

/* Memory for each of `count` tensors. */
static void **allocated(const tvmconv_tensor *tensors, int count) {
    void **memory = calloc((size_t)count + 1, sizeof *memory);
    for (int i = 0; memory && i < count; ++i) {
        memory[i] = malloc(tensors[i].bytes ? (size_t)tensors[i].bytes : 1);
        if (!memory[i]) return NULL;
    }
    return memory;
}

/* Selects the program whose inputs have the size of a file; keeps the first one without any. */
static const tvmconv_description *selected(const tvmconv_model *model, tvmconv_state *state,
                                           long size) {
    const tvmconv_description *first = model->description;
    const int64_t *shapes[256];
    for (int64_t p = 0; p < first->program_count && first->input_count <= 256; ++p) {
        const tvmconv_description *program = first->programs[p];
        long bytes = 0;
        for (int i = 0; i < first->input_count; ++i) {
            shapes[i] = program->inputs[i].shape;
            bytes += (long)program->inputs[i].bytes;
        }
        if (bytes == size && !model->set_shapes(state, shapes)) return program;
    }
    return first;
}

int main(int count, char **arguments) {
    char message[512] = "";
    tvmconv_state *state = NULL;
    if (count != 4) return fail("call", "expected model.so, inputs and outputs");
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return fail("dlopen", dlerror());
    const tvmconv_model *model = dlsym(library, "tvmconv_model");
    if (!model || model->abi != TVMCONV_ABI) return fail(arguments[1], "no model of this interface");
    if (model->create(NULL, &state, message, sizeof message)) return fail("create", message);
    FILE *file = fopen(arguments[2], "rb");
    if (!file) return fail(arguments[2], "cannot be read");
    if (fseek(file, 0, SEEK_END)) return fail(arguments[2], "cannot be read");
    const tvmconv_description *description = selected(model, state, ftell(file));
    rewind(file);

    void **inputs = allocated(description->inputs, description->input_count);
    void **outputs = allocated(description->outputs, description->output_count);
    if (!inputs || !outputs) return fail("call", "no memory");
    for (int i = 0; i < description->input_count; ++i) {
        size_t bytes = (size_t)description->inputs[i].bytes;
        if (fread(inputs[i], 1, bytes, file) != bytes) return fail(arguments[2], "is too short");
    }
    fclose(file);
    if (model->run(state, (const void *const *)inputs, outputs))
        return fail("run", model->message(state));
    model->destroy(state);

    file = fopen(arguments[3], "wb");
    if (!file) return fail(arguments[3], "cannot be written");
    for (int i = 0; i < description->output_count; ++i) {
        size_t bytes = (size_t)description->outputs[i].bytes;
        if (fwrite(outputs[i], 1, bytes, file) != bytes) return fail(arguments[3], "is cut short");
    }
    if (fclose(file)) return fail(arguments[3], "is cut short");
    return 0;
}
