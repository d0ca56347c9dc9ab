"""Kernel elements by tables: the reads of a slice, their threads, and limits of a table."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.cuda import SM_90, check_kernel, default_kernel, source_of
from tests.tir.rewrites import barrier, check, check_same, pointer
from tvmconv.tir.cuda.tap_tables import TABLES, ZEROS, TapTables, definitions

TILE = {"m": 64, "p": 64, "k": 8, "slice": "channels", "split": 1, "pipeline": "double"}
ROWS = re.compile(r"static __constant__ const int2 (\w+)\[\] = \{(.*)\};")


def rows_of(text: str) -> np.ndarray:
    """The table of a source with one: places and bits of all slices but the first."""
    ((_, rows),) = ROWS.findall(text)
    return np.array(re.findall(r"\{(-?\d+), (\d+)\}", rows), int)


def test_a_table_has_the_place_and_the_bit_of_every_tap():
    source = source_of(default_kernel("ic16ih6oc64kh3ph1", "implicit_gemm", SM_90, **TILE))
    rows = rows_of(source.text)
    slices = [(6 * r + s, 288 * part, 3 * r + s) for r, s, part in np.ndindex(3, 3, 2)][1:]
    assert np.array_equal(np.diff(rows[:, 0]), np.diff([tap + first for tap, first, _ in slices]))
    bits = [bit for _, _, bit in slices]
    # numbered in order; the first slice of the first kernel element is before the loop
    assert rows[:, 1].tolist() == [1 << bit for bit in bits]
    # 8 channels of 36 pixels, from the first to one after the last
    assert re.search(rf"tvmconv_zeros\[{7 * 36 + 1}\]", source.text)


@pytest.mark.parametrize(
    ("problem", "knobs"),
    [
        ("mb2ic16ih6oc20kh3ph1+bias", {"m": 32, "split": 6}),
        ("g2ic32ih7oc40kh5ph2pw1sh2+relu", {"split": 5}),
        ("ic16id5ih6oc8kd3kh3ph1pd1", {}),
        ("ic8ih9oc16kh3ph2dh1", {"m": 96}),
        ("ic16ih7oc16kh3ph1", {"m": 128, "p": 128, "k": 16}),
    ],
)
def test_results_are_those_of_tests_in_every_slice(problem, knobs):
    kernel = check_kernel(problem, "implicit_gemm", **{**TILE, **knobs})
    assert "tvmconv_tap" in source_of(kernel).text
    assert kernel.expression.slices(kernel.workload, kernel.config).by_table


@pytest.mark.parametrize(
    ("problem", "knobs"),
    [
        # nothing is outside; the last slice of a tap has fewer values; 49 taps; rows of a window
        ("ic16ih6oc20kh3", {}),
        ("ic12ih6oc20kh3ph1", {}),
        ("ic8ih9oc20kh7ph3", {}),
        ("ic8ih9oc20kh3ph1", {"k": 24, "slice": "row"}),
        # zeros of 8 planes would be more than 2 MiB
        ("ic8ih300oc20kh3ph1", {}),
    ],
)
def test_others_are_left(problem, knobs):
    kernel = default_kernel(problem, "implicit_gemm", SM_90, **{**TILE, **knobs})
    assert "tvmconv_tap" not in source_of(kernel).text
    assert not kernel.expression.slices(kernel.workload, kernel.config).by_table


def test_tables_beyond_constant_memory_are_in_global_memory():
    kernels = [
        SimpleNamespace(attrs={TABLES: {f"taps_{n}": ", ".join(["{0, 1}"] * 4000)}, ZEROS: n})
        for n in (7, 9)
    ]
    text = definitions([*kernels, SimpleNamespace(attrs=None)])
    assert re.findall(r"static __(\w+)__ const int2 (\w+)", text) == [
        ("constant", "taps_7"),
        ("device", "taps_9"),
    ]
    assert "tvmconv_zeros[9]" in text
    assert definitions([]) == ""


def _slices(outside: float = 0.0) -> Any:
    """Three elements of a padded window, one a slice."""

    @T.prim_func(s_tir=True)
    def conv(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "conv"})
        with T.launch_thread("threadIdx.x", 64) as t:
            s = T.alloc_buffer((64,), scope="shared")
            a = T.alloc_buffer((1,), scope="local")
            for v in range(3):
                T.evaluate(barrier())
                s[t] = T.if_then_else(t + v >= 1 and t + v < 65, x[t + v - 1], T.float32(outside))
                T.evaluate(barrier())
                a[0] = a[0] + s[63 - t] * T.float32(2)
            y[t] = a[0]

    return conv


def test_each_slice_has_a_row_and_each_form_of_its_test_a_bit():
    @T.prim_func(s_tir=True)
    def conv(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        T.func_attr(
            {
                "global_symbol": "conv",
                TABLES: {"conv_taps_0": "{-1, 1}, {0, 2}, {1, 4}"},
                ZEROS: 1,
            }
        )
        with T.launch_thread("threadIdx.x", 64) as t:
            s = T.alloc_buffer((64,), scope="shared")
            a = T.alloc_buffer((1,), scope="local")
            inside = T.alloc_buffer((1,), "int32", scope="local")
            inside[0] = (
                T.bitwise_or(0, T.Select(tirx.LE(1, t), 1, 0))
                | T.Select(T.bool(True), 2, 0)
                | T.Select(t < 63, 4, 0)
            )
            for v in range(3):
                view = T.decl_buffer(
                    (64,),
                    data=pointer(
                        "tvmconv_tap<conv_taps_0, tvmconv_zeros, false>", x.data, t, inside[0], v
                    ),
                )
                T.evaluate(barrier())
                s[t] = view[0]
                T.evaluate(barrier())
                a[0] = a[0] + s[63 - t] * T.float32(2)
            y[t] = a[0]

    check(TapTables(), _slices(), conv)


def test_values_other_than_zero_outside_stay():
    check_same(TapTables(), _slices(1.0))
