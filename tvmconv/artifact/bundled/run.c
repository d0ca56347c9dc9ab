/* Runs a compiled model once, describes its outputs, and times it. No Python, no TVM.
 *
 *     cc run.c -o run -ldl
 *     ./run model.so [-o FOLDER] [-r REPEATS] [file of input ...]
 *
 * One file for each input, in the model's order: its raw elements, row by row. Without a file,
 * floats are a ramp from 0 to 1 and whole numbers 0. A model with several input shapes runs the first
 * one to which the sizes of the files fit. A model for any batch runs as many images as the file of its
 * first batched input holds. An output whose size depends on the data is
 * described and written in its actual shape. With -o each output is written as raw
 * elements to FOLDER/0.out, FOLDER/1.out, ... */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tvmconv.h"

enum { MOST_AXES = 16, MOST_INPUTS = 256 };

static const struct {
    const char *name;
    int bytes;
} types[] = {
    {"float32", 4}, {"float64", 8}, {"float16", 2}, {"bfloat16", 2}, {"int8", 1},
    {"int16", 2},   {"int32", 4},   {"int64", 8},   {"uint8", 1},    {"uint16", 2},
    {"uint32", 4},  {"uint64", 8},  {"bool", 1},
    {"float8_e4m3fn", 1}, {"float8_e4m3fnuz", 1}, {"float8_e5m2", 1}, {"float8_e5m2fnuz", 1},
    {"float8_e8m0fnu", 1}, {"float4_e2m1fn", 1}, {"int4", 1}, {"uint4", 1}, {"int2", 1},
    {"uint2", 1},
};

/* A tensor of several images. */
static void set_images(tvmconv_tensor *tensor, int64_t *shape, int64_t images) {
    for (int32_t i = 0; i < tensor->rank; ++i) shape[i] = tensor->shape[i] * (i ? 1 : images);
    tensor->shape = shape;
    tensor->bytes *= (uint64_t)images;
}

