"""The counted workspace, and that TVM takes the same from its pool."""

from __future__ import annotations

import pytest
from tvm.script import tirx as T

from tests.assembly import assembly
from tests.kernels import V3
from tests.tir.rewrites import check_same
from tvmconv.tir.general.record_workspace import RecordWorkspace, recorded
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.pipeline import compile_function


def scratch(size, dtype="float32"):
    """A function that reverses its input by way of a buffer."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((size,), dtype), y: T.Buffer((size,), dtype)):
        through = T.alloc_buffer((size,), dtype)
        for i in range(size):
            through[i] = x[i] + x[size - 1 - i]
        for i in range(size):
            y[i] = through[size - 1 - i] * through[i]

    return main


@pytest.mark.parametrize(
    ("size", "dtype", "pooled"),
    [
        (255, "float32", 0),
        (256, "float32", 1024),
        (257, "float32", 1088),  # in whole units of 64 bytes
        (127, "float64", 0),
        (1023, "int8", 0),
    ],
)
def test_the_count_is_what_comes_from_the_pool(size, dtype, pooled):
    with recorded() as sizes:
        code = compile_function(scratch(size, dtype), V3)
    assert sum(sizes.values()) == pooled
    assert assembly(code).has("AllocWorkspace") == bool(pooled)


def test_recording_changes_nothing():
    func = scratch(512)
    with recorded() as sizes:
        check_same(RecordWorkspace(), func)
    assert dict(sizes) == {"main": 2048}


def test_nothing_is_recorded_outside():
    with recorded() as sizes:
        pass
    transformed(scratch(512), RecordWorkspace())
    assert not sizes
