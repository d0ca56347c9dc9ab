/* vm_calls.c: kernels for NVIDIA GPUs that TVM's virtual machine calls.
 *
 * The pass SubstituteConv2d generates a file that includes this one (compile/vm_calls.py). It has
 * the fatbins, and tables of calls. A call launches kernels, one after another, in the stream that
 * TVM's environment names. Tensors are in the memory of one GPU, which TVM allocates. The first call
 * on a GPU loads the kernels there. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TVMCONV_CUDA 1
#include "program.h"

/* vector loads of kernels require it of a tensor's address */
#define TENSOR_ALIGNMENT 16

/* An operand of a kernel: a tensor of the call, and the offset there in bytes. */
typedef struct {
    int32_t tensor;
    uint64_t offset;
} vm_operand;

/* A launch: the kernel's index in tvmconv_this_gpu, and its operands in the call's table. */
typedef struct {
    int32_t kernel, first, count;
} vm_launch;

typedef struct {
    const char *name;
    int32_t tensor_count, launch_count;
    const uint64_t *bytes; /* sizes of the tensors */
    const vm_launch *launches;
    const vm_operand *operands;
} vm_call;

static int32_t refuse(char *message, size_t size, int32_t status, const char *text) {
    snprintf(message, size, "%s", text);
    return status;
}

#include "driver.c"
#include "ffi_types.c"
#include "modules.c"

static struct {
    pthread_mutex_t mutex;
    pid_t process; /* that has the parts */
    struct gpu_part *parts;
} gpus = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Loads the kernels to a GPU; its context stays current, unless this fails. */
static int32_t open_part(struct gpu_part *part, char *message, size_t size) {
    int32_t status = find_gpu(part, message, size);
    if (status) return status;
    cu_result failed = driver.context_retain(&part->context, part->device);
    if (failed) return refuse(message, size, TVMCONV_UNSUPPORTED, driver_text(failed));
    status = enter(part->context, message, size);
    if (!status && (status = load_kernels(part, message, size))) {
        unload_kernels(part);
        driver.context_pop(NULL);
    }
    if (status) driver.context_release(part->device);
    return status;
}

/* The kernels on a GPU, whose context becomes current; NULL, and a message, if it cannot. */
static struct gpu_part *entered_part(int32_t index, char *message, size_t size) {
    pthread_mutex_lock(&gpus.mutex);
    int32_t status = open_driver(message, size);
    struct gpu_part *part = gpus.parts;
    while (part && part->index != index) part = part->next;
    if (!status && part) {
        status = enter(part->context, message, size);
    } else if (!status && (part = calloc(1, sizeof *part)) == NULL) {
        status = refuse(message, size, TVMCONV_MEMORY, "the system gave no memory");
    } else if (!status) {
        part->index = index;
        status = open_part(part, message, size);
        if (!status) {
            part->next = gpus.parts;
            gpus.parts = part;
            gpus.process = getpid();
        } else {
            free_part(part);
        }
    }
    pthread_mutex_unlock(&gpus.mutex);
    return status ? NULL : part;
}

/* When the library is unloaded. At the end of the process the driver may have ended before, and a
 * forked child owns nothing on the GPU. */
__attribute__((destructor)) static void close_parts(void) {
    const int own = gpus.process == getpid();
    for (struct gpu_part *part = gpus.parts, *next; part; part = next) {
        next = part->next;
        if (own && !driver.context_push(part->context)) {
            unload_kernels(part);
            driver.context_pop(NULL);
            driver.context_release(part->device);
        }
        free_part(part);
    }
}

static uint64_t tensor_bytes(const dl_tensor *given) {
    uint64_t bits = (uint64_t)given->dtype.bits * given->dtype.lanes;
    for (int32_t i = 0; i < given->rank; ++i) bits *= (uint64_t)given->shape[i];
    return (bits + 7) / 8;
}

