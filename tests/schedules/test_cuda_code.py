"""Machine code of the production tiles for GPUs: what the main loop consists of, and registers.

The bounds are those of nvcc 13.0 less a hundredth; no kernel is executed.
"""

from __future__ import annotations

import re

import pytest

from tests.cuda import SM_90, default_kernel, source_of
from tvmconv.compile.nvcc import compile_cubin, find_nvcc
from tvmconv.compile.sass import find_nvdisasm, main_loops
from tvmconv.core.errors import ArtifactError
from tvmconv.costs.cuda_blocks import WAIT, register_blocks, shared_bytes, tile_of
from tvmconv.costs.cuda_tiles import loop_instructions

CHANNELS = {"slice": "channels", "split": 1, "pipeline": "double"}
STORED = {**CHANNELS, "windows": "stored", "kernel": "tiled", "vector": 4, "micro": 1}
FUSED = {**STORED, "windows": "fused"}
MATRIX = {"split": 1, "pipeline": "double"}
WIDE, FIRST = "mb32ic64ih56oc128kh3ph1+bias+add+relu", "mb32ic3ih224oc64kh7sh2ph3+bias+relu"
# problem, algorithm and knobs, tile, values of a slice, and the least share of multiply-adds in the
# main loop
TILES = {
    "wide": (WIDE, "implicit_gemm", CHANNELS, 128, 128, 16, 0.89),
    "pointwise": ("mb32ic256ih56oc64kh1+bias+relu", "implicit_gemm", CHANNELS, 64, 128, 16, 0.90),
    "narrow": (
        *("mb32ic64ih56oc64kh3ph1+bias+add+relu", "implicit_gemm"),
        *(CHANNELS, 64, 128, 32, 0.89),
    ),
    "small": (
        # 28x28 pixels leave the last tile partly empty: stores under branches spilled
        *("mb1ic64ih28oc64kh3ph1+bias+add+relu", "implicit_gemm"),
        *(CHANNELS, 64, 64, 32, 0.89),
    ),
    "windows": (WIDE, "im2win", STORED, 128, 128, 16, 0.88),
    "columns": (FIRST, "im2win", {**STORED, "slice": "column"}, 64, 64, 21, 0.88),
    "columns, fused": (FIRST, "im2win", {**FUSED, "slice": "column"}, 64, 64, 21, 0.865),
    "whole windows, fused": (
        *("mb32ic128ih28oc128kh3+bias+relu", "im2win"),
        *({**FUSED, "slice": "window"}, 64, 64, 36, 0.88),
    ),
    "matrix": (WIDE, "im2col", MATRIX, 128, 128, 16, 0.91),
    # warps share sums: the same with half of the values each
    "smallest": (
        *("mb1ic512ih28oc96kh1+bias+relu", "implicit_gemm"),
        *(CHANNELS, 32, 64, 32, 0.88),
    ),
    # of 32 rows each gathered value has 32 products for a load and a quarter of a store
    "smallest, gathered": (
        # of 7x7 pixels with a residual: what follows the loop made nvcc move sums in the loop
        *("mb32ic256ih14oc512kh1sh2+bias+add+relu", "implicit_gemm"),
        *(CHANNELS, 32, 64, 32, 0.88),
    ),
    # where the image is padded, a table tells what a slice reads, or zeros
    "smallest, padded": (
        *("mb1ic64ih56oc32kh3ph1+bias+add+relu", "implicit_gemm"),
        *(CHANNELS, 32, 64, 32, 0.88),
    ),
    # two slices an iteration
    "smallest, pairs": (
        *("mb1ic512ih7oc512kh3ph1+bias+add+relu", "implicit_gemm"),
        *({**CHANNELS, "split": 32}, 32, 64, 16, 0.88),
    ),
    # 12x8 sums of a thread
    "tall": ("mb32ic576ih14oc96kh1+bias+add", "implicit_gemm", CHANNELS, 96, 64, 16, 0.92),
    "tall, first": (
        *("mb32ic3ih227oc96kh11sh4+bias+relu", "implicit_gemm"),
        *({**CHANNELS, "slice": "row"}, 96, 64, 33, 0.91),
    ),
    "tall, padded": (
        *("mb32ic192ih28oc192kh3ph1+bias+add+relu", "implicit_gemm"),
        *(CHANNELS, 96, 64, 16, 0.89),
    ),
}


