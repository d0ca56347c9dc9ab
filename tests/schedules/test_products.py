"""One register tile under all products: who builds it, and the code that comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tvm import topi

from tests.assembly import assembly
from tests.kernels import V3, V4, allocated, default_config, each_target
from tests.operators.harness import Built, normal
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import most_rows
from tvmconv.costs.cpu.products import best_tile, heights, product_tile
from tvmconv.kernels.gemm import make_gemm
from tvmconv.kernels.kernel import make_kernel
from tvmconv.tir.pipeline import compile_function

SCHEDULES = Path(__file__).parents[2] / "schedules"
# sums, means and softmax: no products
REDUCTIONS = {"reduction.py", "partials.py", "rows.py", "long_rows.py", "strided_rows.py"}


def test_only_the_shared_operator_builds_register_tiles():
    calls = {
        path.name for path in SCHEDULES.rglob("*.py") if ".decompose_reduction(" in path.read_text()
    }
    # operators of their own make the tiles of a GPU's threads, and the tiles in registers
    tiles = {"microkernel.py", "block_tile.py", "mma_tile.py", "tile_group.py"}
    assert calls == tiles | REDUCTIONS


def product_code(name, machine):
    """The code of one product and the FMAs of its tile."""
    if name == "gemm":
        kernel = make_gemm(GemmWorkload(56, 128, 64), machine)
        mr, nr = kernel.config.int("mr"), kernel.config.int("nr")
        built = compile_function(kernel.prim_func(), machine)
        return assembly(built), mr * nr // machine.lanes
    if name == "dense":
        kernel = make_kernel(Conv2dWorkload.parse("mb64ic96ih1oc128kh1:nc"), machine, name)
        return assembly(kernel), kernel.config.int("rows") * kernel.config.int("width")
    if name == "matmul":
        best = product_tile(machine, 64, 128, 96)
        matmul = Built(
            lambda x, y: topi.nn.batch_matmul(x, y, transpose_b=False),
            [normal(1, 64, 96), normal(1, 96, 128)],
            machine,
        )
        return matmul.code, best.rows * best.vectors
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1+bias+relu")
    knobs = {"kc": 2} if name == "im2col in parts" else {}
    config = default_config(name.split()[0], workload, machine, **knobs)
    kernel = make_kernel(workload, machine, name.split()[0], config)
    sizes = ("rt", "kr") if name == "winograd" else ("mr", "oc")
    return assembly(kernel), config.int(sizes[0]) * config.int(sizes[1])


@each_target
@pytest.mark.parametrize(
    "name", ["gemm", "dense", "matmul", "im2col", "im2col in parts", "winograd"]
)
def test_sums_stay_in_registers(name, machine):
    """The loop over the reduction multiplies and loads; it stores nothing and spills nothing."""
    code, tile = product_code(name, machine)
    found = code.tile_loops(tile)
    assert found
    for body in found:
        assert not code.spills(body)
        assert not code.stores(body)


@each_target
def test_tiles_take_no_workspace(machine):
    """TVM would take sums of 1 KiB and more from its pool: two calls and a copy for every tile."""
    kernel = make_kernel(Conv2dWorkload.parse("mb64ic96ih1oc128kh1:nc"), machine, "dense")
    workspace = kernel.expression.workspace_bytes(kernel.workload, machine, kernel.config)
    assert allocated(kernel) == workspace == 0


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
@pytest.mark.parametrize("rows", [*range(1, 33), 49, 197, 1000])
@pytest.mark.parametrize("columns", [1, 16, 40, 512])
def test_the_best_tile_fits_and_wastes_less_than_a_tile(machine, rows, columns):
    tile = best_tile(machine, rows, columns, 256)
    assert 1 <= tile.rows <= rows
    assert tile.registers <= machine.vector_registers
    assert (tile.vectors - 1) * machine.lanes < columns
    # even cuts: no fewer tiles of the same width would do with smaller ones
    assert -(-rows // tile.rows) * (tile.rows - 1) < rows


def test_few_rows_take_wider_tiles():
    """Two rows by two vectors are four sums, fewer than the latency of an FMA needs."""
    for machine in (V3, V4):
        few, many = best_tile(machine, 2, 512, 256), best_tile(machine, 64, 512, 256)
        assert (few.rows, few.vectors) == (2, 4)
        assert many.vectors == 2
        assert many.rows * many.vectors >= machine.minimum_accumulators


def test_heights_are_even_cuts():
    assert heights(49, most_rows(V3, 2), 3) == [4, 5, 6]
    assert heights(197, most_rows(V4, 2), 3) == [12, 13, 14]
    assert heights(3, 14, 3) == [3]
