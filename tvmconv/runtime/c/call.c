/* call.c: a program that calls a model once.
 *
 *     call model.so inputs outputs
 *
 * `inputs` holds the bytes of all inputs, one after the other, in the order and layout of the
 * description; `outputs` is written likewise. A model with several input shapes runs the first one whose
 * inputs have that size. A model for any batch runs as many images as the file holds. The exit status is 0, or 1 with a message. */
#include "tvmconv.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

/* The size of each tensor for so many images; `batched` as in a description, or NULL for all. */
static size_t *sizes(const tvmconv_tensor *tensors, int count, int64_t images,
                     const int32_t *batched) {
    size_t *bytes = calloc((size_t)count + 1, sizeof *bytes);
    for (int i = 0; bytes && i < count; ++i)
        bytes[i] = (size_t)tensors[i].bytes * (batched && !batched[i] ? 1 : (size_t)images);
    return bytes;
}

/* Memory for tensors of these sizes. */
static void **allocated(const size_t *bytes, int count) {
    void **memory = calloc((size_t)count + 1, sizeof *memory);
    for (int i = 0; memory && bytes && i < count; ++i) {
        memory[i] = malloc(bytes[i] ? bytes[i] : 1);
        if (!memory[i]) return NULL;
    }
    return memory;
}

/* Selects the program whose inputs have the size of a file; keeps the first one without any. */
static const tvmconv_description *selected(const tvmconv_model *model, tvmconv_state *state,
                                           long size, int64_t *images) {
    const tvmconv_description *first = model->description;
    const int32_t *batched = TVMCONV_HAS(model, run_batch) ? first->batched : NULL;
    const int64_t *shapes[256];
    for (int64_t p = 0; p < first->program_count && first->input_count <= 256; ++p) {
        const tvmconv_description *program = first->programs[p];
        long shared = 0, own = 0;
        for (int i = 0; i < first->input_count; ++i) {
            shapes[i] = program->inputs[i].shape;
            *(batched && batched[i] ? &own : &shared) += (long)program->inputs[i].bytes;
        }
        *images = own > 0 && size > shared ? (size - shared) / own : 1;
        if (shared + *images * own == size && !model->set_shapes(state, shapes)) return program;
    }
    *images = 1;
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
    int64_t images;
    const tvmconv_description *program = selected(model, state, ftell(file), &images);
    rewind(file);

    const int32_t *batched = images == 1 ? NULL : program->batched;
    size_t *input_bytes = sizes(program->inputs, program->input_count, images, batched);
    size_t *output_bytes = sizes(program->outputs, program->output_count, images, NULL);
    void **inputs = allocated(input_bytes, program->input_count);
    void **outputs = allocated(output_bytes, program->output_count);
    if (!inputs || !outputs) return fail("call", "no memory");
    for (int i = 0; i < program->input_count; ++i)
        if (fread(inputs[i], 1, input_bytes[i], file) != input_bytes[i])
            return fail(arguments[2], "is too short");
    fclose(file);
    const void *const *given = (const void *const *)inputs;
    if (images == 1 ? model->run(state, given, outputs)
                    : model->run_batch(state, images, given, outputs))
        return fail("run", model->message(state));
    model->destroy(state);

    file = fopen(arguments[3], "wb");
    if (!file) return fail(arguments[3], "cannot be written");
    for (int i = 0; i < program->output_count; ++i)
        if (fwrite(outputs[i], 1, output_bytes[i], file) != output_bytes[i])
            return fail(arguments[3], "is cut short");
    if (fclose(file)) return fail(arguments[3], "is cut short");
    return 0;
}
