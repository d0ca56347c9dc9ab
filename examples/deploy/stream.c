/* Queues a call of a model for a GPU to a stream of the program's own, and prints the first value of
 * each output. Inputs are ramps from 0 to 1; those and outputs stay in the GPU's memory.
 *
 *     cc examples/deploy/stream.c -o stream -I/usr/local/cuda/include -ldl -lcuda
 *     ./stream resnet18.so
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tvmconv.h"

static int failed(const char *what) {
    fprintf(stderr, "%s failed\n", what);
    return 1;
}

#define CHECK(call)                                                                                \
    if (call) return failed(#call)

/* Memory of the GPU for each of `count` tensors, with a ramp in it. */
static int ramps(void **memory, const tvmconv_tensor *tensors, int count, CUstream stream) {
    for (int i = 0; i < count; ++i) {
        uint64_t elements = tensors[i].bytes / sizeof(float);
        float *values = malloc(tensors[i].bytes + 1);
        CUdeviceptr place;
        if (values == NULL) return failed("malloc");
        for (uint64_t j = 0; j < elements; ++j) values[j] = (float)j / (float)elements;
        CHECK(cuMemAlloc(&place, tensors[i].bytes));
        CHECK(cuMemcpyHtoDAsync(place, values, tensors[i].bytes, stream));
        CHECK(cuStreamSynchronize(stream));
        memory[i] = (void *)place;
        free(values);
    }
    return 0;
}

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    const tvmconv_model *model = library ? dlsym(library, "tvmconv_model") : NULL;
    if (model == NULL || model->abi != TVMCONV_ABI || !TVMCONV_HAS(model, enqueue))
        return failed("opening a model of this version of tvmconv.h");

    /* The stream: of the primary context, which frameworks and the model use, too. */
    CUcontext context;
    CUstream stream;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    const tvmconv_description *about = model->description;
    tvmconv_state *state;
    char message[512];
    if (model->create(NULL, &state, message, sizeof message)) return failed(message);
    void **inputs = calloc((size_t)about->input_count + 1, sizeof *inputs);
    void **outputs = calloc((size_t)about->output_count + 1, sizeof *outputs);
    if (inputs == NULL || outputs == NULL) return failed("calloc");
    if (ramps(inputs, about->inputs, about->input_count, stream)) return 1;
    if (ramps(outputs, about->outputs, about->output_count, stream)) return 1;

    /* The call: what the stream was given before comes first, what it is given later comes behind. */
    if (model->enqueue(state, stream, (const void *const *)inputs, outputs))
        return failed(model->message(state));
    for (int i = 0; i < about->output_count; ++i) {
        float first;
        CHECK(cuMemcpyDtoHAsync(&first, (CUdeviceptr)outputs[i], sizeof first, stream));
        CHECK(cuStreamSynchronize(stream));
        printf("%s: %g\n", about->outputs[i].name, first);
    }

    model->destroy(state);
    for (int i = 0; i < about->input_count; ++i) cuMemFree((CUdeviceptr)inputs[i]);
    for (int i = 0; i < about->output_count; ++i) cuMemFree((CUdeviceptr)outputs[i]);
    free(inputs);
    free(outputs);
    cuStreamDestroy(stream);
    cuDevicePrimaryCtxRelease(0);
    dlclose(library);
    return 0;
}
