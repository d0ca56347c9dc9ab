"""Which buffers are kept on the stack."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.stack_buffers import StackBuffers


def test_a_local_buffer_is_allocated_on_the_stack():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):
        tile = T.alloc_buffer((4096,), "float32", scope="local")
        tile[0] = x[0]
        y[0] = tile[0]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):
        tile = T.alloc_buffer(
            (4096,), "float32", scope="local", annotations={"disable_lower_builtin": T.bool(True)}
        )
        tile[0] = x[0]
        y[0] = tile[0]

    check(StackBuffers(), before, expected)


def test_more_than_16_kib_stay_in_the_pool():
    @T.prim_func(private=True, s_tir=True)
    def large(x: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32")):
        tile = T.alloc_buffer((4097,), "float32", scope="local")
        tile[0] = x[0]
        y[0] = tile[0]

    check_same(StackBuffers(), large)


def test_bytes_count_not_elements():
    @T.prim_func(private=True, s_tir=True)
    def doubles(x: T.Buffer((1,), "float64"), y: T.Buffer((1,), "float64")):
        tile = T.alloc_buffer((2049,), "float64", scope="local")
        tile[0] = x[0]
        y[0] = tile[0]

    check_same(StackBuffers(), doubles)


def test_other_scopes_stay_in_the_pool():
    @T.prim_func(private=True, s_tir=True)
    def scratch(x: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32")):
        pack = T.alloc_buffer((512,), "float32")
        pack[0] = x[0]
        y[0] = pack[0]

    check_same(StackBuffers(), scratch)
