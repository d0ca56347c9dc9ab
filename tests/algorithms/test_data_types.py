"""Every algorithm accepts or refuses a workload's data types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import te

from tests.kernels import V3, default_config
from tests.layout import block, unblock
from tests.strategies import conv_arrays
from tvmconv.algorithms.operands import Operands
from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.measuring.reference import convolution
from tvmconv.selection.select import select
from tvmconv.tir.pipeline import compile_function

BLOCKED = "ic16ih8oc16kh3ph1+bias+add+relu"
LAYERS = (BLOCKED, "ic3ih8oc16kh3ph1:nchw+bias+add+relu", f"g16{BLOCKED}")
SUMS = DataTypes("uint8", "int8", "int32", "int32")


# strassen is for Arm alone, and for many channels; two have no floating types
NAMES = [
    name for name in registry.names() if name not in ("strassen", "direct_bytes", "direct_tiles")
]


def able(name):
    """A float32 layer that an algorithm computes."""
    workloads = (Conv2dWorkload.parse(text) for text in LAYERS)
    return next(w for w in workloads if registry.algorithm(name).unsupported(w, V3) is None)


@pytest.mark.parametrize("name", NAMES)
def test_undeclared_types_are_refused(name):
    algorithm, workload = registry.algorithm(name), able(name)
    assert workload.types in algorithm.types
    other = replace(workload, types=SUMS)
    assert SUMS not in algorithm.types
    if algorithm.integers:
        other = replace(workload, types=DataTypes("int8", "int8", "int32", "int32"))
        reason = "on x86-64-v3 it computes in uint8 by int8 or int16, not s8s8s32s32"
        assert algorithm.unsupported(other, V3) == reason
        return
    assert algorithm.unsupported(other, V3) == "it computes in float32, not u8s8s32s32"
    with pytest.raises(ConfigError, match=f"{name} cannot compute {other}".replace("+", r"\+")):
        make_kernel(other, V3, name)


def test_products_of_bytes_are_of_no_other_types():
    algorithm = registry.algorithm("direct_bytes")
    workload = Conv2dWorkload.parse(BLOCKED)
    assert algorithm.unsupported(workload, V3) == f"it computes in INT8, not {workload.types}"
    workload = Conv2dWorkload.parse("ic16ih8oc16kh3ph1:u8s16s32s32")
    reason = "it needs INT8 weights, and weights are int16"
    assert algorithm.unsupported(workload, V3) == reason


def test_selection_names_the_types_it_lacks():
    workload = Conv2dWorkload.parse("ic16ih8oc16kh3ph1:f16f16f16f16")
    with pytest.raises(ConfigError, match="winograd: it computes in float32, not f16f16f16f16"):
        select(workload, V3, layer="conv1")


@pytest.mark.parametrize("name", NAMES)
def test_bytes_follow_from_the_types(name):
    algorithm, workload = registry.algorithm(name), able(name)
    half = DataTypes("float16", "float16", "float16", "float16")
    config = registry.offers(name, workload, V3)[0]

    def bytes_of(types):
        typed = replace(workload, types=types)
        packed = algorithm.packed_weight_bytes(typed, V3, config)
        return packed, algorithm.workspace_bytes(typed, V3, config)

    packed, workspace = bytes_of(FLOAT32)
    weight = conv_arrays(workload).weight
    assert packed == algorithm.pack_weight(weight, workload, V3, config).nbytes
    assert bytes_of(half) == (packed // 2, workspace // 2)


def test_placeholders_have_the_workloads_types():
    workload = Conv2dWorkload.parse("ic16ih8oc16kh3ph1:u8s8s32u8+bias+add")
    given = Operands.of(workload, V3, (2, 2, 3, 3, 8, 1, 8))
    tensors = (given.data, given.weight, given.bias, given.residual)
    assert [str(t.dtype) for t in tensors] == ["uint8", "int8", "int32", "uint8"]


@pytest.mark.parametrize("name", ["direct", "direct_first", "depthwise", "winograd", "im2col"])
def test_float32_sums_are_rounded_to_the_outputs_type(name):
    workload = able(name)
    typed = replace(workload, types=replace(FLOAT32, output="float16"))
    config = default_config(name, workload, V3)
    *_, residual, output = registry.algorithm(name).compute(typed, V3, config)
    assert [str(tensor.dtype) for tensor in (residual, output)] == ["float16", "float16"]


@pytest.mark.parametrize("name", ["direct", "direct_first", "depthwise"])
def test_expressions_sum_in_the_accumulators_type(name):
    """Without schedules, which are written for float32 alone: products beyond 8 and 16 bits."""
    workload, rng = replace(able(name), types=SUMS), np.random.default_rng(0)
    config = default_config(name, able(name), V3)
    shapes = conv_arrays(workload)
    data = rng.integers(0, 256, shapes.data.shape, np.uint8)
    weight = rng.integers(-128, 128, shapes.weight.shape, np.int8)
    bias = rng.integers(-(2**20), 2**20, shapes.bias.shape, np.int32)
    residual = rng.integers(-(2**20), 2**20, shapes.residual.shape, np.int32)
    algorithm = registry.algorithm(name)
    function = te.create_prim_func(algorithm.compute(workload, V3, config))
    arrays = [
        data if workload.data_layout == "NCHW" else block(data, V3.lanes, 0),
        algorithm.pack_weight(weight, workload, V3, config),
        bias.reshape(-1, V3.lanes),
        block(residual, V3.lanes, 0),
    ]
    assert arrays[1].nbytes == algorithm.packed_weight_bytes(workload, V3, config)
    result = np.full(arrays[3].shape, -1, np.int32)
    tensors = [tvm.runtime.tensor(array) for array in (*arrays, result)]
    compile_function(function, V3)["main"](*tensors)
    constants = {"weight": weight, "bias": bias}
    expected = convolution(workload, {"data": data, "residual": residual}, constants)
    assert np.array_equal(unblock(tensors[-1].numpy(), workload.out_channels), expected)
