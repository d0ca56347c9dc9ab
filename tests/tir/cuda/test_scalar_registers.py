"""Arrays of a GPU's thread as variables: rewritten ones, and unchanged ones."""

from __future__ import annotations

import re

from tvm.script import tirx as T

from tests.cuda import SM_90, default_kernel, run_kernel, source_of
from tests.tir.rewrites import check, check_same
from tvmconv.tir.cuda.scalar_registers import ScalarRegisters


def test_loads_and_stores_of_constant_places_are_of_variables():
    @T.prim_func(private=True, s_tir=True)
    def given(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        a = T.alloc_local((8,))
        a[T.Ramp(0, 1, 4)] = x[T.Ramp(2, 1, 4)]
        for i in range(3):
            a[7] = a[0] * a[3] + x[i]
        y[T.Ramp(4, 1, 4)] = a[T.Ramp(4, 1, 4)]

    @T.prim_func(private=True, s_tir=True)
    def made(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        a_0 = T.alloc_local((1,))
        a_1 = T.alloc_local((1,))
        a_2 = T.alloc_local((1,))
        a_3 = T.alloc_local((1,))
        a_4 = T.alloc_local((1,))
        a_5 = T.alloc_local((1,))
        a_6 = T.alloc_local((1,))
        a_7 = T.alloc_local((1,))
        whole: T.let[T.float32x4] = x[T.Ramp(2, 1, 4)]
        a_0[0] = T.Shuffle([whole], [0])
        a_1[0] = T.Shuffle([whole], [1])
        a_2[0] = T.Shuffle([whole], [2])
        a_3[0] = T.Shuffle([whole], [3])
        for i in range(3):
            a_7[0] = a_0[0] * a_3[0] + x[i]
        y[T.Ramp(4, 1, 4)] = T.Shuffle([a_4[0], a_5[0], a_6[0], a_7[0]], [0, 1, 2, 3])

    check(ScalarRegisters(), given, made)


def test_what_loops_index_or_others_are_given_stays_an_array():
    @T.prim_func(private=True, s_tir=True)
    def indexed(x: T.Buffer((8,), "float32")):
        a = T.alloc_local((8,))
        for i in range(8):
            a[i] = x[i]
        x[0] = a[3]

    @T.prim_func(private=True, s_tir=True)
    def named(x: T.Buffer((8,), "float32")):
        a = T.alloc_local((8,))
        a[0] = x[0]
        T.evaluate(T.call_extern("int32", "f", T.address_of(a[0])))

    @T.prim_func(private=True, s_tir=True)
    def shared(x: T.Buffer((8,), "float32")):
        a = T.alloc_shared((8,))
        a[0] = x[0]
        x[1] = a[0]

    @T.prim_func(private=True, s_tir=True)
    def large(x: T.Buffer((256,), "float32")):
        with T.launch_thread("threadIdx.x", 256) as thread:
            a = T.alloc_local((8,))
            a[0] = x[thread]
            x[thread] = a[0]

    for func in (indexed, named, shared, large):
        check_same(ScalarRegisters(), func)


def test_tiles_have_no_array_of_sums_and_compute_the_same():
    tile = {"m": 64, "p": 64, "k": 8, "slice": "channels", "split": 1, "pipeline": "double"}
    kernel = default_kernel("ic16ih8oc64kh1+bias+add", "implicit_gemm", SM_90, **tile)
    text = source_of(kernel).text
    arrays = re.findall(r"float (\w+)\[(\d+)\];", text.replace("__shared__", ""))
    # loops that nvcc unrolls index the remaining arrays
    for name, size in arrays:
        assert size == "1" or re.search(rf"\b{name}\[[a-z(]", text), name
    actual, expected = run_kernel(kernel)
    assert abs(actual - expected).max() <= 1e-5 * abs(expected).max()
