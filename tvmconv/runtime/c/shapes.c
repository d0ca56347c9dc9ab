/* shapes.c: the programs of a model, one for each shape of its inputs. Part of runtime.c. */

/* The description of the program that a state runs. */
static const tvmconv_description *program_of(const tvmconv_state *state) {
    return state->target->description->programs[state->program];
}

/* With N as the first extent for any number of images. */
static size_t print_shape(char *text, size_t size, const int64_t *shape, int32_t rank, int batched) {
    size_t used = (size_t)snprintf(text, size, batched ? "(N" : "(");
    for (int32_t i = batched; i < rank && used < size; ++i)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "",
                                 (long long)shape[i]);
    if (used < size) used += (size_t)snprintf(text + used, size - used, ")");
    return used < size ? used : size - 1;
}

/* The shapes of a program's inputs, or other shapes of these. */
static size_t print_shapes(char *text, size_t size, const tvmconv_description *program,
                           const int64_t *const *shapes) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < program->input_count && used + 1 < size; ++i) {
        const tvmconv_tensor *input = &program->inputs[i];
        int length = snprintf(text + used, size - used, "%s%s ", i ? ", " : "", input->name);
        used = used + (size_t)length < size ? used + (size_t)length : size - 1;
        used += print_shape(text + used, size - used, shapes ? shapes[i] : input->shape, input->rank,
                            !shapes && program->batched && program->batched[i]);
    }
    return used;
}

/* Why no program has these shapes. */
static void report_shapes(char *text, size_t size, const int64_t *const *shapes) {
    const tvmconv_description *model = &tvmconv_this_description;
    static const char start[] = "the model was not built for the input ", middle[] = ". Expected ";
    char given[192], wanted[192];
    print_shapes(given, sizeof given, model, shapes);
    size_t used = (size_t)snprintf(text, size, "%s%s%s", start, given, middle);
    for (int32_t i = 0; i < model->program_count && used < size; ++i) {
        print_shapes(wanted, sizeof wanted, model->programs[i], NULL);
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "; or " : "", wanted);
    }
    if (used < size) used += (size_t)snprintf(text + used, size - used, ".");
    if (used >= size && size > 4) memcpy(text + size - 4, "...", 4);
}

/* The number of images in inputs of these shapes; 1 if the model does not serve any batch. */
static int64_t count_images(const int64_t *const *shapes) {
    const tvmconv_description *model = &tvmconv_this_description;
    for (int32_t i = 0; model->batched && i < model->input_count; ++i)
        if (model->batched[i] && shapes[i]) return shapes[i][0];
    return 1;
}

/* The number of the program with these shapes, of any number of images in batched inputs, or -1. */
static int32_t find_program(const int64_t *const *shapes) {
    const tvmconv_description *model = &tvmconv_this_description;
    const int64_t images = count_images(shapes);
    for (int32_t p = 0; p < model->program_count; ++p) {
        const tvmconv_tensor *inputs = model->programs[p]->inputs;
        int same = 1;
        for (int32_t i = 0; i < model->input_count && same; ++i) {
            int batched = model->batched && model->batched[i];
            if (batched) same = shapes[i][0] == images;
            for (int32_t j = batched; j < inputs[i].rank && same; ++j)
                same = shapes[i][j] == inputs[i].shape[j];
        }
        if (same) return p;
    }
    return -1;
}

int32_t tvmconv_set_shapes(tvmconv_state *state, const int64_t *const *shapes) {
    const tvmconv_description *model = &tvmconv_this_description;
    if (state == NULL || (shapes == NULL && model->input_count > 0)) return TVMCONV_INVALID;
    for (int32_t i = 0; i < model->input_count; ++i)
        if (shapes[i] == NULL && model->inputs[i].rank > 0) return TVMCONV_INVALID;
    if (!take(&state->busy)) return TVMCONV_BUSY;
    int32_t found = find_program(shapes);
    if (found < 0) report_shapes(state->message, sizeof state->message, shapes);
    else state->program = found;
    give_back(&state->busy);
    return found < 0 ? TVMCONV_INVALID : TVMCONV_OK;
}

const tvmconv_description *tvmconv_describe(const tvmconv_state *state) {
    const tvmconv_target *target;
    char unread[8];
    message_text message = {unread, sizeof unread, 0};
    if (state) return program_of(state);
    return select_target(NULL, &target, &message) ? NULL : target->description;
}

int32_t tvmconv_shape(const tvmconv_state *state, int32_t output, int64_t *shape) {
    if (state == NULL || shape == NULL) return TVMCONV_INVALID;
    const tvmconv_description *program = program_of(state);
    if (output < 0 || output >= program->output_count) return TVMCONV_INVALID;
    const tvmconv_tensor *tensor = &program->outputs[output];
    for (int32_t i = 0; i < tensor->rank; ++i) shape[i] = tensor->shape[i];
    if (program->varying_axes && program->varying_axes[output] >= 0)
        shape[program->varying_axes[output]] = state->extents[output];
    return TVMCONV_OK;
}