static int fill(const tvmconv_tensor *tensor, void *data, const char *path) {
    uint64_t count = tensor->bytes / (uint64_t)types[tensor->dtype].bytes;
    if (path == NULL) {
        for (uint64_t i = 0; i < count; ++i) {
            if (tensor->dtype == TVMCONV_FLOAT32) ((float *)data)[i] = (float)i / (float)count;
            if (tensor->dtype == TVMCONV_FLOAT64) ((double *)data)[i] = (double)i / (double)count;
        }
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

/* An element as a number; 0 for types that C has no arithmetic for. */
static double element(const tvmconv_tensor *tensor, const void *data, uint64_t i) {
    switch (tensor->dtype) {
    case TVMCONV_FLOAT32: return ((const float *)data)[i];
    case TVMCONV_FLOAT64: return ((const double *)data)[i];
    case TVMCONV_INT8: return ((const int8_t *)data)[i];
    case TVMCONV_INT16: return ((const int16_t *)data)[i];
    case TVMCONV_INT32: return ((const int32_t *)data)[i];
    case TVMCONV_INT64: return (double)((const int64_t *)data)[i];
    case TVMCONV_UINT8: return ((const uint8_t *)data)[i];
    case TVMCONV_UINT16: return ((const uint16_t *)data)[i];
    case TVMCONV_UINT32: return ((const uint32_t *)data)[i];
    case TVMCONV_UINT64: return (double)((const uint64_t *)data)[i];
    case TVMCONV_BOOL: return ((const uint8_t *)data)[i];
    default: return 0;
    }
}

static void describe(const char *kind, const tvmconv_tensor *tensor) {
    printf("%s %s %s", kind, tensor->name, types[tensor->dtype].name);
    for (int32_t i = 0; i < tensor->rank; ++i) printf(" %lld", (long long)tensor->shape[i]);
    printf("\n");
}

/* An output in its actual shape: the size of one axis may depend on the data. `data` is laid out for
 * the largest shape, and the elements that exist move together. */
static void pack(const tvmconv_model *model, const tvmconv_description *about,
                 const tvmconv_state *state, int64_t images, int32_t output, tvmconv_tensor *tensor,
                 int64_t *shape, char *data) {
    const tvmconv_tensor *largest = &about->outputs[output];
    *tensor = *largest;
    if (images != 1) {
        set_images(tensor, shape, images);
        return;
    }
    if (!TVMCONV_HAS(model, shape) || model->shape(state, output, shape)) return;
    tensor->shape = shape;
    uint64_t before = 1, full = (uint64_t)types[tensor->dtype].bytes, part = full;
    int32_t axis = 0;
    while (axis < tensor->rank && shape[axis] == largest->shape[axis]) ++axis;
    for (int32_t i = 0; i < tensor->rank; ++i) {
        if (i < axis) before *= (uint64_t)shape[i];
        else full *= (uint64_t)largest->shape[i], part *= (uint64_t)shape[i];
    }
    for (uint64_t i = 1; part < full && i < before; ++i)
        memmove(data + i * part, data + i * full, part);
    tensor->bytes = before * part;
}

static void summarize(const tvmconv_tensor *tensor, const void *data) {
    uint64_t count = tensor->bytes / (uint64_t)types[tensor->dtype].bytes, place = 0;
    double lowest = 0, highest = 0, sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
        double value = element(tensor, data, i);
        if (i == 0 || value < lowest) lowest = value;
        if (i == 0 || value > highest) highest = value, place = i;
        sum += value;
    }
    describe("output", tensor);
    if (count)
        printf("    minimum %g, maximum %g (at %llu), mean %g\n", lowest, highest,
               (unsigned long long)place, sum / (double)count);
}

static int write_output(const char *folder, int index, const tvmconv_tensor *tensor,
                        const void *data) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%d.out", folder, index) >= (int)sizeof path) {
        fprintf(stderr, "%s: the name is too long\n", folder);
        return 0;
    }
    FILE *file = fopen(path, "wb");
    int written = file != NULL && fwrite(data, 1, tensor->bytes, file) == tensor->bytes;
    if (file != NULL) written = fclose(file) == 0 && written;
    if (!written) perror(path);
    return written;
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* The size of a file; -1 if it cannot be read, which is reported later. */
static int64_t file_bytes(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return -1;
    int64_t size = fseek(file, 0, SEEK_END) ? -1 : (int64_t)ftell(file);
    fclose(file);
    return size;
}

/* Whether axis 0 of an input counts the images of a batch of any size. */
static int is_batched(const tvmconv_model *model, int32_t input) {
    return TVMCONV_HAS(model, run_batch) && model->description->batched &&
           model->description->batched[input];
}

/* How many images the files hold, or 0 where one does not fit. */
static int64_t count_images(const tvmconv_model *model, const tvmconv_description *about,
                            char **paths, int path_count) {
    int64_t images = 0;
    for (int i = 0; i < about->input_count && i < path_count; ++i) {
        int64_t bytes = (int64_t)about->inputs[i].bytes, size = file_bytes(paths[i]);
        if (size == -1) continue;
        int64_t own = bytes && size % bytes == 0 ? size / bytes : size == bytes;
        if (own == 0 || (!is_batched(model, i) && own != 1)) return 0;
        if (is_batched(model, i) && images && own != images) return 0;
        if (is_batched(model, i)) images = own;
    }
    return images ? images : 1;
}

/* Selects the shapes of the inputs by the sizes of their files, and returns their description. */
static const tvmconv_description *choose(const tvmconv_model *model, tvmconv_state *state,
                                         char **paths, int path_count, int64_t *images) {
    const tvmconv_description *first = model->description;
    const int64_t *shapes[MOST_INPUTS];
    *images = 1;
    if (!TVMCONV_HAS(model, set_shapes) || first->input_count > MOST_INPUTS) return first;
    for (int64_t p = 0; p < first->program_count; ++p) {
        const tvmconv_description *about = first->programs[p];
        int64_t found = count_images(model, about, paths, path_count);
        for (int i = 0; i < about->input_count; ++i) shapes[i] = about->inputs[i].shape;
        if (found && !model->set_shapes(state, shapes)) {
            *images = found;
            return about;
        }
    }
    return first;
}

