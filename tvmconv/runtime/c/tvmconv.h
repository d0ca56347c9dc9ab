/* tvmconv.h: the C interface of every model that tvmconv compiles.
 *
 * A model is one shared object that needs libc, libm and threads only. A model for an NVIDIA GPU
 * opens the driver when its first state is made. A model exports one object of type tvmconv_model
 * under the name `tvmconv_model`, for dlopen. A second, unique name (see the header that `tvmconv
 * compile --header` writes) lets one program link many models.
 *
 *     const tvmconv_model *model = dlsym(dlopen("resnet18.so", RTLD_NOW), "tvmconv_model");
 *     if (model == NULL || model->abi != TVMCONV_ABI) ...
 *     tvmconv_state *state;
 *     char message[256];
 *     if (model->create(NULL, &state, message, sizeof message)) puts(message);
 *     const void *inputs[] = {image};
 *     void *outputs[] = {scores};
 *     if (model->run(state, inputs, outputs)) puts(model->message(state));
 *     model->destroy(state);
 *
 * Nothing is global: a state holds the activation memory and the threads of one call at a time.
 * States of one model share its weights. Different threads use different states; a state is used
 * by one thread at a time, any thread. A forked child may use the states of its parent, except
 * on a GPU. Destroy states and pools before dlclose: their threads run the model's code.
 */
#ifndef TVMCONV_H
#define TVMCONV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increases when a field's place or meaning changes. New fields are added only at the end of a
 * struct with a `size`, which says how many fields it has. */
#define TVMCONV_ABI 1

typedef enum tvmconv_status {
    TVMCONV_OK = 0,
    TVMCONV_INVALID = 1,     /* an argument is NULL, an option is out of range, or the model was not
                              * built for such shapes */
    TVMCONV_UNSUPPORTED = 2, /* this processor or GPU lacks what the model was built for */
    TVMCONV_MEMORY = 3,      /* the system gave no memory or no threads */
    TVMCONV_WEIGHTS = 4,     /* the file of weights is missing or is another model's */
    TVMCONV_FAILED = 5,      /* a kernel failed */
    TVMCONV_BUSY = 6,        /* another thread is using the state; without a message */
    TVMCONV_DATA = 7         /* a node refuses the data, such as an index outside of a tensor; outputs
                              * are undefined, and the state stays usable */
} tvmconv_status;

typedef enum tvmconv_dtype {
    TVMCONV_FLOAT32 = 0, TVMCONV_FLOAT64 = 1, TVMCONV_FLOAT16 = 2, TVMCONV_BFLOAT16 = 3,
    TVMCONV_INT8 = 4, TVMCONV_INT16 = 5, TVMCONV_INT32 = 6, TVMCONV_INT64 = 7,
    TVMCONV_UINT8 = 8, TVMCONV_UINT16 = 9, TVMCONV_UINT32 = 10, TVMCONV_UINT64 = 11,
    TVMCONV_BOOL = 12, /* one byte, 0 or 1 */
    /* one byte each, with the value in its low bits */
    TVMCONV_FLOAT8_E4M3FN = 13, TVMCONV_FLOAT8_E4M3FNUZ = 14, TVMCONV_FLOAT8_E5M2 = 15,
    TVMCONV_FLOAT8_E5M2FNUZ = 16, TVMCONV_FLOAT8_E8M0FNU = 17, TVMCONV_FLOAT4_E2M1FN = 18,
    TVMCONV_INT4 = 19, TVMCONV_UINT4 = 20, TVMCONV_INT2 = 21, TVMCONV_UINT2 = 22
} tvmconv_dtype;

/* An input or output: dense, row-major, in the layout of the ONNX model. */
typedef struct tvmconv_tensor {
    const char *name;
    int32_t dtype; /* tvmconv_dtype */
    int32_t rank;
    const int64_t *shape; /* rank extents; NULL for rank 0 */
    uint64_t bytes;
} tvmconv_tensor;

/* One kernel call, in the order of execution; calls of a sub-graph follow the call that runs it. */
typedef struct tvmconv_layer {
    const char *name;      /* ONNX node or nodes; "" without any */
    const char *operation; /* "conv2d", "max_pool2d", "reorder", ... */
    const char *algorithm; /* "direct", "winograd", ...; "" without a choice */
    const char *workload;  /* the problem in tvmconv's one-line form; "" where it has none */
    const char *kernel;    /* symbol of the function */
    uint64_t flops;        /* nominal floating-point operations; 0 where none are counted */
    uint64_t bytes;        /* size of all operands */
} tvmconv_layer;

