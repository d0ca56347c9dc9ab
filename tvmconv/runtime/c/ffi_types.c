/* ffi_types.c: types and functions of TVM's calling convention. Part of ffi.c and of vm_calls.c.
 *
 * TVM is not linked: the types are copied from tvm/ffi/c_api.h and dlpack.h, and its functions are
 * looked up. */

typedef struct {
    int32_t type_index;
    uint32_t padding;
    union {
        int64_t integer;
        void *pointer;
    } value;
} ffi_any;

enum { FFI_NONE = 0, FFI_INTEGER = 1, FFI_DLTENSOR = 7, FFI_TENSOR = 70 };

/* Every object starts with reference counts, type index, padding and deleter. */
enum { FFI_OBJECT_HEADER = 24 };

typedef struct {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t rank;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    const int64_t *shape;
    const int64_t *strides; /* in elements; NULL: dense */
    uint64_t byte_offset;
} dl_tensor;

enum { DL_CPU = 1, DL_CUDA = 2 };

typedef void (*ffi_set_error)(const char *kind, const char *text);
typedef void *(*ffi_get_stream)(int32_t device_type, int32_t device_id);

/* A function of TVM's; NULL where there is none. */
static void *ffi_function(const char *name) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (symbol == NULL) { /* loaded, but not for all to see */
        void *library = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
            symbol = dlsym(library, name);
            dlclose(library); /* the caller holds it */
        }
    }
    return symbol;
}

static int ffi_raise(const char *kind, const char *text) {
    void *symbol = ffi_function("TVMFFIErrorSetRaisedFromCStr");
    if (symbol) {
        ffi_set_error set_error;
        memcpy(&set_error, &symbol, sizeof set_error);
        set_error(kind, text);
    }
    return -1;
}

/* The stream that calls on a GPU go to; NULL, the default one, where none was set. */
static void *ffi_stream(int32_t gpu) {
    void *symbol = ffi_function("TVMFFIEnvGetStream");
    ffi_get_stream get_stream;
    if (symbol == NULL) return NULL;
    memcpy(&get_stream, &symbol, sizeof get_stream);
    return get_stream(DL_CUDA, gpu);
}

static const dl_tensor *ffi_tensor(const ffi_any *argument) {
    if (argument->type_index == FFI_DLTENSOR) return argument->value.pointer;
    if (argument->type_index == FFI_TENSOR)
        return (const dl_tensor *)(const void *)((const char *)argument->value.pointer +
                                                 FFI_OBJECT_HEADER);
    return NULL;
}

static int is_dense(const dl_tensor *given) {
    int64_t stride = 1;
    if (given->strides == NULL) return 1;
    for (int32_t i = given->rank - 1; i >= 0; --i) {
        if (given->shape[i] != 1 && given->strides[i] != stride) return 0;
        stride *= given->shape[i];
    }
    return 1;
}
