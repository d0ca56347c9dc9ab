/* batch.c: calls with any number of images. Part of runtime.c.
 *
 * The kernels compute one image, and give the same bits for it in any batch. Each thread computes a
 * step for images of its own, so that the threads read the weights of one step at a time. A step that
 * reads more weights than activations runs for a whole group of images. Other steps run for one image
 * of each thread, so that its activations stay in the thread's cache. */

typedef struct {
    tvmconv_state *state;
    const tvmconv_steps *steps;
    int32_t step;
    int32_t first, end; /* images */
    tvmconv_frame *failed;
} batch_job;

/* Computes a step for every image of one thread. */
static int32_t run_lane(void *argument, int32_t lane) {
    batch_job *job = argument;
    tvmconv_state *state = job->state;
    int32_t status = 0;
    if (lane < 0 || lane >= state->threads) return -1;
    __typeof__(current) before = current;
    current.state = state;
    current.inside = 1;
    current.workspace = state->workspace + (uint64_t)lane * state->workspace_bytes;
    current.workspace_end = current.workspace + state->workspace_bytes;
    for (int32_t i = job->first + lane; i < job->end && !status; i += state->threads) {
        status = job->steps->run(&state->frames[i], job->step);
        if (status) __atomic_store_n(&job->failed, &state->frames[i], __ATOMIC_RELAXED);
    }
    current = before;
    return status;
}

static int32_t run_lanes(batch_job *job, int32_t step, int32_t first, int32_t end) {
    tvmconv_state *state = job->state;
    job->step = step, job->first = first, job->end = end;
    if (state->threads == 1) return run_lane(job, 0);
    return state->parallel_for(state->parallel_context, state->threads, run_lane, job);
}

/* Computes the images in the first frames of the state. */
static int32_t run_group(batch_job *job, int32_t images) {
    const tvmconv_steps *steps = job->steps;
    const int32_t threads = job->state->threads;
    int32_t status = 0, to;
    for (int32_t from = 0; from < steps->count && !status; from = to) {
        for (to = from + 1; to < steps->count && steps->heavy[to] == steps->heavy[from];) ++to;
        int32_t width = steps->heavy[from] ? images : threads;
        for (int32_t first = 0; first < images && !status; first += width) {
            int32_t end = first + width < images ? first + width : images;
            for (int32_t step = from; step < to && !status; ++step)
                status = run_lanes(job, step, first, end);
        }
    }
    return status;
}

/* The operands of one image. */
static void place_image(tvmconv_state *state, int32_t index, int64_t image,
                        const void *const *inputs, void *const *outputs) {
    const tvmconv_description *program = program_of(state);
    tvmconv_frame *frame = &state->frames[index];
    const void **in = state->image_inputs + (size_t)index * (size_t)program->input_count;
    void **out = state->outputs + (size_t)index * (size_t)program->output_count;
    for (int32_t i = 0; i < program->input_count; ++i)
        in[i] = (const char *)inputs[i] +
                (program->batched[i] ? (uint64_t)image * program->inputs[i].bytes : 0);
    for (int32_t i = 0; i < program->output_count; ++i)
        out[i] = (char *)outputs[i] + (uint64_t)image * program->outputs[i].bytes;
    memset(frame, 0, sizeof *frame);
    frame->inputs = in;
    frame->outputs = out;
    frame->arena = state->arena + (uint64_t)index * state->arena_bytes;
    frame->constants = (char *)state->constants;
}

/* The number of images that are computed next. A few that are left run one after another, each on all
 * threads. */
static int32_t next_images(int64_t left, int32_t most, int32_t threads) {
    if (left >= most) return most;
    int32_t few = (int32_t)left;
    if (few < threads) return 4 * few < 3 * threads ? 1 : few;
    return few / threads * threads;
}

static int32_t run_images(tvmconv_state *state, int64_t images, const void *const *inputs,
                          void *const *outputs) {
    const int32_t most = group_size(state->target->description, state->threads);
    batch_job job = {.state = state, .steps = &state->target->steps[state->program]};
    int32_t status = 0, count;
    for (int64_t image = 0; image < images && !status; image += count) {
        count = next_images(images - image, most, state->threads);
        for (int32_t i = 0; i < count; ++i) place_image(state, i, image + i, inputs, outputs);
        job.failed = state->frames;
        status = count > 1 ? run_group(&job, count) : run_frame(state, state->frames);
    }
    return status ? report_failure(state, job.failed, status) : TVMCONV_OK;
}

int32_t tvmconv_run_batch(tvmconv_state *state, int64_t images, const void *const *inputs,
                          void *const *outputs) {
    if (state == NULL) return TVMCONV_INVALID;
    if (!take(&state->busy)) return TVMCONV_BUSY;
    const char *fault = tvmconv_this_description.batched == NULL
                            ? "the model was not built for any batch size. Build it with --batch any."
                        : images < 1 ? "the number of images is less than 1. Expected 1 or more."
                                     : NULL;
    if (fault) snprintf(state->message, sizeof state->message, "%s", fault);
    int32_t status = fault ? TVMCONV_INVALID : check_operands(state, inputs, outputs);
    if (!status) {
        if (!state->has_run) map_constants(state);
        status = run_images(state, images, inputs, outputs);
    }
    give_back(&state->busy);
    return status;
}
