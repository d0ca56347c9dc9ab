"""Machine code of the production tiles for GPUs: what the main loop consists of, and registers.

The bounds are those of nvcc 13.0 less a hundredth; no kernel is executed.
"""

from __future__ import annotations

import re

import pytest

from tests.cuda import SM_90, default_kernel, source_of
from tvmconv.algorithms.cuda.precision import PRECISIONS
from tvmconv.compile.nvcc import compile_cubin, find_nvcc
from tvmconv.compile.sass import find_nvdisasm, main_loops
from tvmconv.core.errors import ArtifactError
from tvmconv.costs import cuda_mma

# problem, tile, values of a slice, and the least share of multiply-adds in the main loop
TILES = {
    "wide": ("mb32ic64ih56oc128kh3ph1+bias+add+relu", 128, 128, 16, 0.88),
    "pointwise": ("mb32ic256ih56oc64kh1+bias+relu", 64, 128, 16, 0.90),
    "narrow": ("mb32ic64ih56oc64kh3ph1+bias+add+relu", 64, 128, 32, 0.88),
    "small": ("mb32ic64ih28oc64kh3ph1+bias+add+relu", 64, 64, 32, 0.88),
}


# problem, precision, tile, words of a slice, and the most instructions for a slice
TENSOR_TILES = {
    "wide, TF32": ("mb32ic128ih28oc128kh3ph1+bias+add+relu", "tf32", (128, 128, 64, 64), 16, 256),
    "wide, halves": ("mb32ic128ih28oc128kh3ph1+bias+add+relu", "fp16", (128, 128, 64, 64), 16, 294),
    "pointwise": ("mb32ic256ih56oc64kh1+bias+relu", "fp16", (64, 128, 64, 32), 16, 250),
    "narrow": ("mb32ic64ih56oc64kh3ph1+bias+add+relu", "tf32", (64, 128, 64, 32), 16, 220),
    "small": ("mb32ic64ih28oc64kh3ph1+bias+add+relu", "tf32", (64, 64, 32, 32), 16, 130),
    "smallest": ("mb4ic64ih14oc32kh3ph1+bias+add+relu", "fp16", (32, 64, 32, 16), 32, 300),
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
    problem, m, p, k, share = TILES[name]
    knobs = {"slice": "channels", "split": 1, "pipeline": "double"}
    kernel = default_kernel(problem, "implicit_gemm", SM_90, m=m, p=p, k=k, **knobs)
    cubin, resources = compile_cubin(source_of(kernel).text, SM_90)
    used, loop = resources["main_kernel"], main_loops(cubin)["main_kernel"]
    assert used.spill_bytes == 0
    assert loop.count("LDL", "STL") == 0
    # 64 sums of a thread for each value of a slice
    assert loop.count("FFMA") == 64 * k
    assert loop.count("BAR") == 1
    assert loop.share >= share
    assert used.shared_bytes == 2 * 4 * k * (m + p)
    threads = m * p // 64
    assert used.registers * threads * {256: 2, 128: 3, 64: 6}[threads] <= SM_90.registers
    # operands of products come as vectors
    assert sum(bool(re.fullmatch(r"LDS\.128", i)) for i in loop.instructions) == 4 * k
    assert loop.count("LDS") == 4 * k


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if n == "wide, halves" else [pytest.mark.slow])
        for n in TENSOR_TILES
    ],
)
def test_main_loops_on_tensor_cores(name):
    try:
        find_nvcc()
        find_nvdisasm()
    except ArtifactError as error:
        pytest.skip(str(error))
    problem, precision, (m, p, wm, wp), words, most = TENSOR_TILES[name]
    values = PRECISIONS[precision].values
    knobs = {"m": m, "p": p, "wm": wm, "wp": wp, "k": words * values, "precision": precision}
    knobs |= {"slice": "channels", "split": 1, "pipeline": "double"}
    kernel = default_kernel(problem, "implicit_gemm_mma", SM_90, **knobs)
    cubin, resources = compile_cubin(source_of(kernel).text, SM_90)
    used, loop = resources["main_kernel"], main_loops(cubin)["main_kernel"]
    assert used.spill_bytes == 0
    assert loop.count("LDL", "STL", "BSSY") == 0
    steps, threads = words // 8, 32 * (m // wm) * (p // wp)
    assert loop.count("HMMA") == steps * wm * wp // 128
    assert loop.count("BAR") == 1
    assert len(loop.instructions) <= most
    # fragments of weights come as four words, of columns as two, and so do both leave registers
    assert loop.instructions.count("LDS.128") == steps * wm // 16
    assert loop.instructions.count("LDS.64") == steps * wp // 8
    assert loop.count("LDS") == steps * (wm // 16 + wp // 8)
    assert loop.count("STS") == m * words // (4 * threads) + p * words // (2 * threads)
    assert used.shared_bytes == cuda_mma.shared_bytes(kernel.config)
    resident = cuda_mma.resident_blocks(SM_90, kernel.config)
    assert used.registers * threads * resident <= SM_90.registers
