"""Operators other than convolutions on GPUs: their kernels run on the processor, against numpy."""

from __future__ import annotations

import shutil
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from tvm import topi

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.kernels.rules import schedule_module
from tvmconv.lab.emulation.module import EmulatedModule
from tvmconv.machines.cuda import MACHINES
from tvmconv.operators.dense_rows import dense_rows
from tvmconv.schedules.cuda.threads import threads_of_sum
from tvmconv.tir.cuda.lowering import cuda_code
from tvmconv.tvm_api import ir, te, tirx

SM_90 = MACHINES["cuda:sm_90"]
EPILOGUE = (EpilogueOp("bias"), EpilogueOp("add"), EpilogueOp("relu"))
needs_emulator = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def placeholder(name: str, *shape: int):
    return te.placeholder(shape, "float32", name=name)


def transposed():
    x = placeholder("x", 5, 7, 11)
    doubled = te.compute(x.shape, lambda i, j, k: x[i, j, k] * 2.0, name="doubled")
    return [x, te.compute((11, 5, 7), lambda k, i, j: doubled[i, j, k] + 1.0, name="moved")]


def mean():
    """300 values a result: a block of threads each, the last round of them not full."""
    x, k = placeholder("x", 6, 300), te.reduce_axis((0, 300), name="k")
    total = te.compute((6,), lambda i: te.sum(x[i, k], k), name="total")
    return [x, te.compute((6,), lambda i: total[i] / 300.0, name="mean")]


def windows():
    """Few values a result: a thread each."""
    x = placeholder("x", 3, 19)
    r = te.reduce_axis((0, 3), name="r")
    return [x, te.compute((3, 9), lambda i, j: te.max(x[i, 2 * j + r], r), name="windows")]


def whole():
    """One result of all."""
    x = placeholder("x", 40, 40)
    i, j = (te.reduce_axis((0, 40), name=name) for name in "ij")
    return [x, te.compute((), lambda: te.sum(x[i, j], [i, j]), name="whole")]


def dense():
    data, weight = placeholder("x", 3, 130), placeholder("w", 9, 130)
    bias, residual = placeholder("b", 9), placeholder("r", 3, 9)
    return [data, weight, bias, residual, dense_rows(data, weight, bias, residual,
                                                     epilogue=EPILOGUE)]  # fmt: skip


def normalised():
    """Two reductions that follow each other: a kernel each, and one for the result."""
    x = placeholder("x", 4, 200)
    k, m = te.reduce_axis((0, 200), name="k"), te.reduce_axis((0, 200), name="m")
    top = te.compute((4,), lambda i: te.max(x[i, k], k), name="top")
    power = te.compute((4,), lambda i: te.sum((x[i, m] - top[i]) * x[i, m], m), name="power")
    return [x, te.compute((4, 200), lambda i, j: x[i, j] / power[i], name="normalised")]


def largest():
    """A maximum that a block of threads shares."""
    x, k = placeholder("x", 4, 300), te.reduce_axis((0, 300), name="k")
    return [x, te.compute((4,), lambda i: te.max(x[i, k], k), name="largest")]


def positions():
    """A reduction with two results, an element and its position, that a block shares."""
    x = placeholder("x", 4, 300)
    found = topi.argmax(x, 1)
    return [x, te.compute((4,), lambda i: found[i].astype("float32"), name="positions")]


def padded():
    """A consumer of sums that also has values without a sum."""
    x, k = placeholder("x", 4, 200), te.reduce_axis((0, 200), name="k")
    total = te.compute((4,), lambda i: te.sum(x[i, k] * x[i, k], k), name="total")
    share = te.compute(x.shape, lambda i, j: x[i, j] / total[i], name="share")

    def around(i, j):
        inside = tirx.all(i < 4, j >= 1, j < 201)
        return tirx.if_then_else(inside, share[i, j - 1], 0.0)

    return [x, te.compute((6, 203), around, name="padded")]


FUNCTIONS = (transposed, mean, windows, whole, dense, normalised, largest, positions, padded)


