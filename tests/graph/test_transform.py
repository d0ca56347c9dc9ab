"""``SubstituteConv2d`` inside somebody else's pipeline; the reference is TVM's own lowering."""

from __future__ import annotations

import doctest
import re
import warnings

import numpy as np
import pytest
import tvm
from tvm import relax

import tvmconv.transform
from tests.assembly import Assembly, assembly
from tests.graph.passed import assert_same, calls, pipeline, tensor, weight
from tests.kernels import V3, default_config, each_target
from tests.tuning.examples import record
from tvmconv.core.errors import ConfigError, TargetError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.records.logfile import append
from tvmconv.transform import ScheduleOperators, SubstituteConv2d


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


def convolution():
    builder = relax.BlockBuilder()
    x = tensor("x", 1, 16, 28, 28)
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.conv2d(x, weight(32, 16, 3, 3), padding=1))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("knobs", [{}, {"oh": 1, "ow": 4}], ids=["default", "tuned"])
@each_target
def test_kernels_are_the_code_of_a_build(machine, knobs, tmp_path):
    """Annotations worked off, for the pass's target, and with the config of a tuning log."""
    machine, workload = machine.with_cores(1), Conv2dWorkload.parse("ic16ih28oc32kh3ph1")
    log = tmp_path / "log.jsonl"
    append(log, [record(workload, machine, knobs=knobs, seconds=1e-9).to_line()] if knobs else [])
    passed = SubstituteConv2d(machine, 1, ["direct"], log=log if knobs else "none")(convolution())
    (library,) = passed.attrs["external_mods"]
    config = default_config("direct", workload, machine, **knobs)
    expected = assembly(make_kernel(workload, machine, "direct", config))
    actual = assembly(library, machine)
    assert _main_loop(actual) == _main_loop(expected)
    assert any("vfmadd" in line for line in _main_loop(actual))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_budget": 0}, "layer 'gv' needs at least [0-9]+ bytes of workspace"),
        ({"finite": False}, "layer 'gv': no allowed algorithm computes"),
        ({"overrides": {"other": {"algorithm": "direct"}}}, "'other' matches no convolution"),
    ],
)
def test_options_reach_the_choice_and_its_errors_are_those_of_a_build(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SubstituteConv2d("x86-64-v3", 1, ["winograd"], **options)(convolution())


def _main_loop(code: Assembly) -> list[str]:
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
    return re.findall(r"^__tvm_ffi_(\w+):", assembly(library, V3).text, flags=re.MULTILINE)


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


@pytest.mark.parametrize(("size", "padding"), [(12, 0), (11, 1), (9, 0)])
def test_poolings_that_round_up_stay_between_kernels(size, padding):
    builder, x = relax.BlockBuilder(), tensor("x", 1, 16, size, size)
    window = {"strides": 2, "padding": padding, "ceil_mode": True}
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.conv2d(x, weight(16, 16, 3, 3), padding=1))
            y = builder.emit(relax.op.nn.max_pool2d(y, (3, 3), **window))
            result = builder.emit_output(relax.op.nn.conv2d(y, weight(16, 16, 1, 1)))
        builder.emit_func_output(result)
    mod = builder.get()
    passed = SubstituteConv2d("native", threads=1)(mod)
    (names,) = passed.attrs["tvmconv.calls"].values()
    assert sum(name.startswith("max_pool2d") for name in names) == 1
    assert_same(mod, passed, "main", (1, 16, size, size))


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
