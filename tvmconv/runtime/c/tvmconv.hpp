// tvmconv.hpp: C++11 on top of tvmconv.h. Objects free what they hold; failures are exceptions.
//
//     tvmconv::Model model("resnet18.so");
//     tvmconv::State state(model);
//     state.run({tvmconv::input(image)}, {tvmconv::output(scores)});
//
// where `image` and `scores` are std::vector, std::array, std::span or anything else with data()
// and size(). Element types and sizes are checked against the model's.
#ifndef TVMCONV_HPP
#define TVMCONV_HPP

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tvmconv.h"

namespace tvmconv {

class Error : public std::runtime_error {
public:
    Error(int32_t status, const std::string &message)
        : std::runtime_error(message), status_(status) {}
    // tvmconv_status
    int32_t status() const { return status_; }

private:
    int32_t status_;
};

// A model, opened from its file or linked. Copies share the open file.
class Model {
public:
    explicit Model(const std::string &path) {
        library_ = std::shared_ptr<void>(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), close);
        if (!library_) {
            const char *reason = dlerror();
            throw Error(TVMCONV_INVALID, reason ? reason : "cannot open " + path);
        }
        model_ = static_cast<const tvmconv_model *>(dlsym(library_.get(), "tvmconv_model"));
        if (!model_) throw Error(TVMCONV_INVALID, path + " is not a model that tvmconv compiled");
        check(path);
    }
    // For a linked model: tvmconv::Model model(tvmconv_model_resnet18);
    explicit Model(const tvmconv_model &linked) : model_(&linked) { check("this model"); }

    const tvmconv_description &description() const { return *model_->description; }
    const tvmconv_model *operator->() const { return model_; }

private:
    static void close(void *library) {
        if (library) dlclose(library);
    }
    void check(const std::string &name) const {
        if (model_->abi != TVMCONV_ABI)
            throw Error(TVMCONV_INVALID,
                        name + " has version " + std::to_string(model_->abi) +
                            " of the C interface, and this program has version " +
                            std::to_string(TVMCONV_ABI) + ". Build the older one again.");
    }

    std::shared_ptr<void> library_;
    const tvmconv_model *model_ = nullptr;
};

// The tvmconv_dtype of a C++ type; float16 and bfloat16 are passed as void * with bytes.
template <typename T> struct ElementType { static const int32_t value = -1; };
template <> struct ElementType<float> { static const int32_t value = TVMCONV_FLOAT32; };
template <> struct ElementType<double> { static const int32_t value = TVMCONV_FLOAT64; };
template <> struct ElementType<int8_t> { static const int32_t value = TVMCONV_INT8; };
template <> struct ElementType<int16_t> { static const int32_t value = TVMCONV_INT16; };
template <> struct ElementType<int32_t> { static const int32_t value = TVMCONV_INT32; };
template <> struct ElementType<int64_t> { static const int32_t value = TVMCONV_INT64; };
template <> struct ElementType<uint8_t> { static const int32_t value = TVMCONV_UINT8; };
template <> struct ElementType<uint16_t> { static const int32_t value = TVMCONV_UINT16; };
template <> struct ElementType<uint32_t> { static const int32_t value = TVMCONV_UINT32; };
template <> struct ElementType<uint64_t> { static const int32_t value = TVMCONV_UINT64; };
template <> struct ElementType<bool> { static const int32_t value = TVMCONV_BOOL; };

// Memory of an input (Pointer is const void *) or output (void *): where, how much, of what type.
template <typename Pointer> struct Memory {
    Pointer data;
    uint64_t bytes;
    int32_t dtype; // -1: not known, not checked
};
using Input = Memory<const void *>;
using Output = Memory<void *>;

template <typename T> Input input(const T *data, std::size_t count) {
    return {data, count * sizeof(T), ElementType<T>::value};
}
template <typename T> Output output(T *data, std::size_t count) {
    return {data, count * sizeof(T), ElementType<T>::value};
}
inline Input input(const void *data, std::size_t bytes) { return {data, bytes, -1}; }
inline Output output(void *data, std::size_t bytes) { return {data, bytes, -1}; }
template <typename Container> Input input(const Container &values) {
    return input(values.data(), values.size());
}
template <typename Container> Output output(Container &values) {
    return output(values.data(), values.size());
}