def result_of(name: str, x, *rest) -> np.ndarray:
    x, *rest = (value.astype("float64") for value in (x, *rest))
    if name == "transposed":
        return x.transpose(2, 0, 1) * 2 + 1
    if name == "mean":
        return x.mean(1)
    if name == "windows":
        return np.stack([x[:, n : n + 17 : 2] for n in range(3)]).max(0)
    if name == "whole":
        return x.sum()
    if name == "dense":
        weight, bias, residual = rest
        return np.maximum(x @ weight.T + bias + residual, 0)
    if name == "largest":
        return x.max(1)
    if name == "positions":
        return x.argmax(1)
    if name == "padded":
        return np.pad(x / (x * x).sum(1, keepdims=True), ((0, 2), (1, 2)))
    top = x.max(1, keepdims=True)
    return x / ((x - top) * x).sum(1, keepdims=True)


@cache
def kernels() -> SimpleNamespace:
    """All functions as one source, with the shapes of their parameters."""
    functions = {
        make.__name__: te.create_prim_func(make()).with_attr("global_symbol", make.__name__)
        for make in FUNCTIONS
    }
    module = schedule_module(ir.IRModule(functions), SM_90)
    shapes = {
        str(var.name_hint): [tuple(int(n) for n in p.shape) for p in func.params]
        for var, func in module.functions_items()
    }
    code = cuda_code(module, SM_90)
    return SimpleNamespace(code=code, shapes=shapes, module=EmulatedModule(code.source))


def run(name: str, *given: np.ndarray) -> np.ndarray:
    made = kernels()
    rest = made.shapes[name][len(given) :]
    buffers = [*given, *(np.full(shape, np.nan, "float32") for shape in rest)]
    for launch in made.code.launches[name]:
        arguments = [buffers[place] for place in launch.arguments]
        made.module.run(launch.kernel, launch.grid, launch.block, arguments)
    return buffers[len(given)]


def operands(name: str) -> list[np.ndarray]:
    generator, count = np.random.default_rng(1), {"dense": 4}.get(name, 1)
    return [generator.standard_normal(s, "float32") for s in kernels().shapes[name][:count]]


@needs_emulator
@pytest.mark.parametrize("name", [make.__name__ for make in FUNCTIONS])
def test_results_are_right(name):
    given = operands(name)
    right = result_of(name, *given)
    assert np.abs(run(name, *given) - right).max() <= 3e-6 * np.abs(right).max()


@needs_emulator
def test_maxima_keep_nan():
    (x,) = operands("windows")
    x[1, 4] = np.nan
    assert np.array_equal(np.isnan(run("windows", x)), np.isnan(result_of("windows", x)))


@needs_emulator
@pytest.mark.parametrize("name", ["windows", "largest"])
def test_maxima_of_minus_infinity_are_it(name):
    (x,) = operands(name)
    x[1] = -np.inf
    assert np.array_equal(run(name, x), result_of(name, x))


@needs_emulator
def test_names_of_tensors_and_float64_infinities_are_cuda():
    """Exporters write such names; the maximum starts at minus infinity."""
    x, k = te.placeholder((4, 6), "float64", name="/1/x y"), te.reduce_axis((0, 6), name="k")
    largest = te.compute((4,), lambda i: te.max(x[i, k], k), name="2.z")
    function = te.create_prim_func([x, largest]).with_attr("global_symbol", "named")
    code = cuda_code(schedule_module(ir.IRModule({"named": function}), SM_90), SM_90)
    given, found = np.random.default_rng(2).standard_normal((4, 6)), np.full(4, np.nan)
    given[1] = -np.inf
    (launch,) = code.launches["named"]
    module = EmulatedModule(code.source)
    module.run(launch.kernel, launch.grid, launch.block, [given, found])
    assert np.array_equal(found, given.max(1))


@needs_emulator
def test_reductions_of_one_function_are_kernels_that_meet_in_the_arena():
    code = kernels().code
    assert len(code.launches["normalised"]) == 3
    assert len(kernels().shapes["normalised"]) == 4
    for name in ("mean", "dense", "windows", "whole", "positions"):
        assert len(code.launches[name]) == 1, name


@needs_emulator
def test_no_kernel_has_fewer_threads_than_a_warp():
    for launches in kernels().code.launches.values():
        for launch in launches:
            assert launch.threads >= SM_90.warp


def test_threads_share_a_sum_where_results_do_not_fill_the_gpu():
    many = SM_90.multiprocessors * SM_90.threads
    assert threads_of_sum(many, 4096, SM_90) == 1
    assert threads_of_sum(1000, 9, SM_90) == 1
    assert threads_of_sum(2048, 49, SM_90) == SM_90.warp
    assert threads_of_sum(10, 4096, SM_90) == 256
