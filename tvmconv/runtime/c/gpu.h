/* gpu.h: the interface between cuda.c and the generated model.c of a model for GPUs. Not
 * installed; program.h includes it if TVMCONV_CUDA is defined. */
#ifndef TVMCONV_GPU_H
#define TVMCONV_GPU_H

/* A launch: the kernel's name in its module, and the parameters of cuLaunchKernel. */
typedef struct tvmconv_kernel {
    const char *name;
    int32_t module;
    uint32_t grid[3], block[3], shared_bytes;
} tvmconv_kernel;

typedef struct tvmconv_gpu_code {
    int32_t architecture; /* the minimum compute capability, 90 for 9.0 */
    int32_t module_count, kernel_count;
    int32_t replay; /* 1: states replay their launches as a graph by default */
    const char *const *modules; /* fatbins */
    const tvmconv_kernel *kernels;
} tvmconv_gpu_code;

struct tvmconv_frame;

/* Defined by model.c. */
extern const tvmconv_gpu_code tvmconv_this_gpu;

/* Defined by cuda.c. They return 0, or CUDA's number of an error. */
int32_t tvmconv_launch(const struct tvmconv_frame *frame, int32_t kernel, void **arguments);
int32_t tvmconv_copy(const struct tvmconv_frame *frame, void *target, const void *source,
                     uint64_t bytes);

#endif
