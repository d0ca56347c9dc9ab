/* weights.c: the constants of a model whose weights are not part of it. Part of runtime.c. */

static int is_hash(const uint8_t *bytes, const char *hex) {
    for (int i = 0; i < 32; ++i) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", bytes[i]);
        if (strncmp(digits, hex + 2 * i, 2)) return 0;
    }
    return 1;
}

/* The fault of a file of weights, or NULL. Does not read its constants, which would take long. */
static const char *weights_fault(const tvmconv_program *program, const void *content,
                                 uint64_t bytes) {
    tvmconv_weights_header header;
    uint64_t expected = tvmconv_this_description.weight_bytes;
    if (bytes < sizeof header) return "is too short to be one of weights";
    memcpy(&header, content, sizeof header);
    if (memcmp(header.magic, TVMCONV_WEIGHTS_MAGIC, sizeof header.magic))
        return "is not a file of weights";
    if (header.bytes != expected || !is_hash(header.sha256, program->weights_sha256))
        return "belongs to another model, or to another build of this one";
    if (bytes != sizeof header + expected) return "is incomplete";
    return NULL;
}

/* The path of model.weights in the folder of model.so. */
static int weights_path(char *path, size_t size) {
    Dl_info here;
    if (!dladdr((const void *)&tvmconv_this_program, &here) || here.dli_fname == NULL) return 0;
    const char *name = here.dli_fname;
    static const char by_descriptor[] = "/proc/self/fd/";
    char file[4096];
    /* tvmconv's Python package opens the file by its descriptor, and another loader finds it open */
    if (!strncmp(name, by_descriptor, sizeof by_descriptor - 1)) {
        ssize_t count = readlink(name, file, sizeof file - 1);
        if (count > 0) file[count] = '\0', name = file;
    }
    size_t length = strlen(name);
    if (length > 3 && !strcmp(name + length - 3, ".so")) length -= 3;
    return snprintf(path, size, "%.*s.weights", (int)length, name) < (int)size;
}

static int32_t map_weights(const tvmconv_program *program, const char *path, void **mapping,
                           uint64_t *bytes, char *message, size_t size) {
    struct stat status;
    const char *fault;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status)) {
        snprintf(message, size, "cannot open the weights of this model, %s: %s", path,
                 strerror(errno));
        if (file >= 0) close(file);
        return TVMCONV_WEIGHTS;
    }
    if (!S_ISREG(status.st_mode) || status.st_size == 0) {
        snprintf(message, size, "%s is too short to be one of weights", path);
        close(file);
        return TVMCONV_WEIGHTS;
    }
    *bytes = (uint64_t)status.st_size;
    *mapping = mmap(NULL, (size_t)*bytes, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (*mapping == MAP_FAILED) {
        *mapping = NULL;
        snprintf(message, size, "cannot map %s: %s", path, strerror(errno));
        return TVMCONV_MEMORY;
    }
    if ((fault = weights_fault(program, *mapping, *bytes)) != NULL) {
        snprintf(message, size, "%s %s", path, fault);
        munmap(*mapping, (size_t)*bytes);
        *mapping = NULL;
        return TVMCONV_WEIGHTS;
    }
    return TVMCONV_OK;
}

/* Finds the constants. `*mapping`, if it is not NULL afterwards, is to be unmapped. */
static int32_t find_constants(const tvmconv_program *program, const tvmconv_options *options,
                              const char **constants, void **mapping, uint64_t *mapped,
                              char *message, size_t size) {
    char found[4096];
    const char *path = options->weights_path, *fault;
    *mapping = NULL;
    *constants = program->constants;
    if (!tvmconv_this_description.separate_weights) return TVMCONV_OK;
    if (options->weights != NULL) {
        if ((uintptr_t)options->weights % 64) {
            snprintf(message, size, "options.weights is not aligned to 64 bytes");
            return TVMCONV_INVALID;
        }
        if ((fault = weights_fault(program, options->weights, options->weight_bytes)) != NULL) {
            snprintf(message, size, "the content of options.weights %s", fault);
            return TVMCONV_WEIGHTS;
        }
        *constants = (const char *)options->weights + sizeof(tvmconv_weights_header);
        return TVMCONV_OK;
    }
    if (path == NULL) {
        if (!weights_path(found, sizeof found)) {
            snprintf(message, size,
                     "the weights of this model are a separate file: name it in "
                     "options.weights_path");
            return TVMCONV_WEIGHTS;
        }
        path = found;
    }
    int32_t status = map_weights(program, path, mapping, mapped, message, size);
    if (status == TVMCONV_OK) *constants = (char *)*mapping + sizeof(tvmconv_weights_header);
    return status;
}