/* The addresses of the tensors, and their GPU; -1, and an error raised, if one does not fit. */
static int read_tensors(const vm_call *call, const ffi_any *arguments, int32_t count,
                        cu_pointer *addresses, int32_t *gpu) {
    char text[512];
    if (count != call->tensor_count) {
        snprintf(text, sizeof text, "%s takes %d tensors, got %d", call->name,
                 (int)call->tensor_count, (int)count);
        return ffi_raise("TypeError", text);
    }
    for (int32_t i = 0; i < count; ++i) {
        const dl_tensor *given = ffi_tensor(&arguments[i]);
        const char *fault = NULL;
        if (given == NULL) fault = "is not a tensor";
        else if (given->device.type != DL_CUDA)
            fault = "is not in the memory of a GPU. Copy it to tvm.cuda(0)";
        else if (i && given->device.id != *gpu)
            fault = "is on another GPU than the first tensor. Copy it to the same GPU";
        else if (tensor_bytes(given) != call->bytes[i]) fault = "has another size in bytes";
        else if (!is_dense(given)) fault = "is not dense and row-major. Make a contiguous copy";
        if (!fault) {
            *gpu = given->device.id;
            addresses[i] = (cu_pointer)given->data + given->byte_offset;
            if (call->bytes[i] && addresses[i] % TENSOR_ALIGNMENT)
                fault = "does not begin at a multiple of 16 bytes. Make a copy";
        }
        if (fault) {
            snprintf(text, sizeof text, "tensor %d of %s %s", (int)i, call->name, fault);
            return ffi_raise("ValueError", text);
        }
    }
    return 0;
}

static cu_result launch_all(const vm_call *call, const struct gpu_part *part,
                            const cu_pointer *addresses, cu_handle stream) {
    cu_result status = 0;
    for (int32_t i = 0; i < call->launch_count && !status; ++i) {
        const vm_launch *launch = &call->launches[i];
        const tvmconv_kernel *kernel = &tvmconv_this_gpu.kernels[launch->kernel];
        const uint32_t *grid = kernel->grid, *block = kernel->block;
        cu_pointer values[launch->count + 1];
        void *pointers[launch->count + 1];
        for (int32_t j = 0; j < launch->count; ++j) {
            const vm_operand *operand = &call->operands[launch->first + j];
            values[j] = addresses[operand->tensor] + operand->offset;
            pointers[j] = &values[j];
        }
        status = driver.launch(part->functions[launch->kernel], grid[0], grid[1], grid[2], block[0],
                               block[1], block[2], kernel->shared_bytes, stream, pointers, NULL);
    }
    return status;
}

static int vm_run(const vm_call *call, const ffi_any *arguments, int32_t count) {
    char text[512], message[640];
    cu_pointer addresses[call->tensor_count + 1];
    int32_t gpu = 0;
    if (read_tensors(call, arguments, count, addresses, &gpu)) return -1;
    const struct gpu_part *part = entered_part(gpu, text, sizeof text);
    if (part == NULL) return ffi_raise("RuntimeError", text);
    cu_result status = launch_all(call, part, addresses, ffi_stream(gpu));
    driver.context_pop(NULL);
    if (!status) return 0;
    snprintf(message, sizeof message, "%s failed on GPU %d: %s", call->name, (int)gpu,
             driver_text(status));
    return ffi_raise("RuntimeError", message);
}

/* The function that TVM finds by a symbol. */
#define VM_FUNCTION(symbol, call)                                                                  \
    __attribute__((visibility("default"))) int __tvm_ffi_##symbol(                                 \
        void *self, const ffi_any *arguments, int32_t count, ffi_any *result);                     \
    int __tvm_ffi_##symbol(void *self, const ffi_any *arguments, int32_t count,                    \
                           ffi_any *result) {                                                      \
        (void)self;                                                                                \
        result->type_index = FFI_NONE;                                                             \
        result->padding = 0;                                                                       \
        result->value.integer = 0;                                                                 \
        return vm_run(&(call), arguments, count);                                                  \
    }
