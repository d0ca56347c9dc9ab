"""``SubstituteConv2d`` inside somebody else's pipeline; the reference is TVM's own lowering."""

from __future__ import annotations

import doctest
import re
import warnings
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import tvm
from tvm import ir, relax, topi
from tvm.relax.frontend.onnx import from_onnx

import tvmconv.transform
from tests.graph.network import Net
from tests.kernels import REGISTER, Code, default_config, each_target, generated_code
from tests.tuning.examples import record
from tvmconv.core.errors import ConfigError, TargetError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.records.logfile import append
from tvmconv.transform import ScheduleOperators, SubstituteConv2d

RNG = np.random.default_rng(0)


def weight(*shape: int):
    return relax.const((RNG.standard_normal(shape) * 0.1).astype("float32"))


def tensor(name: str, *shape: int):
    return relax.Var(name, relax.TensorType(shape, "float32"))


def run(mod: tvm.IRModule, function: str, *inputs: np.ndarray) -> list[np.ndarray]:
    executable = relax.build(mod, target="llvm")
    result = relax.VirtualMachine(executable, tvm.cpu())[function](
        *(tvm.runtime.tensor(value) for value in inputs)
    )
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def assert_same(mod: tvm.IRModule, passed: tvm.IRModule, function: str, *shapes):
    inputs = [RNG.standard_normal(shape).astype("float32") for shape in shapes]
    for expected, actual in zip(
        run(mod, function, *inputs), run(passed, function, *inputs), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def calls(mod: tvm.IRModule) -> set[str]:
    """Names of the Relax operators and functions that are called."""
    found = set()

    def visit(expr):
        op = getattr(expr, "op", None)
        if isinstance(op, tvm.ir.Op):
            found.add(op.name if op.name != "relax.call_tir" else expr.args[0].name_hint)

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return found


def two_functions() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = tensor("x", 1, 16, 10, 10)
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.conv2d(x, weight(24, 16, 3, 3), padding=1))
            y = builder.emit(relax.op.add(y, weight(1, 24, 1, 1)))
            first = builder.emit_output(relax.op.nn.relu(y))
        with builder.dataflow():
            z = builder.emit(relax.op.nn.conv2d(first, weight(24, 24, 3, 3), padding=1))
            total = builder.emit_output(relax.op.add(z, first))
            pooled = builder.emit_output(relax.op.nn.max_pool2d(z, (2, 2), (2, 2)))
        builder.emit_func_output(relax.Tuple([total, pooled]))
    s = tensor("s", 1, 8, 20)
    with builder.function("signal", [s]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.conv1d(s, weight(16, 8, 5), padding=2))
            result = builder.emit_output(relax.op.sigmoid(y))
        builder.emit_func_output(result)
    t = tensor("t", 3, 4)
    with builder.function("unrelated", [t]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.softmax(t))
        builder.emit_func_output(result)
    return builder.get()


def test_every_function_and_block_is_rewritten():
    mod = two_functions()
    passed = SubstituteConv2d("native", threads=1)(mod)
    assert not calls(passed) & {"relax.nn.conv2d", "relax.nn.conv1d"}
    assert "relax.nn.softmax" in calls(passed)
    tvm.ir.assert_structural_equal(passed["unrelated"], mod["unrelated"])
    assert_same(mod, passed, "main", (1, 16, 10, 10))
    assert_same(mod, passed, "signal", (1, 8, 20))
    assert_same(mod, passed, "unrelated", (3, 4))


def test_fusion_and_scheduling_of_the_rest():
    mod = two_functions()
    passed = pipeline()(mod)
    # everything is machine code by now: plain relax.build has nothing left to compile slowly
    assert not any(isinstance(f, tvm.tirx.PrimFunc) for f in passed.functions.values())
    assert_same(mod, passed, "main", (1, 16, 10, 10))


@pytest.mark.parametrize("knobs", [{}, {"oh": 1, "ow": 4}], ids=["default", "tuned"])
@each_target
def test_kernels_are_the_code_of_a_build(machine, knobs, tmp_path):
    """Annotations worked off, for the pass's target, and with the config of a tuning log."""
    machine, workload = machine.with_cores(1), Conv2dWorkload.parse("ic16ih28oc32kh3ph1")
    builder = relax.BlockBuilder()
    x = tensor("x", 1, 16, 28, 28)
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.conv2d(x, weight(32, 16, 3, 3), padding=1))
        builder.emit_func_output(result)
    log = tmp_path / "log.jsonl"
    append(log, [record(workload, machine, knobs=knobs, seconds=1e-9).to_line()] if knobs else [])
    passed = SubstituteConv2d(machine, 1, ["direct"], log=log if knobs else "none")(builder.get())
    (library,) = passed.attrs["external_mods"]
    config = default_config("direct", workload, machine, **knobs)
    expected = generated_code(make_kernel(workload, machine, "direct", config))
    actual = Code(str(library.inspect_source("s")), REGISTER[machine.vector.bits])
    assert _main_loop(actual) == _main_loop(expected)
    assert any("vfmadd" in line for line in _main_loop(actual))


