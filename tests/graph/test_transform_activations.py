"""Activations that other importers write, through ``SubstituteConv2d``: all in the kernels."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import tvm
from tvm import ir, relax, topi
from tvm.relax.frontend.onnx import from_onnx

from tests.graph.network import Net
from tests.graph.passed import RNG, assert_same, pipeline, run, tensor, weight
from tvmconv.transform import SubstituteConv2d


def called(mod: tvm.IRModule) -> list[str]:
    """The kernels that the function main calls, in order, without numbers."""
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    symbols = [str(value.args[0].global_symbol) for value in values if isinstance(value, ir.Call)]
    names = [str(name) for symbol in symbols for name in mod.attrs["tvmconv.calls"][symbol]]
    return [re.sub(r"[\d_]+$", "", name) for name in names]


def layers(count: int) -> list[str]:
    """The calls of convolutions alone, in their layout from the first to the last."""
    return ["reorder", *["conv2d_direct"] * count, "reorder"]


def image() -> np.ndarray:
    """A picture with large values and one pixel that is NaN."""
    x = RNG.standard_normal((1, 16, 5, 5)).astype("float32") * 5
    x[0, :, 2, 3] = np.nan
    return x


def assert_equal_to_onnxruntime(model: onnx.ModelProto, passed: tvm.IRModule) -> None:
    x = image()
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    assert 0 < np.isnan(expected).sum() < expected.size
    np.testing.assert_allclose(run(passed, "main", x)[0], expected, rtol=1e-4, atol=1e-4)


def number(net: Net, value: float) -> str:
    return net.const(np.float32(value))


def bounded(net: Net, x: str, low: float | None, high: float | None) -> str:
    bounds = ["" if value is None else number(net, value) for value in (low, high)]
    return str(net.op("Clip", x, *bounds))


def hard_swish(net: Net, x: str) -> str:
    """As exporters wrote it before ONNX had the operator."""
    gate = bounded(net, net.op("Add", x, number(net, 3)), 0, 6)
    return str(net.op("Div", net.op("Mul", x, gate), number(net, 6)))


def test_activations_of_the_stock_importer():
    net = Net(1, 16, 5, 5)
    steps: list[Callable[[Net, str], str]] = [
        lambda net, y: bounded(net, y, 0, 6),
        lambda net, y: bounded(net, y, -2, None),
        lambda net, y: bounded(net, y, None, 1.5),
        lambda net, y: bounded(net, y, float("nan"), 2),
        lambda net, y: bounded(net, net.op("Relu", y), -1, 4),
        lambda net, y: net.op("HardSigmoid", y, alpha=0.25),
        lambda net, y: net.op("HardSwish", y),
        hard_swish,
    ]
    y = "x"
    for step in steps:
        y = step(net, net.conv(y, 16, 16, 1))
    y = net.op("Pad", y, net.const(np.array([0, 0, 0, 1, 0, 0, 2, 1])))
    model = net.model(net.conv(y, 16, 16, 2, pads=[0] * 4, strides=[2, 2]))
    mod = from_onnx(model)
    names = {v.name_hint for v, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)}
    assert {"maximum", "minimum", "pad"} <= names
    substituted = SubstituteConv2d("native", threads=1)(mod)
    assert not any(isinstance(f, tvm.tirx.PrimFunc) for f in substituted.functions.values())
    passed = pipeline()(mod)
    assert called(passed) == layers(len(steps) + 1)
    assert_equal_to_onnxruntime(model, passed)


def test_clips_of_old_models():
    """Bounds that are attributes appear in the importer's functions."""
    net = Net(1, 16, 5, 5)
    y = net.op("Clip", net.conv("x", 16, 16, 1), min=0.0, max=6.0)
    y = net.op("Clip", net.conv(y, 16, 16, 1), max=1.5)
    y = net.op("Clip", net.conv(y, 16, 16, 1), min=-0.5)
    model = net.model(y)
    model.opset_import[0].version = 10
    passed = pipeline()(from_onnx(model))
    assert called(passed) == layers(3)
    assert_equal_to_onnxruntime(model, passed)


def test_activations_of_other_modules():
    def legal(x):
        return topi.clip(x, -1.0, 2.0)

    builder = relax.BlockBuilder()
    op, emit, emit_te = relax.op, builder.emit, builder.emit_te
    steps = [
        lambda y: emit(op.clip(y, -1.0, 4.0)),
        lambda y: emit(op.nn.relu6(y)),
        lambda y: emit_te(legal, y),
        lambda y: emit_te(topi.nn.relu, y),
        lambda y: emit(op.maximum(relax.const(-0.5), emit(op.minimum(y, relax.const(2.0))))),
        lambda y: emit(op.multiply(emit_te(topi.sigmoid, y), y)),
        lambda y: emit_te(topi.tanh, y),
    ]
    x = y = tensor("x", 1, 16, 5, 5)
    with builder.function("main", [x]):
        with builder.dataflow():
            for step in steps:
                y = step(emit(relax.op.nn.conv2d(y, weight(16, 16, 1, 1))))
            result = builder.emit_output(y)
        builder.emit_func_output(result)
    mod = builder.get()
    passed = pipeline()(mod)
    assert called(passed) == layers(len(steps))
    assert_same(mod, passed, "main", (1, 16, 5, 5))


def test_activations_of_torch():
    """Modules of TVM's importer of exported programs."""
    torch = pytest.importorskip("torch")
    from tvm.relax.frontend.torch import from_exported_program

    nn = torch.nn

    class Network(nn.Module):
        def __init__(self, activations):
            super().__init__()
            self.activations = activations
            self.layers = nn.ModuleList(nn.Conv2d(16, 16, 1) for _ in activations)

        def forward(self, x):
            for layer, activation in zip(self.layers, self.activations, strict=True):
                x = activation(layer(x))
            return x

    activations = [
        nn.ReLU6(),
        nn.Hardtanh(-0.5, 2.0),
        nn.Hardswish(),
        nn.Hardsigmoid(),
        nn.SiLU(),
        lambda y: torch.clamp(y, min=-1.0),
        lambda y: torch.clamp(y, max=0.75),
        lambda y: y.clamp(0, 3),
        lambda y: y * nn.functional.relu6(y + 3) / 6,
    ]
    torch.manual_seed(0)
    x = torch.from_numpy(image())
    network = Network(activations).eval()
    with torch.no_grad():
        expected = network(x).numpy()
    passed = pipeline()(from_exported_program(torch.export.export(network, (x,))))
    assert called(passed) == layers(len(activations))
    np.testing.assert_allclose(run(passed, "main", x.numpy())[0], expected, rtol=1e-4, atol=1e-4)
