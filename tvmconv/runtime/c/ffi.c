/* ffi.c: the functions that TVM's loader finds. Part of runtime.c.
 *
 * tvm_ffi.load_module("model.so") gives a module with
 *
 *     main(input, ..., output, ...)                 computes into the given outputs
 *     profile(input, ..., output, ..., nanoseconds) the same; int64, one for each layer
 *     target()                                      the number of the target that runs here, from 0
 *
 * Tensors are DLTensor * or TVM's tensor objects, on the CPU. For a model on a GPU, all tensors of main
 * may be there. The call is then queued to the stream that TVM's environment names. */

#include "ffi_types.c"

static const struct {
    const char *name;
    uint8_t code, bits;
} dl_types[] = {
    /* tvmconv_dtype */
    {"float32", 2, 32}, {"float64", 2, 64}, {"float16", 2, 16}, {"bfloat16", 4, 16},
    {"int8", 0, 8},     {"int16", 0, 16},   {"int32", 0, 32},   {"int64", 0, 64},
    {"uint8", 1, 8},    {"uint16", 1, 16},  {"uint32", 1, 32},  {"uint64", 1, 64},
    {"bool", 6, 8},     {"float8_e4m3fn", 10, 8},   {"float8_e4m3fnuz", 11, 8},
    {"float8_e5m2", 12, 8}, {"float8_e5m2fnuz", 13, 8}, {"float8_e8m0fnu", 14, 8},
    {"float4_e2m1fn", 1, 8}, {"int4", 0, 8}, {"uint4", 1, 8}, {"int2", 0, 8}, {"uint2", 1, 8},
};

/* ---- A state for each calling thread ---- */

typedef struct ffi_state {
    tvmconv_state *state;
    struct ffi_state *next, **link; /* all, to be freed with the library */
} ffi_state;

static pthread_key_t ffi_key;
static int ffi_key_made;
static ffi_state *ffi_states;
static pthread_mutex_t ffi_mutex = PTHREAD_MUTEX_INITIALIZER;

static void renew_locks(void) { pthread_mutex_init(&ffi_mutex, NULL); }

static void ffi_free(void *argument) {
    ffi_state *own = argument;
    pthread_mutex_lock(&ffi_mutex);
    *own->link = own->next;
    if (own->next) own->next->link = own->link;
    pthread_mutex_unlock(&ffi_mutex);
    tvmconv_destroy(own->state);
    free(own);
}

static void ffi_make_key(void) { ffi_key_made = !pthread_key_create(&ffi_key, ffi_free); }

/* When the library is unloaded, or the process ends: threads that still run a model then keep
 * their states, which nobody can end from here. */
__attribute__((destructor)) static void ffi_unload(void) {
    if (!ffi_key_made) return;
    pthread_key_delete(ffi_key);
    while (ffi_states) {
        ffi_state *own = ffi_states;
        ffi_states = own->next;
        if (take(&own->state->busy)) {
            tvmconv_destroy(own->state);
            free(own);
        }
    }
}

static tvmconv_state *ffi_own_state(char *message, size_t size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    tvmconv_state *state;
    pthread_once(&once, ffi_make_key);
    ffi_state *own = ffi_key_made ? pthread_getspecific(ffi_key) : NULL;
    if (own) return own->state;
    if (tvmconv_create(NULL, &state, message, size)) return NULL;
    own = malloc(sizeof *own);
    if (own == NULL || !ffi_key_made || pthread_setspecific(ffi_key, own)) {
        free(own);
        tvmconv_destroy(state);
        snprintf(message, size, "the system gave no memory for the state of this thread");
        return NULL;
    }
    own->state = state;
    pthread_mutex_lock(&ffi_mutex);
    own->next = ffi_states;
    own->link = &ffi_states;
    if (own->next) own->next->link = &own->next;
    ffi_states = own;
    pthread_mutex_unlock(&ffi_mutex);
    return state;
}

/* ---- Arguments ---- */

/* The data of a tensor argument; NULL, and an error raised, if it does not fit. Counts tensors on a
 * GPU, which are allowed if there is a count. Axis 0 of the tensor is so many times as large. */
static void *ffi_data(const ffi_any *argument, int32_t index, const tvmconv_tensor *wanted,
                      int64_t images, int32_t *gpu_tensors) {
    char text[512], given_shape[128], wanted_shape[128];
    const dl_tensor *given = ffi_tensor(argument);
    if (given == NULL) {
        snprintf(text, sizeof text, "argument %d, %s, is not a tensor", (int)index, wanted->name);
        ffi_raise("TypeError", text);
        return NULL;
    }
    int known = given->dtype.lanes == 1 && given->dtype.code == dl_types[wanted->dtype].code &&
                given->dtype.bits == dl_types[wanted->dtype].bits;
    int same = given->rank == wanted->rank;
    int64_t sizes[wanted->rank + 1];
    for (int32_t i = 0; i < wanted->rank; ++i) sizes[i] = wanted->shape[i] * (i ? 1 : images);
    for (int32_t i = 0; same && i < given->rank; ++i) same = given->shape[i] == sizes[i];
    int on_gpu = given->device.type == DL_CUDA && given->device.id == 0;
    if (given->device.type != DL_CPU && !(on_gpu && gpu_tensors)) {
        snprintf(text, sizeof text, "argument %d, %s, is not on the CPU%s", (int)index,
                 wanted->name, tvmconv_this_description.device ? ", nor on its first GPU" : "");
    } else if (!known) {
        snprintf(text, sizeof text, "argument %d, %s, is not of type %s", (int)index, wanted->name,
                 dl_types[wanted->dtype].name);
    } else if (!same) {
        print_shape(given_shape, sizeof given_shape, given->shape, given->rank, 0);
        print_shape(wanted_shape, sizeof wanted_shape, sizes, wanted->rank, 0);
        snprintf(text, sizeof text, "argument %d, %s, has shape %s; the model takes %s", (int)index,
                 wanted->name, given_shape, wanted_shape);
    } else if (!is_dense(given)) {
        snprintf(text, sizeof text, "argument %d, %s, is not dense and row-major", (int)index,
                 wanted->name);
    } else {
        if (on_gpu) ++*gpu_tensors;
        return (char *)given->data + given->byte_offset;
    }
    ffi_raise("ValueError", text);
    return NULL;
}

