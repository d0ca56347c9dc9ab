/* cpu.c: kernels that run on the CPU, in the caller's memory. Part of runtime.c. */

/* Activation memory of a state in the CPU's memory. */
static uint64_t host_arena_bytes(const tvmconv_description *model) { return model->arena_bytes; }

static int32_t open_device(tvmconv_state *state, const tvmconv_options *options, char *message,
                           size_t size) {
    (void)state, (void)options, (void)message, (void)size;
    return TVMCONV_OK;
}

static void close_device(tvmconv_state *state) { (void)state; }

/* Whether a call may be queued to a stream; the reason is left in the state's message. */
static int32_t check_queued(tvmconv_state *state, const tvmconv_frame *frame) {
    (void)frame;
    snprintf(state->message, sizeof state->message,
             "this model runs on the CPU, which has no streams. Call run.");
    return TVMCONV_UNSUPPORTED;
}

void tvmconv_stamp(tvmconv_frame *frame, int32_t index) {
    int64_t now = tvmconv_now();
    frame->times[index] += now - frame->last;
    frame->last = now;
}

static int32_t run_program(tvmconv_state *state, tvmconv_frame *frame) {
    return state->target->runs[state->program](frame);
}

/* The meaning of a status of run_program, if the device knows more than its number. */
static const char *device_fault(int32_t status) {
    (void)status;
    return NULL;
}
