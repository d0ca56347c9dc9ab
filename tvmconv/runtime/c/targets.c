/* targets.c: the code for each target of a model, of which a state has one. Part of runtime.c. */

/* Appends to a text of a fixed size, which ends in "..." if something is cut off. */
typedef struct {
    char *text;
    size_t size, used;
} message_text;

static void append(message_text *to, const char *format, ...) {
    va_list arguments;
    if (to->used + 1 >= to->size) return;
    va_start(arguments, format);
    int length = vsnprintf(to->text + to->used, to->size - to->used, format, arguments);
    va_end(arguments);
    to->used += length < 0 ? 0 : (size_t)length;
    if (to->used < to->size) return;
    if (to->size > 4) memcpy(to->text + to->size - 4, "...", 4);
    to->used = to->size - 1;
}

/* Whether the variable TVMCONV_HIDE_FEATURES hides a feature: names separated by commas, with
 * "avx512" for all that begin with it. */
static int is_hidden(const char *feature) {
    static const char all[] = "avx512";
    const char *list = getenv("TVMCONV_HIDE_FEATURES");
    while (list && *list) {
        list += strspn(list, ", ");
        size_t length = strcspn(list, ", ");
        int is_all = length == sizeof all - 1 && !strncmp(list, all, length);
        if (length && !strncmp(list, feature, length) && (is_all || !feature[length])) return 1;
        list += length;
    }
    return 0;
}

/* Appends what this processor lacks for the code of a target. Returns how much that is. With NULL the
 * first lack ends the search. */
static int find_missing(const tvmconv_target *target, message_text *to) {
    int count = 0;
    for (const char *const *name = target->features; name && *name; ++name) {
        if (has_feature(*name) && !is_hidden(*name)) continue;
        if (to == NULL) return 1;
        append(to, "%s%s", count++ ? ", " : "", *name);
    }
    /* vectors of another length are not reported where there are none */
    if (count || !target->vector_bits || target->vector_bits == vector_bits()) return count;
    if (to)
        append(to, "scalable vectors of %d bits (it has %d)", (int)target->vector_bits,
               vector_bits());
    return 1;
}

static const char build_again[] = "build it again for this machine (tvmconv compile --target native)";

/* Why this processor runs no target of the model. */
static int32_t report_missing(message_text *to) {
    const tvmconv_program *model = &tvmconv_this_program;
    if (model->target_count == 1) {
        append(to, "this processor lacks ");
        find_missing(model->targets, to);
        append(to, ", and the model was built for %s: %s", model->targets->description->target,
               build_again);
        return TVMCONV_UNSUPPORTED;
    }
    append(to, "this processor runs none of the model's targets: ");
    for (int32_t i = 0; i < model->target_count; ++i) {
        append(to, "%s%s lacks ", i ? "; " : "", model->targets[i].description->target);
        find_missing(&model->targets[i], to);
    }
    append(to, ": %s", build_again);
    return TVMCONV_UNSUPPORTED;
}

/* The target of a new state: the one with a name, or else the first that this processor runs. Without
 * a name, the variable TVMCONV_TARGET names one of several. */
static int32_t select_target(const char *name, const tvmconv_target **result, message_text *to) {
    const tvmconv_program *model = &tvmconv_this_program;
    const char *origin = "options.target";
    if ((name == NULL || !*name) && model->target_count > 1) {
        name = getenv("TVMCONV_TARGET");
        origin = "the environment variable TVMCONV_TARGET";
    }
    int is_named = name && *name;
    for (int32_t i = 0; i < model->target_count; ++i) {
        const tvmconv_target *target = &model->targets[i];
        if (is_named && strcmp(name, target->description->target)) continue;
        *result = target;
        if (!find_missing(target, NULL)) return TVMCONV_OK;
        if (!is_named) continue;
        append(to, "%s is %s, and this processor lacks ", origin, name);
        find_missing(target, to);
        append(to, ". Expected a target that runs here. Name another one, or none");
        return TVMCONV_UNSUPPORTED;
    }
    if (!is_named) return report_missing(to);
    append(to, "%s is %s. Expected a target of the model: ", origin, name);
    for (int32_t i = 0; i < model->target_count; ++i)
        append(to, "%s%s", i ? ", " : "", model->targets[i].description->target);
    append(to, ". Name one of these, or none");
    return TVMCONV_INVALID;
}
