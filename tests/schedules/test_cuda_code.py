"""Machine code of the production tiles for GPUs: the main loop's instructions, and registers.

The bounds come from nvcc 13.0, less a hundredth; no kernel is executed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.cuda import SM_90, default_kernel, source_of
from tests.emulated_gpu import needs_nvcc, needs_nvdisasm
from tvmconv.compile.nvcc import compile_cubin
from tvmconv.compile.resources import Resources
from tvmconv.compile.sass import main_loops
from tvmconv.costs.cuda.blocks import register_blocks, shared_bytes, tile_of
from tvmconv.costs.cuda.constants import WAIT
from tvmconv.costs.cuda.tiles import loop_instructions
from tvmconv.kernels.kernel import Kernel

pytestmark = needs_nvcc
CHANNELS = {"slice": "channels", "split": 1, "pipeline": "double"}
STORED = {**CHANNELS, "windows": "stored", "kernel": "tiled", "vector": 4, "micro": 1}
FUSED = {**STORED, "windows": "fused"}
MATRIX = {"split": 1, "pipeline": "double"}
WIDE, FIRST = "mb32ic64ih56oc128kh3ph1+bias+add+relu", "mb32ic3ih224oc64kh7sh2ph3+bias+relu"
# problem, algorithm and knobs, tile, values of a slice, and the minimum share of FMAs in the main
# loop
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
        # 7x7 pixels with a residual: code after the loop made nvcc move sums in the loop
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


# one of each tile, and what splits or pairs slices; nvcc takes seconds for each
OFTEN = {"wide", "pointwise", "small", "smallest, padded", "smallest, pairs"}
OFTEN |= {"tall, padded"}


@dataclass(frozen=True)
class Code:
    """nvcc's code of a kernel, and nvcc's figures about it."""

    name: str
    kernel: Kernel
    cubin: bytes
    resources: dict[str, Resources]

    @property
    def product(self) -> str:
        """The last kernel, but where its parts are added up."""
        launches = source_of(self.kernel).launches
        return launches[-1 if self.kernel.config.int("split") == 1 else -2].kernel


def code_of(name: str, kernel: Kernel) -> Code:
    return Code(name, kernel, *compile_cubin(source_of(kernel).text, SM_90))


def often(names, chosen):
    return [pytest.param(n, marks=[] if n in chosen else [pytest.mark.slow]) for n in names]


# compiled once for both tests of a tile
@pytest.fixture(scope="module", params=often(TILES, OFTEN))
def code(request):
    problem, algorithm, knobs, m, p, k, _ = TILES[request.param]
    return code_of(request.param, default_kernel(problem, algorithm, SM_90, m=m, p=p, k=k, **knobs))


def test_registers_and_shared_memory(code):
    used, config = code.resources[code.product], code.kernel.config
    assert used.spill_bytes == 0
    # short slices have less than the sums that warps exchange
    m, p, k = (config.int(knob) for knob in ("m", "p", "k"))
    least = 2 * 4 * k * (m + p)
    assert used.shared_bytes == shared_bytes(config) >= least
    assert "pairs" in code.name or used.shared_bytes == least
    resident = register_blocks(SM_90, config)
    assert used.registers * tile_of(config).threads * resident <= SM_90.registers


@needs_nvdisasm
def test_main_loops(code):
    k, share = TILES[code.name][5:]
    kernel, tile = code.kernel, tile_of(code.kernel.config)
    loop = main_loops(code.cubin)[code.product]
    assert loop.count("LDL", "STL") == 0
    # the sums of a thread for each value of a slice that is its own
    slices = 2 if "pairs" in code.name else 1
    values = slices * k // tile.share
    assert loop.count("FFMA") == tile.sums * values
    assert loop.count("BAR") == slices
    assert loop.share >= share
    # selection goes by this count
    _, issued = loop_instructions(kernel.expression, kernel.workload, kernel.config)
    assert len(loop.instructions) / slices == pytest.approx(issued - WAIT, rel=0.03)
    # operands of products come as vectors
    reads = (tile.thread_rows + tile.thread_columns) // 4 * values
    assert sum(bool(re.fullmatch(r"LDS\.128", i)) for i in loop.instructions) == reads
    assert loop.count("LDS") == reads
    if "smallest" in code.name:
        assert all(re.fullmatch(r"STS\.128", i) for i in loop.instructions if i[:3] == "STS")


# Winograd's output tile, a block's tile of the products, channels of a slice, and the same share
WINOGRAD = {
    "wide": (4, 128, 128, 16, 0.90),
    "tall": (2, 64, 128, 32, 0.91),
    "small": (3, 64, 64, 32, 0.91),
    "narrow": (4, 32, 64, 32, 0.90),
}


@pytest.fixture(scope="module", params=often(WINOGRAD, {"wide", "tall", "small"}))
def winograd(request):
    side, m, p, k, _ = WINOGRAD[request.param]
    knobs = {"mh": side, "mw": side, "threads": min(p, 128), "pipeline": "double"}
    problem = "mb32ic128ih28oc128kh3ph1+bias+add+relu"
    kernel = default_kernel(problem, "winograd", SM_90, m=m, p=p, k=k, **knobs)
    return code_of(request.param, kernel)


def test_registers_and_shared_memory_of_winograd(winograd):
    """Transforms hold their tiles in registers."""
    resources, (_, m, p, k, _) = winograd.resources, WINOGRAD[winograd.name]
    assert [used.spill_bytes for used in resources.values()] == [0, 0, 0]
    for name in ("main_kernel", "main_kernel_2"):
        # ten blocks of 64 threads and more
        assert resources[name].registers <= 96
        assert resources[name].shared_bytes == 0
    assert resources["main_kernel_1"].shared_bytes == 2 * 4 * k * (m + p)


@needs_nvdisasm
def test_main_loops_of_winograd(winograd):
    _, m, _, k, share = WINOGRAD[winograd.name]
    loop = main_loops(winograd.cubin)["main_kernel_1"]
    assert loop.count("FFMA") == k * (64 if m > 32 else 32)
    assert loop.count("LDL", "STL") == 0
    assert loop.count("BAR") == 1
    assert loop.share >= share
