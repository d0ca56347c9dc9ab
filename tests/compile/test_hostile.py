"""The hostile caller finds what kernels must not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm.script import tirx as T

from tests.emulating import HOSTILE, needs_arm, run_functions
from tvmconv.core.errors import ArtifactError
from tvmconv.machines.arm import MACHINES

TASKS, SIZE = 8, 512


def scratch_kernel(read: int = 0, write: int = 0, kept: int = 0) -> Any:
    """Doubles ``x`` by way of scratch memory.

    Parameters
    ----------
    read, write
        By how much indices of the input and of the output are off.
    kept
        How many elements of scratch memory are read without having been written.
    """

    @T.prim_func(private=True, s_tir=True)
    def main(x: T.Buffer((TASKS, SIZE), "float32"), y: T.Buffer((TASKS, SIZE), "float32")):
        for task in T.parallel(TASKS):
            memory = T.alloc_buffer((SIZE,), "float32")
            for k in range(SIZE - kept):
                memory[k] = x[task, k + read] * T.float32(2)
            for k in range(SIZE):
                y[task, k + write] = memory[k]

    return main


@T.prim_func(private=True, s_tir=True)
def reads_output(x: T.Buffer((TASKS, SIZE), "float32"), y: T.Buffer((TASKS, SIZE), "float32")):
    for task in T.parallel(TASKS):
        for k in range(SIZE):
            y[task, k] = T.if_then_else(x[task, k] > T.float32(3), y[task, k], x[task, k])


def call(function: Any, folder: Path) -> None:
    x = np.random.default_rng(1).standard_normal((TASKS, SIZE)).astype("float32")
    operands = [[x, np.zeros_like(x)]]
    machine = MACHINES["aarch64"].with_cores(2)
    ((actual,),) = run_functions([function], operands, machine, folder, (), caller=HOSTILE)
    np.testing.assert_array_equal(actual, 2 * x)


@needs_arm
def test_what_is_sound_passes(tmp_path: Path) -> None:
    call(scratch_kernel(), tmp_path)


@needs_arm
@pytest.mark.parametrize(
    ("function", "said"),
    [
        # after the input, and before it in the second run
        (scratch_kernel(read=2), "Segmentation fault"),
        (scratch_kernel(read=-2), "Segmentation fault"),
        (scratch_kernel(write=-1), "Segmentation fault"),
        (scratch_kernel(kept=1), "task .* gives two results"),
        (reads_output, "another result in another run"),
    ],
    ids=["behind", "before", "writes before", "scratch memory", "output"],
)
def test_what_is_not_is_found(function: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=said):
        call(function, tmp_path)


@needs_arm
def test_tasks_that_write_the_same_are_found(tmp_path: Path) -> None:
    @T.prim_func(private=True, s_tir=True)
    def main(x: T.Buffer((TASKS, SIZE), "float32"), y: T.Buffer((TASKS, SIZE), "float32")):
        for task in T.parallel(TASKS):
            for k in range(SIZE + T.if_then_else(task < TASKS - 1, 1, 0)):
                y[task, k] = x[task, k] * T.float32(2)

    with pytest.raises(ArtifactError, match=r"tasks \d+ and \d+ of \d+ write byte"):
        call(main, tmp_path)
