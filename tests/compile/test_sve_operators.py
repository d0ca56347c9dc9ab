"""Operators other than convolutions by scalable vectors, called under qemu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te

from tests.assembly import (
    SVE_FRAME,
    SVE_GATHER,
    SVE_LANE,
    SVE_LOAD,
    Assembly,
    assembly,
    matching,
    spills,
)
from tests.compile.test_sve import SCALABLE
from tests.emulating import needs_arm, run_functions, vectors_of
from tests.operators.harness import normal
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.rules import schedule_function
from tvmconv.machines.presets import MACHINES
from tvmconv.operators.pool import PoolWindow, avg_pool, max_pool
from tvmconv.operators.softmax import log_softmax, softmax
from tvmconv.tir.general.record_vector_code import recorded_code
from tvmconv.tir.pipeline import compile_function

LENGTHS = (128, 256, 512, 2048)
IMAGE = (2, 3, 13, 17, 4)


@dataclass(frozen=True)
class Case:
    """An operator, what it reads, and what it should compute, in float64."""

    expression: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    expected: np.ndarray

    def function(self, machine: Any) -> Any:
        """The scheduled function."""
        inputs = [te.placeholder(a.shape, name=f"x{i}") for i, a in enumerate(self.arrays)]
        func = te.create_prim_func([*inputs, self.expression(*inputs)])
        return schedule_function(func.with_attr("global_symbol", "main"), machine)

    def assembly(self, machine: Any) -> Assembly:
        """The code."""
        return assembly(compile_function(self.function(machine), machine))


def pooled(
    kind: str, rows: PoolWindow, columns: PoolWindow, shape: tuple[int, ...] = IMAGE
) -> Case:
    x = normal(*shape)
    pool = max_pool if kind == "max" else avg_pool
    result = np.zeros((*shape[:2], rows.output(shape[2]), columns.output(shape[3]), 4))
    for h, w in np.ndindex(*result.shape[2:4]):
        ys, xs = (
            [p for k in range(axis.kernel) if 0 <= (p := int(axis.tap(at, k))) < size]
            for axis, at, size in ((rows, h, shape[2]), (columns, w, shape[3]))
        )
        taps = x.astype("float64")[:, :, ys][:, :, :, xs]
        result[:, :, h, w] = taps.max((2, 3)) if kind == "max" else taps.mean((2, 3))
    return Case(lambda data: pool(data, rows, columns), (x,), result)


@dataclass(frozen=True)
class Connected(Case):
    """A fully connected layer."""

    workload: Conv2dWorkload

    def function(self, machine: Any) -> Any:
        """The scheduled function."""
        return make_kernel(self.workload, machine, "dense").prim_func()


def connected(rows: int, inputs: int, outputs: int, machine: Any = SCALABLE) -> Case:
    workload = Conv2dWorkload.parse(f"mb{rows}ic{inputs}ih1oc{outputs}kh1:nc")
    data, weight = normal(rows, inputs), normal(inputs, outputs, seed=1)
    packed = make_kernel(workload, machine, "dense").pack_weight(weight.T[:, :, None, None])
    product = data.astype("float64") @ weight
    return Connected(lambda *_: None, (data, packed), product, workload)


def check(cases: list[Case], folder: Path) -> None:
    functions = [case.function(SCALABLE) for case in cases]
    operands = [[*case.arrays, np.full(case.expected.shape, np.nan, np.float32)] for case in cases]
    for results in run_functions(functions, operands, SCALABLE, folder, *map(vectors_of, LENGTHS)):
        for case, result in zip(cases, results, strict=True):
            scale = np.abs(case.expected).max()
            assert np.abs(result - case.expected).max() <= 2e-6 * scale


def exponentials(logarithm: bool, *shape: int) -> Case:
    x = 5 * normal(*shape) - 20
    shifted = x.astype("float64") - x.max(-1, keepdims=True)
    total = np.exp(shifted).sum(-1, keepdims=True)
    if logarithm:
        return Case(log_softmax, (x,), shifted - np.log(total))
    return Case(softmax, (x,), np.exp(shifted) / total)


HALVED, SAME = PoolWindow(3, 2, 1, 1), PoolWindow(3, 1, 1, 1)


@needs_arm
def test_pooling_at_every_vector_length(tmp_path: Path) -> None:
    windows = (
        # clamped and divided by lanes; without padding; more taps than are written out; with gaps
        (HALVED, HALVED),
        (PoolWindow(2, 2), PoolWindow(2, 2)),
        (SAME, SAME),
        (PoolWindow(7, 1, 3, 3), PoolWindow(6, 2, 1, 1)),
        (PoolWindow(3, 1, 1, 1, dilation=2), PoolWindow(3, 2, 2, 2, dilation=2)),
        (SAME, PoolWindow(3, 3, 1, 1, ceil_mode=True)),
    )
    cases = [pooled(kind, *pair) for kind in ("max", "avg") for pair in windows]
    # rows of a tile that share what they read
    shared = ((HALVED, HALVED), (SAME, SAME), (PoolWindow(3, 1), PoolWindow(3, 2)))
    for kind in ("max", "avg"):
        cases += [pooled(kind, *pair, (2, 3, 16, 35, 4)) for pair in shared]
    check(cases, tmp_path)


@needs_arm
def test_fully_connected_layers_at_every_vector_length(tmp_path: Path) -> None:
    shapes = ((1, 64, 100), (1, 32, 10), (2, 40, 8), (3, 66, 44), (5, 64, 44), (20, 128, 70))
    check([connected(*shape) for shape in shapes], tmp_path)


@needs_arm
def test_softmax_at_every_vector_length(tmp_path: Path) -> None:
    # rows that end inside of vectors, rows shorter than the longest, rows of no whole segments
    shapes = ((3, 1000), (2, 44), (5, 72), (2, 10))
    check([exponentials(log, *shape) for log in (False, True) for shape in shapes], tmp_path)


@pytest.mark.parametrize("name", ["aarch64+sve", "neoverse-v1+sve"])
def test_softmax_keeps_vectors_of_its_sums_and_exponentials(name: str) -> None:
    loops = exponentials(False, 64, 1000).assembly(MACHINES[name]).loops()
    lengthy = [body for body in loops if matching(SVE_LOAD, body)]
    # maximum, exponentials, sum, division
    assert len(lengthy) == 4
    assert all(len(matching(SVE_LOAD, body)) == 4 for body in lengthy)
    assert not any(spills(body) for body in lengthy)


@pytest.mark.parametrize("name", ["aarch64+sve", "neoverse-v1+sve"])
def test_rows_of_a_pooling_tile_gather_what_they_share_once(name: str) -> None:
    code = pooled("max", HALVED, HALVED, (1, 2, 56, 56, 4)).assembly(MACHINES[name])
    body = max(code.loops(), key=lambda loop: len(matching(SVE_GATHER, loop)))
    # nine rows of three columns for four rows of outputs
    assert len(matching(SVE_GATHER, body)) == 27
    assert not code.has(SVE_FRAME)


@pytest.mark.parametrize("name, scalable", [("ftengine", True), ("neoverse-v1+sve", False)])
def test_pooling_without_overlap_is_scalable_if_neon_code_loads_later(
    name: str, scalable: bool
) -> None:
    """Neoverse V1 starts three NEON loads in a cycle."""
    two = PoolWindow(2, 2)
    with recorded_code() as codes:
        pooled("max", two, two, (1, 2, 56, 56, 4)).assembly(MACHINES[name])
    assert ("SVE" in codes["main"]) == scalable


@pytest.mark.parametrize("name", ["aarch64+sve", "neoverse-v1+sve"])
@pytest.mark.parametrize("rows, sums", [(1, 8), (3, 12), (10, 20), (64, 16)])
def test_fully_connected_layers_multiply_by_lanes_without_spills(
    name: str, rows: int, sums: int
) -> None:
    machine = MACHINES[name]
    body = connected(rows, 256, 512, machine).assembly(machine).hot_loop(SVE_LANE)
    assert len(matching(SVE_LANE, body)) == 4 * sums
    assert not spills(body)
