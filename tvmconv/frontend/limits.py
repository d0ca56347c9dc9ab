"""Sizes beyond which a model is refused before any work is spent on it."""

from __future__ import annotations

MAX_FILE_BYTES = 2**31 - 1  # the protobuf limit
MAX_EXTERNAL_BYTES = 2**36
# the largest networks in use have about 10,000; time and memory are in proportion
MAX_NODES = 32_768
MAX_NODE_VALUES = 4096  # inputs or outputs of one node
MAX_ATTRIBUTE_VALUES = 1_000_000
MAX_WINDOW_VALUE = 2**24  # kernel size, stride, dilation, padding
# a weight that is padded to whole blocks of channels, where that at least doubles it
MAX_PADDED_BYTES = 2**29
MAX_RANK = 8
MAX_NESTING = 8
# a Loop of more trips has no largest trip count: exporters write the largest integer
MAX_TRIPS = 2**31 - 1
# nodes of a Loop that is read in place, trip by trip
MAX_UNROLLED_NODES = 1024
# nodes that are evaluated to count the trips of a Loop
MAX_COUNTED_NODES = 4096
MAX_DIMENSION = 2**31 - 1
MAX_TENSOR_BYTES = 2**33
MAX_CONSTANT_BYTES = 2**35  # all constants together
MAX_ACTIVATION_BYTES = 2**35  # activations alive at a time

# computed constants alive at a time: by default this, and a multiple of the model's size
FREE_FOLD_BYTES = 2**28
FOLD_BYTES_PER_BYTE = 4
# in addition, for weights of layers that the model writes as ConstantOfShape
FREE_WEIGHT_BYTES = 2**30
FOLD_SECONDS = 10.0  # spent on computing constants, about, for each FREE_FOLD_BYTES of the budget

MIN_IR_VERSION = 3
MIN_OPSET = 6