/* The number of the program for the shapes of the arguments. It is the first one if they are not
 * tensors of its ranks. If the model was not built for them, an error is raised and the result is
 * -1. */
static int32_t ffi_program(const ffi_any *arguments, const int64_t **shapes) {
    const tvmconv_description *model = &tvmconv_this_description;
    char text[512];
    for (int32_t i = 0; i < model->input_count; ++i) {
        const dl_tensor *given = ffi_tensor(&arguments[i]);
        if (given == NULL || given->rank != model->inputs[i].rank) return 0;
        shapes[i] = given->shape;
    }
    int32_t found = find_program(shapes);
    if (found >= 0) return found;
    if (model->program_count == 1) return 0;
    report_shapes(text, sizeof text, shapes);
    ffi_raise("ValueError", text);
    return -1;
}

static int ffi_call(const ffi_any *arguments, int32_t count, int timed) {
    const tvmconv_description *model = &tvmconv_this_description;
    int32_t inputs = model->input_count, tensors = inputs + model->output_count;
    char text[512];
    if (count != tensors + timed) {
        snprintf(text, sizeof text, "%d arguments given; the model has %d inputs and %d outputs%s",
                 (int)count, (int)inputs, (int)model->output_count,
                 timed ? ", and the times of its layers are one more" : "");
        return ffi_raise("TypeError", text);
    }
    const int64_t *shapes[inputs + 1];
    memset(shapes, 0, sizeof shapes);
    int32_t program = ffi_program(arguments, shapes);
    if (program < 0) return -1;
    tvmconv_state *state = ffi_own_state(text, sizeof text);
    if (state == NULL) return ffi_raise("RuntimeError", text);
    model = state->target->description->programs[program];
    const int64_t images = timed ? 1 : count_images(shapes);
    int64_t layers = model->layer_count;
    const tvmconv_tensor times = {"nanoseconds", TVMCONV_INT64, 1, &layers, 0};
    void *pointers[tensors + 1];
    int32_t on_gpu = 0;
    for (int32_t i = 0; i < count; ++i) {
        const tvmconv_tensor *wanted = i < inputs    ? &model->inputs[i]
                                       : i < tensors ? &model->outputs[i - inputs]
                                                     : &times;
        int is_batched = i < tensors && model->batched && (i >= inputs || model->batched[i]);
        pointers[i] = ffi_data(&arguments[i], i, wanted, is_batched ? images : 1,
                               model->device && !timed ? &on_gpu : NULL);
        if (pointers[i] == NULL) return -1;
    }
    if (on_gpu && on_gpu != tensors)
        return ffi_raise("ValueError", "tensors are all on the GPU, or all on the CPU");
    const void *const *first = (const void *const *)pointers;
    int32_t status = tvmconv_set_shapes(state, shapes);
    if (!status)
        status = images != 1
                     ? tvmconv_run_batch(state, images, first, pointers + inputs)
               : timed ? tvmconv_profile(state, first, pointers + inputs, pointers[tensors])
               : on_gpu ? tvmconv_enqueue(state, ffi_stream(0), first, pointers + inputs)
                        : tvmconv_run(state, first, pointers + inputs);
    return status ? ffi_raise("RuntimeError", status == TVMCONV_BUSY
                                                  ? "this thread is already in a run of the model"
                                                  : tvmconv_message(state))
                  : 0;
}

#define FFI_FUNCTION(name, timed)                                                                  \
    __attribute__((visibility("default"))) int __tvm_ffi_##name(                                   \
        void *self, const ffi_any *arguments, int32_t count, ffi_any *result);                     \
    int __tvm_ffi_##name(void *self, const ffi_any *arguments, int32_t count, ffi_any *result) {   \
        (void)self;                                                                                \
        result->type_index = FFI_NONE;                                                             \
        result->padding = 0;                                                                       \
        result->value.integer = 0;                                                                 \
        return ffi_call(arguments, count, timed);                                                  \
    }

FFI_FUNCTION(main, 0)
FFI_FUNCTION(profile, 1)

__attribute__((visibility("default"))) int __tvm_ffi_target(void *self, const ffi_any *arguments,
                                                            int32_t count, ffi_any *result);
int __tvm_ffi_target(void *self, const ffi_any *arguments, int32_t count, ffi_any *result) {
    char text[512];
    (void)self, (void)arguments, (void)count;
    tvmconv_state *state = ffi_own_state(text, sizeof text);
    if (state == NULL) return ffi_raise("RuntimeError", text);
    result->type_index = FFI_INTEGER;
    result->padding = 0;
    result->value.integer = state->target - tvmconv_this_program.targets;
    return 0;
}
