"""Vectors loaded as two parts of 64 bits."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.neon.inorder_assembly import Sum, assembly
from tvmconv.tir.neon.inorder_functions import IMPORTED, loaded
from tvmconv.tir.neon.inorder_half_loads import InorderHalfLoads


def lane(x: Any, place: Any, number: int) -> Any:
    """A lane of a vector, in all lanes."""
    return tirx.Shuffle([tirx.BufferLoad(x, [tirx.Ramp(place, 1, 4)])], [number] * 4)


@T.prim_func(private=True, s_tir=True)
def before(x: T.Buffer((16,), "float32"), w: T.Buffer((16,), "float32")):
    s = T.alloc_buffer((2,), "float32x4", scope="local")
    for i in range(2):
        s[0] = s[0] + w[T.Ramp(i * 4, 1, 4)] * lane(x, i * 4, 0)
        s[1] = s[1] + w[T.Ramp(i * 4, 1, 4)] * lane(x, i * 4, 1)
        s[0] = s[0] + w[T.Ramp(i * 4 + 8, 1, 4)] * lane(x, i * 4, 2)
        s[1] = s[1] + w[T.Ramp(i * 4 + 8, 1, 4)] * lane(x, i * 4, 3)
        s[0] = s[0] + w[T.Ramp(i * 4, 1, 4)] * lane(x, i * 4, 2)
        s[1] = s[1] + w[T.Ramp(i * 4, 1, 4)] * lane(x, i * 4, 3)
        s[0] = s[0] + w[T.Ramp(i * 4 + 8, 1, 4)] * lane(x, i * 4, 0)
        s[1] = s[1] + w[T.Ramp(i * 4 + 8, 1, 4)] * lane(x, i * 4, 1)
        s[0] = s[0] + w[T.Ramp(i * 4, 1, 4)] * lane(x, i * 4, 3)


def importing(func: Any, *texts: str) -> Any:
    """A function with the text of the functions of LLVM that it calls."""
    text = tvm.ir.StringImm("\n".join([IMPORTED, *texts]))
    return func.with_body(tirx.AttrStmt("default", "pragma_import_llvm", text, func.body))


def test_each_vector_is_loaded_before_its_first_use():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((16,), "float32"), w: T.Buffer((16,), "float32")):
        s = T.alloc_buffer((2,), "float32x4", scope="local")
        for i in range(2):
            v = T.alloc_buffer(
                (3,), "float32x4", scope="local", annotations={"disable_lower_builtin": True}
            )
            v[0] = loaded(T.address_of(w[i * 4]), 0)
            v[1] = loaded(T.address_of(x[i * 4]), 0)
            s[0] = s[0] + v[0] * T.Shuffle([v[1]], [0, 0, 0, 0])
            v[2] = loaded(T.address_of(w[i * 4]), 32)
            s[1] = s[1] + v[0] * T.Shuffle([v[1]], [1, 1, 1, 1])
            s[0] = s[0] + v[2] * T.Shuffle([v[1]], [2, 2, 2, 2])
            s[1] = s[1] + v[2] * T.Shuffle([v[1]], [3, 3, 3, 3])
            s[0] = s[0] + v[0] * T.Shuffle([v[1]], [2, 2, 2, 2])
            s[1] = s[1] + v[0] * T.Shuffle([v[1]], [3, 3, 3, 3])
            s[0] = s[0] + v[2] * T.Shuffle([v[1]], [0, 0, 0, 0])
            s[1] = s[1] + v[2] * T.Shuffle([v[1]], [1, 1, 1, 1])
            s[0] = s[0] + v[0] * T.Shuffle([v[1]], [3, 3, 3, 3])

    check(InorderHalfLoads(False), before, importing(expected))


def test_ordered_loads_and_sums_are_one_piece_of_assembly():
    # by number: the weights' first vector, the data, the weights' second vector
    factors = [(0, 0), (0, 1), (2, 2), (2, 3), (0, 2), (0, 3), (2, 0), (2, 1), (0, 3)]
    sums = [Sum(number % 2, factor, 1, lane) for number, (factor, lane) in enumerate(factors)]
    name, text = assembly(sums, [(0, 0), (1, 0), (0, 32)], 2) or ("", "")

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((16,), "float32"), w: T.Buffer((16,), "float32")):
        s = T.alloc_buffer((2,), "float32x4", scope="local")
        for i in range(2):
            T.evaluate(
                T.call_extern(
                    "int32",
                    name,
                    T.address_of(s[0]),
                    T.address_of(w[i * 4]),
                    T.address_of(x[i * 4]),
                )
            )

    check(InorderHalfLoads(True), before, importing(expected, text))


@pytest.mark.parametrize("ordered", [False, True])
def test_too_few_sums_for_each_vector_stay(ordered: bool):
    @T.prim_func(private=True, s_tir=True)
    def few(x: T.Buffer((8,), "float32"), w: T.Buffer((8,), "float32")):
        s = T.alloc_buffer((2,), "float32x4", scope="local")
        s[0] = s[0] + w[T.Ramp(0, 1, 4)] * lane(x, 0, 0)
        s[1] = s[1] + w[T.Ramp(4, 1, 4)] * lane(x, 0, 1)

    check_same(InorderHalfLoads(ordered), few)