def _main_loop(code: Code) -> list[str]:
    loop = max(code.loops(), key=code.multiply_adds)
    return [re.sub(r"\.LBB\w+", "label", line) for line in loop]


def test_functions_of_two_passes_keep_apart():
    """The second pass may reuse the name of a function that the first made code of."""
    mod = two_functions()
    passed = SubstituteConv2d("native", threads=1)(mod)
    again = ScheduleOperators("native", threads=1)(relax.transform.LegalizeOps()(passed))
    names = [name for library in again.attrs["external_mods"] for name in _defined(library)]
    assert len(again.attrs["external_mods"]) == 2
    assert len(set(names)) == len(names)
    assert_same(mod, again, "main", (1, 16, 10, 10))


def _defined(library) -> list[str]:
    return re.findall(r"^__tvm_ffi_(\w+):", str(library.inspect_source("s")), flags=re.MULTILINE)


def pipeline() -> tvm.transform.Pass:
    transform = relax.transform
    return tvm.transform.Sequential(
        [
            SubstituteConv2d("native", threads=1),
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FuseOps(),
            transform.FuseTIR(),
            ScheduleOperators("native", threads=1),
        ]
    )


def called(mod: tvm.IRModule) -> list[str]:
    """What the function main calls, in order, without numbers."""
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    names = [str(value.args[0].global_symbol) for value in values if isinstance(value, ir.Call)]
    return [re.sub(r"^tvmconv\d+_|[\d_]+$", "", name) for name in names]


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
    """Bounds that are attributes stand in the importer's functions."""
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


def test_weight_parameters_are_left_alone_with_a_warning():
    builder = relax.BlockBuilder()
    x, w = tensor("x", 1, 16, 8, 8), tensor("w", 16, 16, 3, 3)
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.conv2d(x, w, padding=1), "first")
            y = builder.emit(relax.op.nn.conv2d(y, weight(16, 16, 1, 1)), "second")
            result = builder.emit_output(relax.op.nn.relu(y))
        builder.emit_func_output(result)
    mod = builder.get()
    with pytest.warns(UserWarning, match=r"left first alone.*BindParams"):
        passed = SubstituteConv2d("native", threads=1)(mod)
    assert "relax.nn.conv2d" in calls(passed)
    assert_same(mod, passed, "main", (1, 16, 8, 8), (16, 16, 3, 3))
    bound = relax.transform.BindParams("main", {"w": np.ones((16, 16, 3, 3), "float32")})(mod)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        passed = SubstituteConv2d("native", threads=1)(bound)
    assert "relax.nn.conv2d" not in calls(passed)


def test_volumes_are_replaced():
    builder = relax.BlockBuilder()
    x = tensor("x", 2, 3, 4, 9, 9)
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.conv3d(x, weight(20, 3, 3, 3, 3), padding=1))
            y = builder.emit(relax.op.nn.relu(y))
            y = builder.emit(relax.op.nn.conv3d(y, weight(8, 20, 1, 1, 1)))
            result = builder.emit_output(relax.op.permute_dims(y, [0, 2, 1, 3, 4]))
        builder.emit_func_output(result)
    mod = builder.get()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        passed = SubstituteConv2d("native", threads=1)(mod)
    assert "relax.nn.conv3d" not in calls(passed)
    assert_same(mod, passed, "main", (2, 3, 4, 9, 9))


def test_symbolic_batch_is_left_alone():
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 16, 8, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.conv2d(x, weight(16, 16, 3, 3), padding=1))
            result = builder.emit_output(relax.op.nn.relu(y))
        builder.emit_func_output(result)
    mod = builder.get()
    assert calls(SubstituteConv2d("native", threads=1)(mod)) == {"relax.nn.conv2d", "relax.nn.relu"}


def test_half_precision_is_left_alone():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 16, 8, 8), "float16"))
    with builder.function("main", [x]):
        with builder.dataflow():
            w = relax.const(np.ones((16, 16, 1, 1), "float16"))
            result = builder.emit_output(relax.op.nn.conv2d(x, w))
        builder.emit_func_output(result)
    assert calls(SubstituteConv2d("native", threads=1)(builder.get())) == {"relax.nn.conv2d"}


def test_bad_arguments():
    with pytest.raises(TargetError):
        SubstituteConv2d("pentium")
    with pytest.raises(ConfigError, match="winograt"):
        SubstituteConv2d("native", algorithms=["winograt"])


def test_docstring_example():
    assert doctest.testmod(tvmconv.transform).failed == 0
