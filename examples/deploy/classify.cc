// Runs a compiled model and prints the five highest scores of its first output, in C++.
//
//     c++ -std=c++11 examples/deploy/classify.cc -o classify -ldl
//     ./classify resnet18.so input.f32
//
// As classify.c, for models whose inputs and outputs are float32. To build it on another machine, copy this
// file, tvmconv.h and tvmconv.hpp.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <numeric>
#include <vector>

#include "tvmconv.hpp"

static std::vector<float> read(const std::string &path, std::size_t count) {
    std::vector<float> values(count);
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char *>(values.data()),
              static_cast<std::streamsize>(count * sizeof(float)));
    if (!file || file.peek() != std::ifstream::traits_type::eof())
        throw std::runtime_error(path + " does not hold " + std::to_string(count) + " floats");
    return values;
}

int main(int count, char **arguments) try {
    if (count < 2) {
        std::cerr << "usage: " << arguments[0] << " model.so [input.f32]\n";
        return 2;
    }
    tvmconv::Model model(arguments[1]);
    tvmconv::State state(model);

    const tvmconv_description &about = model.description();
    std::vector<std::vector<float>> data;
    std::vector<tvmconv::Input> inputs;
    std::vector<tvmconv::Output> outputs;
    data.reserve(static_cast<std::size_t>(about.input_count + about.output_count));
    for (int i = 0; i < about.input_count; ++i) {
        std::vector<float> values(about.inputs[i].bytes / sizeof(float));
        if (i + 2 < count)
            values = read(arguments[i + 2], values.size());
        else
            for (std::size_t j = 0; j < values.size(); ++j)
                values[j] = static_cast<float>(j) / static_cast<float>(values.size());
        data.push_back(std::move(values));
        inputs.push_back(tvmconv::input(data.back()));
    }
    for (int i = 0; i < about.output_count; ++i) {
        data.emplace_back(about.outputs[i].bytes / sizeof(float));
        outputs.push_back(tvmconv::output(data.back()));
    }
    state.run(inputs, outputs);

    const std::vector<float> &scores = data[inputs.size()];
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    std::cout << about.outputs[0].name << ", highest of " << scores.size() << ":\n";
    for (std::size_t i = 0; i < order.size() && i < 5; ++i)
        std::cout << order[i] << "  " << scores[order[i]] << "\n";
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