typedef struct tvmconv_description {
    uint32_t size; /* sizeof(tvmconv_description) when the model was built */
    int32_t input_count, output_count, layer_count;
    const tvmconv_tensor *inputs, *outputs;
    const tvmconv_layer *layers;
    const char *name;            /* the ONNX model's name */
    const char *version;         /* version of tvmconv */
    const char *target;          /* the machine's name, "x86-64-v3" */
    const char *features;        /* required CPU features, "avx2 fma" */
    /* A model may have code for several targets, of which each state has one: see `describe`. The
     * model's own description then has the names of all targets, separated by ", ", and the features
     * that all of them require. It lists the layers of the first target. Nameless ones follow if
     * another target has more layers, so that there is room for the times of any target. Sizes of
     * memory are the maximum. Inputs and outputs are equal for all targets. */
    uint64_t arena_bytes;        /* activation memory; a state has it for the largest program */
    uint64_t workspace_bytes;    /* scratch memory of a state for each thread: the maximum at a
                                  * time, each piece rounded up to 64 bytes */
    uint64_t weight_bytes;       /* constants, shared by all states */
    int32_t threads;             /* the number the kernels were chosen for */
    int32_t separate_weights;    /* 1: the weights are a separate file */
    int32_t device;              /* where kernels run: 0 the processor, 1 an NVIDIA GPU */
    const int32_t *varying_axes; /* for each output, the axis whose extent depends on the data of a
                                  * call, or -1; NULL if no output has one. In `outputs`, its extent
                                  * is the largest, and `bytes` are for it. Models whose `size` does
                                  * not reach this field have no such output. */
    /* A model may serve several shapes of its inputs, each by a program of its own: see set_shapes.
     * Each program has a description. Names, types and ranks of tensors are equal in all of them. The
     * first description is the model's own. Models whose `size` does not reach these fields have
     * one program. */
    const struct tvmconv_description *const *programs;
    int64_t program_count;
    /* For each input, 1 if its axis 0 counts the images of a batch, or 0 if it is the same for all
     * images of a call. NULL if the model does not serve any batch: see run_batch. Shapes and bytes
     * are for one image. Models whose `size` does not reach this field have none. */
    const int32_t *batched;
} tvmconv_description;

/* Runs a kernel's parts in parallel: calls task(argument, i) for every i in [0, count), on any
 * threads, and returns when all have returned. No two calls that run at a time may have the same i.
 * Returns 0, or the result of a task that was not 0. */
typedef int32_t (*tvmconv_task)(void *argument, int32_t index);
typedef int32_t (*tvmconv_parallel_for)(void *context, int32_t count, tvmconv_task task,
                                        void *argument);

typedef struct tvmconv_options {
    uint32_t size;   /* sizeof(tvmconv_options) */
    /* 0: as many as the model was built for. At most one per allowed CPU (affinity, control group,
     * the environment's TVMCONV_NUM_THREADS) unless you give both a number and a parallel_for. */
    int32_t threads;
    tvmconv_parallel_for parallel_for; /* NULL: a pool of threads that the state owns */
    void *parallel_context;            /* passed to parallel_for */
    const void *weights;      /* for separate weights: the file's content, 64-byte aligned ... */
    uint64_t weight_bytes;    /* ... its size ... */
    const char *weights_path; /* ... or its path, to be mapped. Both NULL: model.weights in
                               * the folder of model.so */
    /* GPU only: whether the launches of a call are captured into a CUDA graph, which later calls
     * replay. 1: yes. -1: no. 0: as the variable TVMCONV_CUDA_GRAPH says (1 or 0), or else at batch
     * size 1. */
    int32_t cuda_graph;
    /* GPU only: the number of the GPU, from 0. (64 bits, so that the field begins after the padding
     * of the field before.) */
    int64_t gpu;
    /* The name of the target whose code the state runs. With NULL, a model with several targets runs
     * the one that the variable TVMCONV_TARGET names. Without the variable, it runs the first one
     * whose CPU features this processor has. */
    const char *target;
} tvmconv_options;

