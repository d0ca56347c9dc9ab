"""``SubstituteConv2d`` on quantized networks: the kernels and the results of a build."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import tvmconv
from tests.graph import quantised_networks
from tests.graph.passed import run
from tests.kernels import V3
from tvmconv.core.errors import ConfigError
from tvmconv.graph.ir import Graph, constant, make_node
from tvmconv.graph.quantized.moved_constants import move_constants
from tvmconv.graph.quantized.scales import known_integers
from tvmconv.transform import ScheduleOperators, SubstituteConv2d


def passed(model: onnx.ModelProto, **options: str) -> tvm.IRModule:
    transform = relax.transform
    passes = [
        SubstituteConv2d(V3, threads=1, **options),
        transform.LegalizeOps(),
        transform.FuseOps(),
        transform.FuseTIR(),
        ScheduleOperators(V3, threads=1),
    ]
    return tvm.transform.Sequential(passes)(from_onnx(model))


def kernels(mod: tvm.IRModule) -> list[str]:
    """The called convolution kernels, without numbers."""
    names = [str(name) for called in mod.attrs["tvmconv.calls"].values() for name in called]
    return sorted(name.rsplit("_", 1)[0] for name in names if name.startswith(("conv", "depthw")))


@pytest.mark.parametrize(
    ("name", "requantize"),
    [
        ("residual", "float"),
        *(
            pytest.param(name, how, marks=pytest.mark.slow)
            for name, how in (("single", "fixed"), ("dense", "float"), ("separable", "fixed"))
        ),
    ],
)
def test_layers_are_those_of_a_build(name, requantize):
    model = getattr(quantised_networks, name)()
    mod = passed(model, requantize=requantize)
    built = tvmconv.build(model, V3, threads=1, requantize=requantize)
    assert kernels(mod) == sorted(d.kernel.rsplit("_", 1)[0] for d in built.decisions)
    assert all(d.workload.types.is_integer for d in built.decisions)
    (given,) = model.graph.input
    shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    (result,) = run(mod, "main", x)
    (same,) = built.run({given.name: x}).values()
    np.testing.assert_array_equal(result, same)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {given.name: x})
    scale = np.abs(expected).max()
    # fixed point may round another way
    assert np.abs(result - expected).max() <= (0.02 if requantize == "fixed" else 1e-5) * scale


def test_an_unknown_requantize_is_an_error():
    with pytest.raises(ConfigError, match="requantize"):
        SubstituteConv2d(V3, requantize="round")


@pytest.mark.parametrize(
    ("op", "shape", "result", "axis", "attrs", "moves"),
    [
        ("reshape", (6,), (1, 6, 1, 1), 0, {}, True),
        ("reshape", (6,), (2, 3), 0, {}, False),
        ("reshape", (2, 3), (1, 2, 3), 0, {}, False),
        ("permute_dims", (2, 3), (3, 2), 1, {}, True),
        ("permute_dims", (2, 3, 4), (4, 2, 3), 1, {"axes": [2, 0, 1]}, True),
    ],
)
def test_moved_constants_keep_their_values(op, shape, result, axis, attrs, moves):
    draw = np.random.default_rng(0)
    count = shape[axis]
    parts = [
        constant(draw.integers(-9, 9, shape, np.int8)),
        constant(draw.random(count, np.float32)),
        constant(draw.integers(-9, 9, count, np.int8)),
    ]
    rounded = make_node("dequantize", parts, shape, attrs={"axis": axis})
    before = known_integers(rounded.output).values()
    moved = make_node(op, [rounded.output], result, attrs=attrs)
    graph = Graph([], [rounded, moved], [moved.output])
    move_constants(graph)
    known = known_integers(graph.outputs[0])
    assert (known is not None) == moves
    if known is not None:
        after = before.transpose(attrs.get("axes")) if op == "permute_dims" else before
        np.testing.assert_array_equal(known.values(), after.reshape(result))
