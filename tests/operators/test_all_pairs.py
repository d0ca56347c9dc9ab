"""Running sums and TopK of GPUs, run from their CUDA source on the processor, against numpy."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from onnx import parser

import tvmconv
from tests.operators.test_sort import by_definition
from tvmconv.core.errors import ModelError
from tvmconv.kernels.rules import schedule_module
from tvmconv.lab.emulation.module import EmulatedModule
from tvmconv.machines.cuda import MACHINES
from tvmconv.operators.all_pairs import running_sum, top_k
from tvmconv.tir.cuda.lowering import cuda_code
from tvmconv.tvm_api import ir, te

SM_90 = MACHINES["cuda:sm_90"]
needs_emulator = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def computed(x: np.ndarray, expression) -> list[np.ndarray]:
    """All results; kernels find no numbers in what they have not written."""
    data = te.placeholder(x.shape, str(x.dtype), name="x")
    made = expression(data)
    results = made if isinstance(made, list) else [made]
    func = te.create_prim_func([data, *results]).with_attr("global_symbol", "main")
    module = schedule_module(ir.IRModule({"main": func}), SM_90)
    ((_, scheduled),) = module.functions_items()
    code = cuda_code(module, SM_90)
    emulated, buffers = EmulatedModule(code.source), [x]
    for parameter in scheduled.params[1:]:
        shape, dtype = tuple(int(n) for n in parameter.shape), str(parameter.dtype)
        buffers.append(np.full(shape, np.nan if dtype == "float32" else 1 << 20, dtype))
    for launch in code.launches["main"]:
        assert launch.threads >= SM_90.warp
        arguments = [buffers[place] for place in launch.arguments]
        emulated.run(launch.kernel, launch.grid, launch.block, arguments)
    return buffers[1 : 1 + len(results)]


@needs_emulator
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "reverse"),
    [((5, 130, 3), 1, False), ((7, 9), -1, False), ((40,), 0, False), ((7, 9), 0, True)],
)
def test_running_sums(shape, axis, reverse, exclusive):
    x = np.random.default_rng(0).standard_normal(shape, "float32")
    (actual,) = computed(x, lambda data: running_sum(data, axis, "float32", exclusive, reverse))
    wanted = x.astype("float64")
    wanted = (
        np.flip(np.cumsum(np.flip(wanted, axis), axis), axis)
        if reverse
        else (np.cumsum(wanted, axis))
    )
    wanted = wanted - x if exclusive else wanted
    assert np.abs(actual - wanted).max() <= 3e-6 * np.abs(wanted).max()


@needs_emulator
def test_what_comes_later_is_no_part_of_a_running_sum():
    x = np.ones(70, "float32")
    x[50] = np.inf
    (actual,) = computed(x, lambda data: running_sum(data, 0, "float32", False))
    assert np.array_equal(actual, np.cumsum(x))


@needs_emulator
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((3, 70), 1), ((4, 33, 2), 1), ((9,), 0)])
def test_top_k(shape, axis, largest):
    x = np.random.default_rng(1).integers(-6, 6, shape).astype("float32")  # many ties
    x.flat[3], x.flat[7], x.flat[8] = np.nan, np.inf, -np.inf
    actual = computed(x, lambda data: top_k(data, 5, axis, largest, "int64"))
    for mine, wanted in zip(actual, by_definition(x, 5, axis, largest), strict=True):
        np.testing.assert_array_equal(mine, wanted, strict=True)


@pytest.mark.parametrize("operator", ["CumSum (x, a)", "TopK <axis = 1> (x, k)"])
def test_long_axes_are_refused_by_name(operator):
    outputs = "y, i" if operator.startswith("TopK") else "y"
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        long (float[1,70000] x) => (float[1,N] y) <int64 a = {{1}}, int64[1] k = {{4}}>
        {{ {outputs} = {operator} }}"""
    )
    sentence = r"of layer 'y.*' runs along 70000 values; for cuda:sm_90 they may be 65536"
    with pytest.raises(ModelError, match=sentence):
        tvmconv.build(model, "cuda:sm_90")