namespace detail {

// Whether the model serves any batch, and an input holds images.
inline bool serves_batches(const Model &model) {
    return TVMCONV_HAS(model.operator->(), run_batch) && model.description().batched;
}
inline bool has_images(const Model &model, std::size_t input) {
    return serves_batches(model) && model.description().batched[input];
}

// The program for shapes of the inputs, or NULL.
inline const tvmconv_description *program(const Model &model,
                                          const std::vector<std::vector<int64_t>> &shapes) {
    const tvmconv_description &first = model.description();
    for (int64_t i = 0; i < first.program_count; ++i) {
        bool same = true;
        for (std::size_t j = 0; same && j < shapes.size(); ++j) {
            const int64_t *own = first.programs[i]->inputs[j].shape;
            const bool batched = !shapes[j].empty() && has_images(model, j);
            same = std::equal(shapes[j].begin() + batched, shapes[j].end(), own + batched);
        }
        if (same) return first.programs[i];
    }
    return nullptr;
}

// Shapes as the C interface reads them.
inline std::vector<const int64_t *> extents(const Model &model,
                                            const std::vector<std::vector<int64_t>> &shapes) {
    const tvmconv_description &first = model.description();
    std::vector<const int64_t *> result;
    for (const std::vector<int64_t> &shape : shapes) result.push_back(shape.data());
    bool fits = shapes.size() == static_cast<std::size_t>(first.input_count);
    for (std::size_t i = 0; fits && i < shapes.size(); ++i)
        fits = shapes[i].size() == static_cast<std::size_t>(first.inputs[i].rank);
    if (!fits) throw Error(TVMCONV_INVALID, "give a shape of the model's rank for each input");
    return result;
}

template <typename Pointer, typename Images>
void check(const std::string &kind, const Memory<Pointer> *given, std::size_t count,
           const tvmconv_tensor *tensors, int32_t expected, std::vector<Pointer> &pointers,
           Images images) {
    if (count != static_cast<std::size_t>(expected))
        throw Error(TVMCONV_INVALID, std::to_string(count) + " " + kind + "s given, the model has " +
                                         std::to_string(expected));
    pointers.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (given[i].dtype >= 0 && given[i].dtype != tensors[i].dtype)
            throw Error(TVMCONV_INVALID,
                        kind + " " + tensors[i].name + " has elements of another type");
        uint64_t bytes = tensors[i].bytes * static_cast<uint64_t>(images(i));
        if (given[i].bytes != bytes)
            throw Error(TVMCONV_INVALID, kind + " " + tensors[i].name + " has " +
                                             std::to_string(given[i].bytes) +
                                             " bytes, the model's " + std::to_string(bytes));
        pointers[i] = given[i].data;
    }
}

// Checks memory, and lists where it is.
inline void place(const tvmconv_description &program, const Input *inputs, std::size_t input_count,
                  const Output *outputs, std::size_t output_count,
                  std::vector<const void *> &input_list, std::vector<void *> &output_list,
                  int64_t images = 1) {
    const int32_t *batched = images == 1 ? nullptr : program.batched;
    check("input", inputs, input_count, program.inputs, program.input_count, input_list,
          [=](std::size_t i) { return batched && batched[i] ? images : 1; });
    check("output", outputs, output_count, program.outputs, program.output_count, output_list,
          [=](std::size_t) { return images; });
}

} // namespace detail

// Threads that several states share.
class Pool {
public:
    explicit Pool(const Model &model, int32_t threads = 0) : model_(model) {
        int32_t status = model->pool_create(threads, &pool_);
        if (status) throw Error(status, "cannot start the threads of a pool");
    }
    ~Pool() { model_->pool_destroy(pool_); }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    // Options of a state that uses the pool, which has to outlive the state.
    tvmconv_options options(int32_t threads = 0) const {
        tvmconv_options result = {};
        result.size = sizeof result;
        result.threads = threads;
        result.parallel_for = model_->pool_parallel_for;
        result.parallel_context = pool_;
        return result;
    }

private:
    Model model_;
    tvmconv_pool *pool_ = nullptr;
};

