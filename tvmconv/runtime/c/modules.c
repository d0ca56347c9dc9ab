/* modules.c: kernels, from a fatbin to the GPU. Part of cuda.c and of vm_calls.c.
 *
 * A fatbin is a head (magic, version, bytes of the head, bytes of the rest) and parts. Each part has
 * a head with its kind, bytes of the head and bytes of the rest. A driver that is older than the
 * compiler may not know the form of its machine code, but translates PTX. */

/* The states of this model on one GPU share it; the last state frees it. */
struct gpu_part {
    struct gpu_part *next;
    int index, device; /* the driver's number of it, and its handle */
    int32_t states, has_run; /* a call was made, for which the driver loaded kernels */
    cu_handle context, *modules, *functions;
    cu_pointer constants;
};

/* The GPU of a part, if there is one of that number, and the kernels are for it. */
static int32_t find_gpu(struct gpu_part *part, char *message, size_t size) {
    int count = 0, major = 0, minor = 0;
    char name[128] = "";
    cu_result status = driver.device_count(&count);
    if (!status && count < 1) status = CU_NO_DEVICE;
    if (!status && part->index >= count) {
        snprintf(message, size,
                 "GPU %d does not exist: the driver shows %d, numbered from 0; CUDA_VISIBLE_DEVICES "
                 "may hide some",
                 part->index, count);
        return TVMCONV_UNSUPPORTED;
    }
    if (!status) status = driver.device_get(&part->device, part->index);
    if (!status) status = driver.device_attribute(&major, CU_MAJOR, part->device);
    if (!status) status = driver.device_attribute(&minor, CU_MINOR, part->device);
    if (!status) status = driver.device_name(name, sizeof name, part->device);
    if (status) {
        snprintf(message, size, "cannot open a GPU: %s", driver_text(status));
        return TVMCONV_UNSUPPORTED;
    }
    /* a later one takes the machine code of the same generation, or translates the PTX */
    if (10 * major + minor >= tvmconv_this_gpu.architecture) return TVMCONV_OK;
    snprintf(message, size,
             "this model was built for %s, and the GPU here (%s) has sm_%d%d. Build it for this GPU.",
             tvmconv_this_description.target, name, major, minor);
    return TVMCONV_UNSUPPORTED;
}

enum { CODE_PTX = 1, CODE_MACHINE = 2 };

/* A copy without machine code; NULL where nothing would be left to translate. */
static char *without_machine_code(const char *fatbin) {
    uint16_t head;
    uint64_t rest, kept = 0;
    int32_t translatable = 0;
    memcpy(&head, fatbin + 6, sizeof head);
    memcpy(&rest, fatbin + 8, sizeof rest);
    char *copy = malloc(head + rest);
    if (copy == NULL) return NULL;
    for (const char *part = fatbin + head, *end = part + rest; part < end;) {
        uint16_t kind;
        uint32_t part_head;
        uint64_t part_rest;
        memcpy(&kind, part, sizeof kind);
        memcpy(&part_head, part + 4, sizeof part_head);
        memcpy(&part_rest, part + 8, sizeof part_rest);
        if (kind != CODE_MACHINE) {
            memcpy(copy + head + kept, part, part_head + part_rest);
            kept += part_head + part_rest;
        }
        translatable |= kind == CODE_PTX;
        part += part_head + part_rest;
    }
    memcpy(copy, fatbin, head);
    memcpy(copy + 8, &kept, sizeof kept);
    if (translatable) return copy;
    free(copy);
    return NULL;
}

static cu_result load_module(cu_handle *module, const char *fatbin) {
    cu_result status = driver.module_load(module, fatbin);
    if (status != CU_BAD_IMAGE && status != CU_NO_BINARY && status != CU_LATER_PTX) return status;
    char *ptx = without_machine_code(fatbin);
    if (ptx && !driver.module_load(module, ptx)) status = 0;
    free(ptx);
    return status;
}

static cu_result load_functions(struct gpu_part *part) {
    const tvmconv_gpu_code *code = &tvmconv_this_gpu;
    cu_result status = 0;
    for (int32_t i = 0; i < code->module_count && !status; ++i)
        status = load_module(&part->modules[i], code->modules[i]);
    for (int32_t i = 0; i < code->kernel_count && !status; ++i) {
        const tvmconv_kernel *kernel = &code->kernels[i];
        status = driver.module_function(&part->functions[i], part->modules[kernel->module],
                                        kernel->name);
        if (!status && kernel->shared_bytes)
            status = driver.function_set(part->functions[i], CU_MOST_DYNAMIC_SHARED,
                                         (int)kernel->shared_bytes);
    }
    return status;
}

/* Loads the kernels to a GPU; in its context. */
static int32_t load_kernels(struct gpu_part *part, char *message, size_t size) {
    part->modules = calloc((size_t)tvmconv_this_gpu.module_count + 1, sizeof *part->modules);
    part->functions = calloc((size_t)tvmconv_this_gpu.kernel_count + 1, sizeof *part->functions);
    if (!part->modules || !part->functions)
        return refuse(message, size, TVMCONV_MEMORY, "the system gave no memory");
    cu_result status = load_functions(part);
    if (status) {
        char advice[160] = "";
        int version = 0;
        if (status == CU_NO_BINARY)
            snprintf(advice, sizeof advice, "; build the model for this GPU");
        else if ((status == CU_BAD_IMAGE || status == CU_LATER_PTX) && !driver.version(&version))
            snprintf(advice, sizeof advice,
                     "; it supports CUDA up to %d.%d. Update the driver, or build the model with an "
                     "older nvcc or NVRTC",
                     version / 1000, version % 1000 / 10);
        snprintf(message, size, "the GPU's driver rejects kernels for %s: %s%s",
                 tvmconv_this_description.target, driver_text(status), advice);
        return TVMCONV_UNSUPPORTED;
    }
    return TVMCONV_OK;
}

/* Takes the kernels from a GPU; in its context. */
static void unload_kernels(struct gpu_part *part) {
    for (int32_t i = 0; part->modules && i < tvmconv_this_gpu.module_count; ++i)
        if (part->modules[i]) driver.module_unload(part->modules[i]);
}

/* Frees a part whose kernels the GPU has no more. */
static void free_part(struct gpu_part *part) {
    free(part->modules);
    free(part->functions);
    free(part);
}

/* Makes a context current, or reports why it cannot. */
static int32_t enter(cu_handle context, char *message, size_t size) {
    cu_result status = driver.context_push(context);
    if (!status) return TVMCONV_OK;
    snprintf(message, size, "the GPU cannot be used: %s", driver_text(status));
    return TVMCONV_UNSUPPORTED;
}
