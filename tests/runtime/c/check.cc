// The C++ header with the toy model: check MODEL.so. Prints what went wrong.
#include "tvmconv.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                           \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static_assert(!std::is_copy_constructible<tvmconv::State>::value, "a state has one owner");
static_assert(!std::is_copy_constructible<tvmconv::Pool>::value, "a pool has one owner");
static_assert(std::is_nothrow_move_constructible<tvmconv::State>::value, "states go in vectors");

template <typename Function> static std::string error_of(int32_t status, Function function) {
    try {
        function();
    } catch (const tvmconv::Error &error) {
        EXPECT(error.status() == status);
        return error.what();
    }
    return "";
}

static bool has(const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
}

int main(int count, char **arguments) {
    using tvmconv::input;
    using tvmconv::output;
    EXPECT(count == 2);
    EXPECT(!error_of(TVMCONV_INVALID, [] { tvmconv::Model("./none.so"); }).empty());
    std::string name = arguments[1];
    std::vector<tvmconv::State> states;
    std::vector<float> image(64 * 256, 0.5f);
    std::vector<uint8_t> mask(64, 1);
    std::array<float, 64> scores;
    float half[32];
    {
        tvmconv::Model model(name);
        EXPECT(model.description().input_count == 2);
        states.emplace_back(model);
    } // the state keeps the model open
    states.reserve(8);
    tvmconv::State &state = states[0];
    for (int i = 0; i < 3; ++i) {
        scores.fill(0);
        state.run({input(image), input(mask)}, {output(scores), output(half, 32)});
        EXPECT(std::fabs(scores[63] - (256 + 256 * 255 / 8.0f)) < 1);
        EXPECT(half[31] == scores[63]);
    }
    EXPECT(has(error_of(TVMCONV_UNSUPPORTED,
                        [&] {
                            state.enqueue(nullptr, {input(image), input(mask)},
                                          {output(scores), output(half, 32)});
                        }),
               "the CPU, which has no streams"));
    std::vector<tvmconv::Input> inputs = {input(image), input(mask)};
    std::vector<tvmconv::Output> outputs = {output(scores),
                                            output(static_cast<void *>(half), sizeof half)};
    state.run(inputs, outputs);
    EXPECT(state.profile(inputs, outputs).size() == 3);
    EXPECT(state.threads() >= 1);

    inputs.pop_back();
    EXPECT(has(error_of(TVMCONV_INVALID, [&] { state.run(inputs, outputs); }), "1 inputs given"));
    inputs.push_back(input(scores));
    EXPECT(has(error_of(TVMCONV_INVALID, [&] { state.run(inputs, outputs); }), "another type"));
    inputs[1] = input(mask.data(), 63);
    EXPECT(has(error_of(TVMCONV_INVALID, [&] { state.run(inputs, outputs); }), "63 bytes"));
    inputs[1] = input(mask);
    image[0] = 1e30f;
    EXPECT(has(error_of(TVMCONV_FAILED, [&] { state.run(inputs, outputs); }), "returned 7"));
    image[0] = 0.5f;

    tvmconv::Model model(name);
    tvmconv_options wrong = {};
    EXPECT(has(error_of(TVMCONV_INVALID, [&] { tvmconv::State(model, wrong); }), "size"));
    tvmconv::Pool pool(model, 3);
    std::vector<tvmconv::State> sharing;
    for (int i = 0; i < 3; ++i) sharing.emplace_back(model, pool.options(3));
    for (tvmconv::State &one : sharing) {
        EXPECT(one.threads() == 3);
        one.run(inputs, outputs);
    }
    sharing[0] = std::move(sharing[2]);
    sharing[0].run(inputs, outputs);

    tvmconv::Queue queue(model, 2, "performance");
    EXPECT(queue.streams() == 2);
    scores.fill(0);
    queue.submit(inputs, outputs).get();
    EXPECT(std::fabs(scores[63] - (256 + 256 * 255 / 8.0f)) < 1);
    EXPECT(queue.wait() == 0);
    queue.submit(inputs, outputs, {{64, 256}, {64}}).get();
    std::future<void> wrong_shape = queue.submit(inputs, outputs, {{64, 256}, {65}});
    EXPECT(has(error_of(TVMCONV_INVALID, [&] { wrong_shape.get(); }), "was not built for"));
    EXPECT(has(error_of(TVMCONV_INVALID, [&] { queue.submit(inputs, {}); }), "0 outputs given"));
    EXPECT(has(error_of(TVMCONV_INVALID, [&] { tvmconv::Queue(model, 1, "slow"); }), "\"slow\""));
    return 0;
}