// The resources of one call at a time. May be moved, not copied.
class State {
public:
    explicit State(const Model &model) : State(model, nullptr) {}
    State(const Model &model, const tvmconv_options &options) : State(model, &options) {}
    ~State() { model_->destroy(state_); }
    State(State &&other) noexcept
        : model_(other.model_), program_(other.program_), state_(other.state_) {
        other.state_ = nullptr;
    }
    State &operator=(State &&other) noexcept {
        std::swap(model_, other.model_);
        std::swap(program_, other.program_);
        std::swap(state_, other.state_);
        return *this;
    }

    void run(std::initializer_list<Input> inputs, std::initializer_list<Output> outputs) {
        place(inputs.begin(), inputs.size(), outputs.begin(), outputs.size());
        run(inputs_.data(), outputs_.data());
    }
    void run(const std::vector<Input> &inputs, const std::vector<Output> &outputs) {
        place(inputs.data(), inputs.size(), outputs.data(), outputs.size());
        run(inputs_.data(), outputs_.data());
    }
    // Any number of images in each batched input and in each output.
    void run_batch(int64_t images, const std::vector<Input> &inputs,
                   const std::vector<Output> &outputs) {
        require_batches();
        if (images < 1) throw Error(TVMCONV_INVALID, "give one image or more");
        place(inputs.data(), inputs.size(), outputs.data(), outputs.size(), images);
        run_batch(images, inputs_.data(), outputs_.data());
    }
    // GPU only: queued to a stream without waiting, with pointers to the GPU's memory.
    void enqueue(void *stream, const std::vector<Input> &inputs,
                 const std::vector<Output> &outputs) {
        place(inputs.data(), inputs.size(), outputs.data(), outputs.size());
        enqueue(stream, inputs_.data(), outputs_.data());
    }
    // The nanoseconds that each layer took.
    std::vector<int64_t> profile(const std::vector<Input> &inputs,
                                 const std::vector<Output> &outputs) {
        std::vector<int64_t> times(static_cast<std::size_t>(program_->layer_count));
        place(inputs.data(), inputs.size(), outputs.data(), outputs.size());
        raise(model_->profile(state_, inputs_.data(), outputs_.data(), times.data()));
        return times;
    }
    // Selects the program of later calls by the shapes of the inputs, in the model's order.
    void set_shapes(const std::vector<std::vector<int64_t>> &shapes) {
        if (!TVMCONV_HAS(model_.operator->(), set_shapes))
            throw Error(TVMCONV_UNSUPPORTED, "the model is older than set_shapes. Build it again.");
        raise(model_->set_shapes(state_, detail::extents(model_, shapes).data()));
        program_ = TVMCONV_HAS(model_.operator->(), describe) ? model_->describe(state_)
                                                              : detail::program(model_, shapes);
    }
    // The target, tensors and layers of the program that calls run.
    const tvmconv_description &program() const { return *program_; }
    // Without checks of sizes, for those who have pointers anyway.
    void run(const void *const *inputs, void *const *outputs) {
        raise(model_->run(state_, inputs, outputs));
    }
    void run_batch(int64_t images, const void *const *inputs, void *const *outputs) {
        require_batches();
        raise(model_->run_batch(state_, images, inputs, outputs));
    }
    void enqueue(void *stream, const void *const *inputs, void *const *outputs) {
        if (!TVMCONV_HAS(model_.operator->(), enqueue))
            throw Error(TVMCONV_UNSUPPORTED, "the model is older than enqueue. Build it again.");
        raise(model_->enqueue(state_, stream, inputs, outputs));
    }
    // The actual shape of an output after the last run; its size may depend on the data.
    std::vector<int64_t> shape(int32_t output) const {
        const tvmconv_description &model = *program_;
        if (output < 0 || output >= model.output_count)
            throw Error(TVMCONV_INVALID, "the model has no output " + std::to_string(output));
        const tvmconv_tensor &tensor = model.outputs[output];
        std::vector<int64_t> result(tensor.shape, tensor.shape + tensor.rank);
        if (TVMCONV_HAS(model_.operator->(), shape) && !result.empty())
            raise(model_->shape(state_, output, result.data()));
        return result;
    }
    int32_t threads() const { return model_->threads(state_); }

private:
    State(const Model &model, const tvmconv_options *options)
        : model_(model), program_(&model.description()) {
        char message[512];
        int32_t status = model->create(options, &state_, message, sizeof message);
        if (status) throw Error(status, message);
        if (TVMCONV_HAS(model_.operator->(), describe)) program_ = model_->describe(state_);
    }

