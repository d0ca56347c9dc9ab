"""Double buffers in shared memory: which loops toggle between the two."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.cuda import SM_90, default_kernel, run_kernel, source_of
from tests.tir.rewrites import barrier, check, check_same, pointer
from tvmconv.tir.cuda.double_buffers import DoubleBuffers
from tvmconv.tir.general.rewrite import local_buffer

# slices of fewer products go two by two, and do not ask
LAYER = "ic96ih4oc20kh3ph1+bias"
TILE = {"m": 32, "p": 64, "k": 32, "slice": "channels", "split": 1, "pipeline": "double"}


def kernel_of(**knobs: object):
    return default_kernel(LAYER, "implicit_gemm", SM_90, **{**TILE, **knobs})


def test_both_operands_step_where_they_are_read_and_written():
    kernel = kernel_of()
    text = source_of(kernel).text
    # weights of 32 rows and columns of 64 pixels, half buffers of 32 values of 4 bytes
    steps = re.findall(r"places_ptr\[(\d)\] = \(places_ptr\[\1\] \^ (\d+)\);", text)
    assert sorted(int(half) for _, half in steps) == [4096, 4096, 8192, 8192]
    # nothing else asks whose turn it is
    assert not re.search(r"shared\w*\[[^\]]*& 1\)", text)
    actual, expected = run_kernel(kernel)
    assert abs(actual - expected).max() <= 1e-5 * abs(expected).max()


@pytest.mark.parametrize(
    "knobs",
    [
        # buffers without a power of two; one buffer; 128 registers, and loads that are tested
        {"k": 24},
        {"pipeline": "single"},
        {"m": 128, "p": 128, "k": 16},
    ],
)
def test_others_are_left(knobs):
    assert "tvmconv_turned" not in source_of(kernel_of(**knobs)).text


def _slices(half: int) -> Any:
    """A loop that writes one half of an array in each iteration."""

    @T.prim_func(private=True, s_tir=True)
    def slices(x: T.Buffer((512,), "float32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            s = T.alloc_buffer((256,), scope="shared")
            for v in range(8):
                T.evaluate(barrier())
                s[(v + 1) % 2 * half + t] = x[v * 64 + t]

    return slices


def shared_view(array: Any, place: Any) -> Any:
    """The declaration of an array that begins at a place; T.decl_buffer has no shared ones."""
    view = local_buffer(array.shape, "float32", "view", "shared")
    T.add_to_parent(tirx.DeclBuffer(view, data=pointer("tvmconv_turned", array.data, place)))
    return view


def test_a_place_that_alternates_is_a_variable():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((512,), "float32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            s = T.alloc_buffer((256,), scope="shared")
            places = T.alloc_buffer((1,), "int32", scope="local")
            places[0] = t * 4 + 256
            for v in range(8):
                view = shared_view(s, places[0])
                T.evaluate(barrier())
                view[0] = x[v * 64 + t]
                places[0] = places[0] ^ 256

    check(DoubleBuffers(), _slices(64), expected)


def test_a_half_that_is_not_a_power_of_two_stays():
    check_same(DoubleBuffers(), _slices(96))
