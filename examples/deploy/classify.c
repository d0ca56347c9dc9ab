/* Runs a compiled model and prints its five highest scores. No Python, no TVM.
 *
 *     cc examples/deploy/classify.c -o classify -ldl
 *     ./classify resnet18.so input.f32
 *
 * One file for each input of the model: its raw elements, row by row. Without a file an input is a
 * ramp from 0 to 1. To build it on another machine, copy this file and tvmconv.h. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tvmconv.h"

static int fill(const tvmconv_tensor *tensor, void *data, const char *path) {
    if (path == NULL) {
        uint64_t count = tensor->bytes / sizeof(float);
        for (uint64_t i = 0; tensor->dtype == TVMCONV_FLOAT32 && i < count; ++i)
            ((float *)data)[i] = (float)i / (float)count;
        return 1;
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 0;
    }
    int complete = fread(data, 1, tensor->bytes, file) == tensor->bytes && fgetc(file) == EOF;
    fclose(file);
    if (!complete)
        fprintf(stderr, "%s: input %s takes exactly %llu bytes\n", path, tensor->name,
                (unsigned long long)tensor->bytes);
    return complete;
}

static void print_highest(const tvmconv_tensor *tensor, const float *scores) {
    uint64_t count = tensor->bytes / sizeof(float), best[5], found = 0;
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t place = found < 5 ? found++ : 5;
        for (; place > 0 && scores[best[place - 1]] < scores[i]; --place)
            if (place < 5) best[place] = best[place - 1];
        if (place < 5) best[place] = i;
    }
    printf("%s, highest of %llu:\n", tensor->name, (unsigned long long)count);
    for (uint64_t i = 0; i < found; ++i)
        printf("%8llu  %g\n", (unsigned long long)best[i], scores[best[i]]);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: %s model.so [file of input ...]\n", arguments[0]);
        return 2;
    }
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const tvmconv_model *model = dlsym(library, "tvmconv_model");
    if (model == NULL || model->abi != TVMCONV_ABI) {
        fprintf(stderr, "%s: not a model for version %d of tvmconv.h; compile it again\n",
                arguments[1], TVMCONV_ABI);
        return 1;
    }

    const tvmconv_description *about = model->description;
    char message[512];
    tvmconv_state *state;
    if (model->create(NULL, &state, message, sizeof message)) {
        fprintf(stderr, "%s: %s\n", arguments[1], message);
        return 1;
    }

    void **inputs = calloc((size_t)about->input_count + 1, sizeof *inputs);
    void **outputs = calloc((size_t)about->output_count + 1, sizeof *outputs);
    int status = inputs == NULL || outputs == NULL;
    for (int i = 0; i < about->input_count && !status; ++i) {
        inputs[i] = calloc(1, about->inputs[i].bytes);
        status = inputs[i] == NULL ||
                 !fill(&about->inputs[i], inputs[i], i + 2 < count ? arguments[i + 2] : NULL);
    }
    for (int i = 0; i < about->output_count && !status; ++i)
        status = (outputs[i] = calloc(1, about->outputs[i].bytes)) == NULL;

    if (!status) {
        status = model->run(state, (const void *const *)inputs, outputs);
        if (status) fprintf(stderr, "%s\n", model->message(state));
    }
    for (int i = 0; i < about->output_count && !status; ++i)
        if (about->outputs[i].dtype == TVMCONV_FLOAT32)
            print_highest(&about->outputs[i], outputs[i]);

    for (int i = 0; inputs && i < about->input_count; ++i) free(inputs[i]);
    for (int i = 0; outputs && i < about->output_count; ++i) free(outputs[i]);
    free(inputs);
    free(outputs);
    model->destroy(state);
    dlclose(library);
    return status != 0;
}
