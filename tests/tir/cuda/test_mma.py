"""Kernels for tensor cores as source: the pass that gives lanes their registers, and the calls."""

from __future__ import annotations

import re

import pytest
import tvm
from tvm.script import tirx as T

from tests.cuda import SM_90, Source, default_kernel, run_kernel, source_of
from tests.tir.rewrites import check, check_same, mma
from tvmconv.algorithms.cuda.precision import PRECISIONS
from tvmconv.core.errors import ArtifactError
from tvmconv.costs.cuda.mma import resident_blocks
from tvmconv.tir.cuda.mma import DEFINITIONS, Fragments, MmaCalls

BARRIER = "__syncthreads();"
PROBLEM = "ic16ih9oc32kh3ph1+bias+relu"
SMALL = {"m": 32, "p": 64, "wm": 32, "wp": 32, "k": 16, "slice": "channels", "split": 1}


def text_of(precision: str, pipeline: str = "double") -> str:
    knobs = {**SMALL, "precision": precision, "pipeline": pipeline}
    return source_of(default_kernel(PROBLEM, "implicit_gemm_mma", SM_90, **knobs)).text


@pytest.mark.parametrize("precision", PRECISIONS)
def test_lanes_have_registers_of_their_own(precision):
    text = text_of(precision)
    arrays = dict(re.findall(r"(\w*warp\w*)\[(\d+)\];", text))
    # 32x32 sums of 32 lanes, two fragments of four dwords and four of two
    sizes = {re.sub(r"(_ptr)?(_\d+)?$", "", name): int(size) for name, size in arrays.items()}
    assert sizes == {"conv2d_warp": 32, "weight_shared_warp": 8, "columns_shared_warp": 8}
    # an index by the lane would make memory of registers
    assert not re.search(r"warp\w*\[[^\]]*threadIdx", text)


def test_what_all_lanes_do_together_stays_where_it_is():
    """A compiler may move other assembly to where its results are used, which some lanes skip."""
    together = [line for line in DEFINITIONS.splitlines() if ".sync" in line]
    assert len(together) == len(PRECISIONS)
    assert all(line.strip().startswith("asm volatile(") for line in together)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_products_are_calls_by_name(precision):
    kernel = text_of(precision).split('extern "C"')[-1]
    assert f"tvmconv_mma_{precision}((&(conv2d_warp_ptr[" in kernel
    assert "asm" not in kernel


def test_padding_is_a_predicate_in_kernels_for_tensor_cores_alone():
    kernel = text_of("fp16").split('extern "C"')[-1]
    assert "tvmconv_guarded((&(data_ptr[" in kernel
    assert "condval" not in kernel
    plain = default_kernel(PROBLEM, "implicit_gemm", SM_90, m=32, p=64, k=8, slice="channels")
    text = source_of(plain).text
    assert "tvmconv_guarded" not in text
    assert "mma.sync" not in text
    assert "condval" in text


def test_launch_bounds_are_the_blocks_that_the_schedule_counts():
    config = {**SMALL, "precision": "tf32", "pipeline": "double"}
    text = source_of(default_kernel(PROBLEM, "implicit_gemm_mma", SM_90, **config)).text
    kernel = default_kernel(PROBLEM, "implicit_gemm_mma", SM_90, **config)
    blocks = resident_blocks(kernel.workload, SM_90, kernel.config)
    assert f"__launch_bounds__(64, {blocks}) main_kernel(" in text


@pytest.mark.parametrize(("pipeline", "count"), [("double", 3), ("single", 3)])
def test_every_barrier_that_is_left_is_needed(pipeline, count):
    """Mutations: two warps, of which one runs ahead of the other in either order."""
    knobs = {**SMALL, "precision": "tf32", "k": 8, "pipeline": pipeline}
    kernel = default_kernel("ic16ih5oc24kh2", "implicit_gemm_mma", SM_90, **knobs)
    whole = source_of(kernel)
    parts = whole.text.split(BARRIER)
    assert len(parts) == count + 1
    for lost in range(count):
        kept = [BARRIER] * count
        kept[lost] = ""
        text = "".join(part + end for part, end in zip(parts, [*kept, ""], strict=True))
        with pytest.raises(ArtifactError, match="depend on the order of threads"):
            run_kernel(kernel, Source(text, whole.launches, whole.shapes))


def test_fragments_are_arrays_of_a_lane():
    @T.prim_func(private=True, s_tir=True)
    def before(y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((64,), scope="warp")
        with T.launch_thread("threadIdx.x", 32) as t:
            a[t * 2] = T.float32(0)
            a[t * 2 + 1] = T.float32(1)
            y[t] = a[t * 2 + 1]

    @T.prim_func(private=True, s_tir=True)
    def expected(y: T.Buffer((64,), "float32")):
        a = T.alloc_buffer((2,), scope="local")
        with T.launch_thread("threadIdx.x", 32) as t:
            a[0] = T.float32(0)
            a[1] = T.float32(1)
            y[t] = a[1]

    target = tvm.target.Target(SM_90.tvm_target())
    check(Fragments(), before.with_attr("target", target), expected.with_attr("target", target))


def test_a_product_becomes_a_call_with_its_accumulators_first():
    @T.prim_func(private=True, s_tir=True)
    def before(y: T.Buffer((1,), "float32")):
        a = T.alloc_buffer((4,), scope="local")
        b = T.alloc_buffer((2,), scope="local")
        c = T.alloc_buffer((4,), scope="local")
        T.evaluate(mma(c, a, b))
        y[0] = c[0]

    @T.prim_func(private=True, s_tir=True)
    def expected(y: T.Buffer((1,), "float32")):
        a = T.alloc_buffer((4,), scope="local")
        b = T.alloc_buffer((2,), scope="local")
        c = T.alloc_buffer((4,), scope="local")
        T.evaluate(
            T.call_extern(
                "void",
                "tvmconv_mma_tf32",
                T.address_of(c[0]),
                T.address_of(a[0]),
                T.address_of(b[0]),
            )
        )
        y[0] = c[0]

    check(MmaCalls(), before, expected)
    check_same(MmaCalls(), expected)