# each takes nvcc seconds
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "wide" else [pytest.mark.slow]) for n in TILES]
)
def test_main_loops(name):
    try:
        find_nvcc()
        find_nvdisasm()
    except ArtifactError as error:
        pytest.skip(str(error))
    problem, algorithm, knobs, m, p, k, share = TILES[name]
    kernel = default_kernel(problem, algorithm, SM_90, m=m, p=p, k=k, **knobs)
    source, tile = source_of(kernel), tile_of(kernel.config)
    cubin, resources = compile_cubin(source.text, SM_90)
    # the product is the last kernel, but where its parts are added up
    product = source.launches[-1 if kernel.config.int("split") == 1 else -2].kernel
    used, loop = resources[product], main_loops(cubin)[product]
    assert used.spill_bytes == 0
    assert loop.count("LDL", "STL") == 0
    # the sums of a thread for each value of a slice that is its own
    slices = 2 if "pairs" in name else 1
    values = slices * k // tile.share
    assert loop.count("FFMA") == tile.sums * values
    assert loop.count("BAR") == slices
    assert loop.share >= share
    # selection goes by this count
    _, issued = loop_instructions(kernel.expression, kernel.workload, kernel.config)
    assert len(loop.instructions) / slices == pytest.approx(issued - WAIT, rel=0.03)
    # short slices have less than the sums that warps exchange
    least = 2 * 4 * k * (m + p)
    assert used.shared_bytes == shared_bytes(kernel.config) >= least
    assert "pairs" in name or used.shared_bytes == least
    blocks = register_blocks(SM_90, kernel.config)
    assert used.registers * tile.threads * blocks <= SM_90.registers
    # operands of products come as vectors
    reads = (tile.thread_rows + tile.thread_columns) // 4 * values
    assert sum(bool(re.fullmatch(r"LDS\.128", i)) for i in loop.instructions) == reads
    assert loop.count("LDS") == reads
    if "smallest" in name:
        assert all(re.fullmatch(r"STS\.128", i) for i in loop.instructions if i[:3] == "STS")


# Winograd's output tile, a block's tile of the products, channels of a slice, and the same share
WINOGRAD = {
    "wide": (4, 128, 128, 16, 0.90),
    "tall": (2, 64, 128, 32, 0.91),
    "small": (3, 64, 64, 32, 0.91),
    "narrow": (4, 32, 64, 32, 0.90),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "narrow" else [pytest.mark.slow]) for n in WINOGRAD]
)
def test_winograd(name):
    """Transforms hold their tiles in registers; the products are a loop of multiply-adds."""
    try:
        find_nvcc()
        find_nvdisasm()
    except ArtifactError as error:
        pytest.skip(str(error))
    side, m, p, k, share = WINOGRAD[name]
    problem, threads = "mb32ic128ih28oc128kh3ph1+bias+add+relu", min(p, 128)
    knobs = {"mh": side, "mw": side, "threads": threads, "pipeline": "double"}
    kernel = default_kernel(problem, "winograd", SM_90, m=m, p=p, k=k, **knobs)
    cubin, resources = compile_cubin(source_of(kernel).text, SM_90)
    assert [used.spill_bytes for used in resources.values()] == [0, 0, 0]
    for name in ("main_kernel", "main_kernel_2"):
        # ten blocks of 64 threads and more
        assert resources[name].registers <= 96
        assert resources[name].shared_bytes == 0
    loop = main_loops(cubin)["main_kernel_1"]
    assert loop.count("FFMA") == k * (64 if m > 32 else 32)
    assert loop.count("LDL", "STL") == 0
    assert loop.count("BAR") == 1
    assert loop.share >= share
    assert resources["main_kernel_1"].shared_bytes == 2 * 4 * k * (m + p)