/* Fills the inputs, runs, and reports; 0 where all went well. */
static int use(const tvmconv_model *model, tvmconv_state *state, void **inputs, void **outputs,
               char **paths, int path_count, const char *folder, int repeats) {
    int64_t images;
    const tvmconv_description *about = choose(model, state, paths, path_count, &images);
    double best = 0;
    for (int i = 0; i < about->input_count; ++i) {
        int64_t shape[MOST_AXES];
        tvmconv_tensor input = about->inputs[i];
        if (input.rank > MOST_AXES) return 1;
        if (is_batched(model, i)) set_images(&input, shape, images);
        inputs[i] = calloc(1, input.bytes + 1);
        if (inputs[i] == NULL || !fill(&input, inputs[i], i < path_count ? paths[i] : NULL)) return 1;
        describe("input", &input);
    }
    for (int i = 0; i < about->output_count; ++i)
        if ((outputs[i] = calloc(1, about->outputs[i].bytes * (uint64_t)images + 1)) == NULL) return 1;
    for (int i = 0; i < repeats; ++i) {
        double start = milliseconds();
        if (images == 1 ? model->run(state, (const void *const *)inputs, outputs)
                        : model->run_batch(state, images, (const void *const *)inputs, outputs)) {
            fprintf(stderr, "%s\n", model->message(state));
            return 1;
        }
        double taken = milliseconds() - start;
        if (i == 0 || taken < best) best = taken;
    }
    for (int i = 0; i < about->output_count; ++i) {
        int64_t shape[MOST_AXES];
        tvmconv_tensor output;
        if (about->outputs[i].rank > MOST_AXES) return 1;
        pack(model, about, state, images, i, &output, shape, outputs[i]);
        summarize(&output, outputs[i]);
        if (folder && !write_output(folder, i, &output, outputs[i])) return 1;
    }
    if (TVMCONV_HAS(model, describe)) about = model->describe(state);
    printf("%.3f ms a call (best of %d) of the code for %s, %d thread(s)\n", best, repeats,
           about->target, (int)model->threads(state));
    return 0;
}

int main(int count, char **arguments) {
    const char *name = NULL, *folder = NULL;
    int repeats = 10, next = 1;
    if (next < count) name = arguments[next++];
    for (; next + 1 < count && arguments[next][0] == '-'; next += 2) {
        if (!strcmp(arguments[next], "-o")) folder = arguments[next + 1];
        else if (!strcmp(arguments[next], "-r")) repeats = atoi(arguments[next + 1]);
        else break;
    }
    if (name == NULL || repeats < 1 || (next < count && arguments[next][0] == '-')) {
        fprintf(stderr, "usage: %s model.so [-o FOLDER] [-r REPEATS] [file of input ...]\n",
                arguments[0]);
        return 2;
    }
    void *library = dlopen(name, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const tvmconv_model *model = dlsym(library, "tvmconv_model");
    if (model == NULL || model->abi != TVMCONV_ABI) {
        fprintf(stderr, "%s: not a model for version %d of tvmconv.h; compile it again\n", name,
                TVMCONV_ABI);
        return 1;
    }
    const tvmconv_description *about = model->description;
    if (count - next > about->input_count) {
        fprintf(stderr, "%s has %d input(s), %d files are given\n", name, (int)about->input_count,
                count - next);
        return 2;
    }
    char message[512];
    tvmconv_state *state;
    if (model->create(NULL, &state, message, sizeof message)) {
        fprintf(stderr, "%s: %s\n", name, message);
        return 1;
    }
    void **inputs = calloc((size_t)about->input_count + 1, sizeof *inputs);
    void **outputs = calloc((size_t)about->output_count + 1, sizeof *outputs);
    int status = inputs == NULL || outputs == NULL ||
                 use(model, state, inputs, outputs, arguments + next, count - next, folder,
                     repeats);
    for (int i = 0; inputs && i < about->input_count; ++i) free(inputs[i]);
    for (int i = 0; outputs && i < about->output_count; ++i) free(outputs[i]);
    free(inputs);
    free(outputs);
    model->destroy(state);
    dlclose(library);
    return status;
}