    void require_batches() const {
        if (!detail::serves_batches(model_))
            throw Error(TVMCONV_UNSUPPORTED,
                        "the model was not built for any batch size. Build it with --batch any.");
    }

    // Checks memory, and lists where it is.
    void place(const Input *inputs, std::size_t input_count, const Output *outputs,
               std::size_t output_count, int64_t images = 1) {
        detail::place(*program_, inputs, input_count, outputs, output_count, inputs_, outputs_,
                      images);
    }

    void raise(int32_t status) const {
        if (status == TVMCONV_BUSY) throw Error(status, "another thread is using the state");
        if (status) throw Error(status, model_->message(state_));
    }

    Model model_;
    const tvmconv_description *program_;
    tvmconv_state *state_ = nullptr;
    std::vector<const void *> inputs_; // kept, so that only the first run allocates
    std::vector<void *> outputs_;
};

// Streams, which run calls from a queue; may be used by several threads.
class Queue {
public:
    // `streams` 0: as many as the CPUs suffice for. `cpus`: see tvmconv_queue_options.
    explicit Queue(const Model &model, int32_t streams = 0, const char *cpus = nullptr,
                   const tvmconv_options *each = nullptr)
        : model_(model) {
        if (!TVMCONV_HAS(model_.operator->(), queue_destroy))
            throw Error(TVMCONV_UNSUPPORTED, "the model is older than queues. Build it again.");
        tvmconv_queue_options options = {};
        options.size = sizeof options;
        options.streams = streams;
        options.cpus = cpus;
        options.options = each;
        char message[512];
        int32_t status = model_->queue_create(&options, &queue_, message, sizeof message);
        if (status) throw Error(status, message);
    }
    // Runs the calls that wait.
    ~Queue() { model_->queue_destroy(queue_); }
    Queue(const Queue &) = delete;
    Queue &operator=(const Queue &) = delete;

    // Queues a call. Keep the tensors until the future is ready; get() throws the call's error.
    // `shapes` of the inputs select another program than the first, and the number of images.
    std::future<void> submit(const std::vector<Input> &inputs, const std::vector<Output> &outputs,
                             const std::vector<std::vector<int64_t>> &shapes = {}) {
        std::vector<const int64_t *> extents;
        const tvmconv_description *program = &model_.description();
        if (!shapes.empty()) {
            extents = detail::extents(model_, shapes);
            program = detail::program(model_, shapes);
        }
        int64_t images = 1;
        for (std::size_t i = 0; i < shapes.size(); ++i)
            if (detail::has_images(model_, i)) images = shapes[i][0];
        std::vector<const void *> input_list;
        std::vector<void *> output_list;
        // for shapes that the model does not have, the call has the error
        if (program)
            detail::place(*program, inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                          input_list, output_list, images);
        input_list.resize(inputs.size());
        output_list.resize(outputs.size());
        std::unique_ptr<Call> call(new Call{model_, {}});
        std::future<void> result = call->promise.get_future();
        int32_t status = model_->queue_submit(queue_, extents.empty() ? nullptr : extents.data(),
                                              input_list.data(), output_list.data(), done, call.get());
        if (status) throw Error(status, "the queue did not accept the call");
        call.release();
        return result;
    }
    // Waits until at most so many calls are unfinished, and returns how many are.
    int64_t wait(int64_t most = 0) { return model_->queue_wait(queue_, most); }
    int32_t streams() const { return model_->queue_streams(queue_); }

private:
    struct Call {
        Model model;
        std::promise<void> promise;
    };
    static void done(void *argument, int32_t status, const tvmconv_state *state) {
        std::unique_ptr<Call> call(static_cast<Call *>(argument));
        if (status == TVMCONV_OK) {
            call->promise.set_value();
            return;
        }
        const char *message = call->model->message(state);
        call->promise.set_exception(std::make_exception_ptr(Error(status, message)));
    }

    Model model_;
    tvmconv_queue *queue_ = nullptr;
};

} // namespace tvmconv

#endif
