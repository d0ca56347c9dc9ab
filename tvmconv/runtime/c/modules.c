/* modules.c: kernels, from a fatbin to the GPU. Part of cuda.c.
 *
 * A fatbin is a head (magic, version, bytes of the head, bytes of the rest) and parts. Each part has
 * a head with its kind, bytes of the head and bytes of the rest. A driver that is older than the
 * compiler may not know the form of its machine code, but translates PTX. */

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

static cu_result load_kernels(struct gpu_part *part) {
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