typedef struct tvmconv_state tvmconv_state;
typedef struct tvmconv_pool tvmconv_pool;
typedef struct tvmconv_queue tvmconv_queue;

/* A queue has streams: threads with a state each, which run calls in the order of submission. */
typedef struct tvmconv_queue_options {
    uint32_t size;                  /* sizeof(tvmconv_queue_options) */
    int32_t streams;                /* 0: as many as the CPUs suffice for; on a GPU one */
    const tvmconv_options *options; /* each stream makes its state with these; may be NULL */
    const char *cpus;               /* NULL: streams are not bound. Or CPUs, see `cpus` of a model:
                                     * each stream is bound to the next ones, one per thread */
} tvmconv_queue_options;

/* Is called when a submitted call has ended, on the stream's thread. The status is of `run` or
 * `set_shapes`; `state` serves `message` and `shape` until the function returns. It may submit, and
 * must neither wait for the queue nor destroy it. */
typedef void (*tvmconv_done)(void *argument, int32_t status, const tvmconv_state *state);

typedef struct tvmconv_model {
    uint32_t abi;  /* TVMCONV_ABI of the model; nothing else may be read if it is another */
    uint32_t size; /* sizeof(tvmconv_model) when the model was built */
    const tvmconv_description *description;

    /* Makes a state: checks the processor, allocates the arena, starts threads. Options may be
     * NULL. On failure *state is NULL and the message, if there is room for one, a sentence. */
    int32_t (*create)(const tvmconv_options *options, tvmconv_state **state, char *message,
                      size_t message_size);
    /* One inference. Pointers in the order of the description, aligned to their elements at
     * least; inputs and outputs do not overlap. GPU only: they may point to the GPU's memory, too,
     * where inputs must be complete. Allocates nothing. (The C library may allocate a few bytes
     * for a thread's variables when a thread that did not create the state first runs it.) */
    int32_t (*run)(tvmconv_state *state, const void *const *inputs, void *const *outputs);
    /* As run, with the nanoseconds that each layer took, in a loop in all trips together. */
    int32_t (*profile)(tvmconv_state *state, const void *const *inputs, void *const *outputs,
                       int64_t *nanoseconds);
    /* The message of the last failed call of this state; "" if none failed. */
    const char *(*message)(const tvmconv_state *state);
    void (*destroy)(tvmconv_state *state); /* NULL is allowed */

    /* A pool for several states, of any models: options.parallel_for = model->pool_parallel_for,
     * options.parallel_context = pool. A call that finds it busy runs on its own thread. `threads`
     * counts the caller's; 0: one per allowed CPU. */
    int32_t (*pool_create)(int32_t threads, tvmconv_pool **pool);
    int32_t (*pool_parallel_for)(void *pool, int32_t count, tvmconv_task task, void *argument);
    void (*pool_destroy)(tvmconv_pool *pool);

    /* How many threads a state uses. */
    int32_t (*threads)(const tvmconv_state *state);

    /* GPU only: as run, but queued to the caller's stream without waiting. Pointers are to the
     * GPU's memory. Operands that are aligned to 16 bytes, as by the driver and by frameworks, are
     * used in place. The stream is a CUstream or cudaStream_t of the device's
     * primary context, NULL the default one. Calls of one state follow each other, also in different
     * streams. The caller keeps the tensors until the stream is done with them. Models with varying
     * outputs are refused: the extents are known when the stream is done. Check
     * TVMCONV_HAS(model, enqueue) first: older models lack it.
     * A stream that the caller captures gets the call's launches, once the model has run on that
     * GPU. The graph then uses the memory of the state. Earlier calls must be complete before a
     * replay, no call of the state may run during a replay, and the state must outlive the graph. */
    int32_t (*enqueue)(tvmconv_state *state, void *stream, const void *const *inputs,
                       void *const *outputs);

    /* The actual shape of an output after the last run of this state, in `rank` extents. Only the
     * extent of its varying axis may differ from the description. The output's memory is laid out
     * for the largest shape: along axis 0 the first rows are the actual ones. Elements beyond the
     * actual shape are undefined. Check TVMCONV_HAS(model, shape) first: older models lack it. */
    int32_t (*shape)(const tvmconv_state *state, int32_t output, int64_t *shape);

    /* Selects the program of later calls of this state by the shapes of the inputs. `shapes` has a
     * pointer for each input, to as many extents as its rank. Inputs and outputs of a call are then
     * as that program describes them, and `profile` gives the times of its layers. A new state has
     * the first program. Axis 0 of batched inputs may have any extent. Allocates nothing. If the
     * model was not built for these shapes, the result
     * is TVMCONV_INVALID. The message then lists the shapes, and the state keeps its program. Check
     * TVMCONV_HAS(model, set_shapes) first: older models lack it and have one program. */
    int32_t (*set_shapes)(tvmconv_state *state, const int64_t *const *shapes);

    /* The description of what a state runs: the program of its shapes, for its target. `profile`
     * gives the times of these layers. With NULL as the state, the result is for a new state here,
     * or NULL if this processor runs no target of the model. Check TVMCONV_HAS(model, describe) first:
     * older models lack it and have one target. */
    const tvmconv_description *(*describe)(const tvmconv_state *state);

    /* As run, with any number of images in each batched input and in each output, one after another
     * along axis 0. The outputs equal the outputs of a call for each image, bit for bit. A call that
     * fails may have written some of them. Allocates nothing. Check TVMCONV_HAS(model, run_batch) and
     * description->batched first. A model that does not serve any batch returns TVMCONV_INVALID. */
    int32_t (*run_batch)(tvmconv_state *state, int64_t images, const void *const *inputs,
                         void *const *outputs);

    /* The CPUs that a text names, less the CPUs that the calling thread may not use. A text is a
     * list such as "0-3,8", "performance", or "node:1" for a NUMA node. "performance" names the
     * performance cores, or all where cores are equal; NULL names all. At most as many are listed as
     * may run at a time (control group, TVMCONV_NUM_THREADS). Second hardware threads of cores follow
     * the first ones, except in a list of numbers. Writes at most `capacity` numbers. Returns how
     * many there are, or -1 for another text. Check TVMCONV_HAS(model, cpus) first: older models lack
     * this function and the next ones. */
    int32_t (*cpus)(const char *text, int32_t *numbers, int32_t capacity);

    /* Makes a queue and starts its streams. Options may be NULL. Failures are reported as by create. */
    int32_t (*queue_create)(const tvmconv_queue_options *options, tvmconv_queue **queue,
                            char *message, size_t message_size);
    /* Queues a call, from any thread. `shapes` is as for set_shapes; NULL selects the first program.
     * They also tell the number of images of a model that serves any batch. The tables of pointers and
     * the shapes are copied. The caller keeps the tensors until `done` is called. Returns
     * TVMCONV_INVALID if a pointer is NULL, and TVMCONV_UNSUPPORTED in a forked child, which makes a
     * queue of its own; `done` is then never called. */
    int32_t (*queue_submit)(tvmconv_queue *queue, const int64_t *const *shapes,
                            const void *const *inputs, void *const *outputs, tvmconv_done done,
                            void *argument);
    /* Waits until at most `most` calls are unfinished, and returns how many are. 0 waits for all,
     * INT64_MAX for none. A number between them limits the memory of waiting calls. */
    int64_t (*queue_wait)(tvmconv_queue *queue, int64_t most);
    /* How many streams a queue has. */
    int32_t (*queue_streams)(const tvmconv_queue *queue);
    /* Runs the calls that wait, and ends the streams. NULL is allowed. */
    void (*queue_destroy)(tvmconv_queue *queue);
} tvmconv_model;

/* Whether a model has a function that was added to the interface. */
#define TVMCONV_HAS(model, function)                                                               \
    ((model)->size >= offsetof(tvmconv_model, function) + sizeof((model)->function))

#ifdef _OPENMP
/* For options.parallel_for, in a program that is compiled with OpenMP. */
static inline int32_t tvmconv_openmp_parallel_for(void *context, int32_t count, tvmconv_task task,
                                                  void *argument) {
    int32_t status = 0;
    (void)context;
#pragma omp parallel for schedule(static, 1) num_threads(count)
    for (int32_t i = 0; i < count; ++i) {
        int32_t result = task(argument, i);
        if (result) {
#pragma omp atomic write
            status = result;
        }
    }
    return status;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
