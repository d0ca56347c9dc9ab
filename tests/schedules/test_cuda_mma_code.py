"""Machine code of tiles on tensor cores: products, loads, barriers and registers of the main loop.

The bounds come from nvcc 13.0, less some hundredths; no kernel is executed.
"""

from __future__ import annotations

import pytest

from tests.cuda import SM_90, default_kernel, source_of
from tests.emulated_gpu import needs_nvcc, needs_nvdisasm
from tvmconv.algorithms.cuda.precision import PRECISIONS
from tvmconv.compile.nvcc import compile_cubin
from tvmconv.compile.sass import main_loops
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import mma as cuda_mma
from tvmconv.kernels.kernel import make_kernel

pytestmark = needs_nvcc
# problem, precision, tile, dwords of a slice, and the most instructions for a slice
TENSOR_TILES = {
    "wide, TF32": ("mb32ic128ih28oc128kh3ph1+bias+add+relu", "tf32", (128, 128, 64, 64), 16, 274),
    "wide, halves": ("mb32ic128ih28oc128kh3ph1+bias+add+relu", "fp16", (128, 128, 64, 64), 16, 294),
    "pointwise": ("mb32ic256ih56oc64kh1+bias+relu", "fp16", (64, 128, 64, 32), 16, 250),
    "narrow": ("mb32ic64ih56oc64kh3ph1+bias+add+relu", "tf32", (64, 128, 64, 32), 16, 228),
    "small": ("mb32ic64ih28oc64kh3ph1+bias+add+relu", "tf32", (64, 64, 32, 32), 16, 134),
    "smallest": ("mb4ic64ih14oc32kh3ph1+bias+add+relu", "fp16", (32, 64, 32, 16), 32, 300),
}


# compiled once for both tests of a tile
@pytest.fixture(scope="module", params=TENSOR_TILES)
def code(request):
    """Its name, the kernel, machine code, and what nvcc says of that."""
    problem, precision, (m, p, wm, wp), words, _ = TENSOR_TILES[request.param]
    values = PRECISIONS[precision].values
    knobs = {"m": m, "p": p, "wm": wm, "wp": wp, "k": words * values, "precision": precision}
    knobs |= {"slice": "channels", "split": 1, "pipeline": "double"}
    kernel = default_kernel(problem, "implicit_gemm_mma", SM_90, **knobs)
    cubin, resources = compile_cubin(source_of(kernel).text, SM_90)
    return request.param, kernel, cubin, resources["main_kernel"]


def test_registers_and_shared_memory_on_tensor_cores(code):
    name, kernel, _, used = code
    m, p, wm, wp = TENSOR_TILES[name][2]
    assert used.spill_bytes == 0
    assert used.shared_bytes == cuda_mma.shared_bytes(kernel.config)
    resident = cuda_mma.resident_blocks(kernel.workload, SM_90, kernel.config)
    assert used.registers * 32 * (m // wm) * (p // wp) * resident <= SM_90.registers


@needs_nvdisasm
def test_main_loops_on_tensor_cores(code):
    name, _, cubin, _ = code
    _, _, (m, p, wm, wp), words, most = TENSOR_TILES[name]
    loop = main_loops(cubin)["main_kernel"]
    assert loop.count("LDL", "STL", "BSSY") == 0
    steps, threads = words // 8, 32 * (m // wm) * (p // wp)
    assert loop.count("HMMA") == steps * wm * wp // 128
    assert loop.count("BAR") == 1
    assert len(loop.instructions) <= most
    # weight fragments come as four dwords, column fragments as two, and both leave registers so
    assert loop.instructions.count("LDS.128") == steps * wm // 16
    assert loop.instructions.count("LDS.64") == steps * wp // 8
    assert loop.count("LDS") == steps * (wm // 16 + wp // 8)
    assert loop.count("STS") == m * words // (4 * threads) + p * words // (2 * threads)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "problem", ["ic3ih64oc64kh7sh2ph3:nchw+bias+relu", "mb32ic3ih224oc64kh7sh2ph3:nchw+bias+relu"]
)
def test_first_layers_do_not_spill(problem, precision):
    """Each value of a row's slice has its own address: launch bounds leave registers for them."""
    workload = Conv2dWorkload.parse(problem)
    config = cuda_mma.best_config(workload, SM_90, precision)
    kernel = make_kernel(workload, SM_90, "implicit_gemm_mma", config)
    _, resources = compile_cubin(source_of(kernel).text, SM_90)
    assert {name: used.spill_bytes for name, used in resources.items() if used.spill_bytes} == {}
