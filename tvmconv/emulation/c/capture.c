/* capture.c: what streams of the emulated driver do: at once, or later as a graph. Part of driver.c.
 *
 * Graphs are straight lines. The values of a launch's arguments are kept when it is captured: all
 * that tvmconv launches takes pointers alone. */

enum { COPY, FILL, LAUNCH, MOST_ARGUMENTS = 32 };

typedef struct {
    int kind;
    uintptr_t target, source;
    size_t bytes; /* of a launch: of shared memory */
    unsigned char value;
    const emulated_kernel *kernel;
    unsigned grid[3], block[3];
    void **arguments, *values[MOST_ARGUMENTS];
} operation;

typedef struct {
    operation *operations;
    int count;
} graph;

static graph *capturing;
static void *captured_stream;

static int execute(operation *what) {
    void *arguments[MOST_ARGUMENTS];
    if (what->kind == COPY) memmove((void *)what->target, (const void *)what->source, what->bytes);
    if (what->kind == FILL) memset((void *)what->target, what->value, what->bytes);
    if (what->kind != LAUNCH) return 0;
    const kernel_library *library = what->kernel->library;
    for (int i = 0; i < MOST_ARGUMENTS; ++i) arguments[i] = &what->values[i];
    pthread_mutex_lock(&mutex);
    int failed = library->launch(what->kernel->name, what->grid, what->block, what->bytes,
                                 what->arguments ? what->arguments : arguments);
    if (failed) snprintf(failure, sizeof failure, "%s", library->message());
    pthread_mutex_unlock(&mutex);
    return failed ? FAILED : 0;
}

/* The number of arguments of a kernel is not told: those of its library are found by its name. */
static int argument_count(const operation *launch) {
    char name[300];
    snprintf(name, sizeof name, "%s_parameters", launch->kernel->name);
    const int *count = dlsym(launch->kernel->library->library, name);
    return count ? *count : -1;
}

static int perform(operation *what, void *stream) {
    if (!capturing || stream != captured_stream) return execute(what);
    int count = what->kind == LAUNCH ? argument_count(what) : 0;
    if (count < 0 || count > MOST_ARGUMENTS) return INVALID;
    for (int i = 0; i < count; ++i) memcpy(&what->values[i], what->arguments[i], sizeof(void *));
    what->arguments = NULL;
    size_t size = (size_t)(capturing->count + 1) * sizeof *what;
    operation *grown = realloc(capturing->operations, size);
    if (!grown) return NO_MEMORY;
    capturing->operations = grown;
    grown[capturing->count++] = *what;
    return 0;
}

EXPORTED int cuStreamBeginCapture_v2(void *stream, int mode) {
    (void)mode;
    if (capturing || !pushed) return INVALID;
    captured_stream = stream;
    return (capturing = calloc(1, sizeof *capturing)) ? 0 : NO_MEMORY;
}

EXPORTED int cuStreamEndCapture(void *stream, void **result) {
    if (!capturing || stream != captured_stream) return INVALID;
    *result = capturing;
    capturing = NULL;
    return 0;
}

EXPORTED int cuGraphInstantiateWithFlags(void **executable, void *source, unsigned long long flags) {
    (void)flags;
    graph *from = source, *copy = calloc(1, sizeof *copy);
    size_t size = (size_t)from->count * sizeof *from->operations;
    if (!copy || !(copy->operations = malloc(size ? size : 1))) return NO_MEMORY;
    memcpy(copy->operations, from->operations, size);
    copy->count = from->count;
    *executable = copy;
    return 0;
}

EXPORTED int cuGraphLaunch(void *executable, void *stream) {
    graph *all = executable;
    int status = pushed && !(capturing && stream == captured_stream) ? 0 : INVALID;
    for (int i = 0; i < all->count && !status; ++i) status = execute(&all->operations[i]);
    return status;
}

EXPORTED int cuGraphDestroy(void *source) {
    free(((graph *)source)->operations);
    free(source);
    return 0;
}

EXPORTED int cuGraphExecDestroy(void *executable) { return cuGraphDestroy(executable); }
