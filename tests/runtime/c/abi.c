/* Prints the sizes and offsets that programs compiled with tvmconv.h rely on. */
#include <stddef.h>
#include <stdio.h>

#include "tvmconv.h"

#define SIZE(type) printf(#type " %zu\n", sizeof(type))
#define FIELD(type, field) printf(#type "." #field " %zu\n", offsetof(type, field))

int main(void) {
    SIZE(tvmconv_tensor);
    FIELD(tvmconv_tensor, name);
    FIELD(tvmconv_tensor, dtype);
    FIELD(tvmconv_tensor, rank);
    FIELD(tvmconv_tensor, shape);
    FIELD(tvmconv_tensor, bytes);
    SIZE(tvmconv_layer);
    FIELD(tvmconv_layer, name);
    FIELD(tvmconv_layer, operation);
    FIELD(tvmconv_layer, algorithm);
    FIELD(tvmconv_layer, workload);
    FIELD(tvmconv_layer, kernel);
    FIELD(tvmconv_layer, flops);
    FIELD(tvmconv_layer, bytes);
    SIZE(tvmconv_description);
    FIELD(tvmconv_description, size);
    FIELD(tvmconv_description, input_count);
    FIELD(tvmconv_description, output_count);
    FIELD(tvmconv_description, layer_count);
    FIELD(tvmconv_description, inputs);
    FIELD(tvmconv_description, outputs);
    FIELD(tvmconv_description, layers);
    FIELD(tvmconv_description, name);
    FIELD(tvmconv_description, version);
    FIELD(tvmconv_description, target);
    FIELD(tvmconv_description, features);
    FIELD(tvmconv_description, arena_bytes);
    FIELD(tvmconv_description, workspace_bytes);
    FIELD(tvmconv_description, weight_bytes);
    FIELD(tvmconv_description, threads);
    FIELD(tvmconv_description, separate_weights);
    FIELD(tvmconv_description, device);
    FIELD(tvmconv_description, varying_axes);
    FIELD(tvmconv_description, programs);
    FIELD(tvmconv_description, program_count);
    FIELD(tvmconv_description, batched);
    SIZE(tvmconv_options);
    FIELD(tvmconv_options, size);
    FIELD(tvmconv_options, threads);
    FIELD(tvmconv_options, parallel_for);
    FIELD(tvmconv_options, parallel_context);
    FIELD(tvmconv_options, weights);
    FIELD(tvmconv_options, weight_bytes);
    FIELD(tvmconv_options, weights_path);
    FIELD(tvmconv_options, cuda_graph);
    FIELD(tvmconv_options, gpu);
    FIELD(tvmconv_options, target);
    SIZE(tvmconv_queue_options);
    FIELD(tvmconv_queue_options, size);
    FIELD(tvmconv_queue_options, streams);
    FIELD(tvmconv_queue_options, options);
    FIELD(tvmconv_queue_options, cpus);
    SIZE(tvmconv_model);
    FIELD(tvmconv_model, abi);
    FIELD(tvmconv_model, size);
    FIELD(tvmconv_model, description);
    FIELD(tvmconv_model, create);
    FIELD(tvmconv_model, run);
    FIELD(tvmconv_model, profile);
    FIELD(tvmconv_model, message);
    FIELD(tvmconv_model, destroy);
    FIELD(tvmconv_model, pool_create);
    FIELD(tvmconv_model, pool_parallel_for);
    FIELD(tvmconv_model, pool_destroy);
    FIELD(tvmconv_model, threads);
    FIELD(tvmconv_model, enqueue);
    FIELD(tvmconv_model, shape);
    FIELD(tvmconv_model, set_shapes);
    FIELD(tvmconv_model, describe);
    FIELD(tvmconv_model, run_batch);
    FIELD(tvmconv_model, cpus);
    FIELD(tvmconv_model, queue_create);
    FIELD(tvmconv_model, queue_submit);
    FIELD(tvmconv_model, queue_wait);
    FIELD(tvmconv_model, queue_streams);
    FIELD(tvmconv_model, queue_destroy);
    return 0;
}
