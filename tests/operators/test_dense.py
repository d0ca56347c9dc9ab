from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.assembly import assembly
from tests.kernels import V3, V4, check_kernel
from tests.layout import block
from tests.operators.harness import HOST, MACHINES, each_machine, normal
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.operators.dense import block_flattened_weight


def layer(rows, inputs, outputs, epilogue="+bias+relu"):
    return Conv2dWorkload.parse(f"mb{rows}ic{inputs}ih1oc{outputs}kh1:nc{epilogue}")


@each_machine
@pytest.mark.parametrize(
    "shape",
    [
        (1, 256, 1000),
        (1, 64, 10),
        (1, 8192, 10),
        (1, 33, 1),
        (3, 100, 77),
        (20, 64, 40),
        (29, 7, 5),
        (37, 96, 150),
    ],
    ids=str,
)
def test_dense(shape, machine):
    check_kernel(layer(*shape), machine, "dense")


@pytest.mark.parametrize("epilogue", ["", "+bias", "+bias+add+relu", "+add"])
def test_epilogues(epilogue):
    check_kernel(layer(2, 48, 50, epilogue), HOST, "dense")


@pytest.mark.parametrize(
    "knobs",
    [
        {"share": "rows"},
        {"rows": 4, "width": 3},
        {"rows": 3, "width": 1, "splits": 2, "share": "rows"},
        {"rows": 1, "width": 2, "splits": 3, "streams": 8},
    ],
    ids=str,
)
def test_other_knobs_compute_the_same(knobs):
    workload = layer(20, 96, 70, "+bias+add+relu")
    config = make_kernel(workload, HOST, "dense").config.replace(**{"streams": 1, **knobs})
    check_kernel(workload, HOST, "dense", config)


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
def test_tiles_of_rows_prefetch_the_next_panel(machine):
    assert assembly(make_kernel(layer(49, 96, 256), machine, "dense")).count(r"prefetch\w*")
    # one tile reads its weights as one stream, and L1 holds the few weights
    for shape in ((4, 96, 256), (49, 32, 64)):
        assert not assembly(make_kernel(layer(*shape), machine, "dense")).count(r"prefetch\w*")


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
def test_rows_of_a_tile_fit_the_sets_of_l1(machine):
    """Rows of 4 KiB map to one set, and weights need a way of it."""
    for inputs in (1024, 3072):
        rows = make_kernel(layer(197, inputs, 64), machine, "dense").config.int("rows")
        assert rows < machine.l1d_ways


@pytest.mark.parametrize(
    ("shape", "share", "splits"),
    [
        # two vectors of 16 outputs make three tiles, and 14 rows 224
        ((3136, 96, 96), "rows", 1),
        ((3136, 64, 32), "rows", 1),
        # weights beyond L2, more weights than data, and too few tiles of either
        ((3136, 2048, 480), "outputs", 1),
        ((16, 512, 128), "outputs", 1),
        ((8, 2048, 64), "outputs", 2),
        # too small for threads
        ((40, 32, 32), "outputs", 1),
    ],
)
def test_threads_have_equal_parts(shape, share, splits):
    machine = replace(V4, cores=4)
    config = make_kernel(layer(*shape), machine, "dense").config
    assert (config["share"], config["splits"]) == (share, splits)
    tiles = (-(-shape[0] // config.int("rows")), -(-shape[2] // (16 * config.int("width"))))
    shared = splits * (tiles[0] if share == "rows" else tiles[1])
    assert np.prod(shape) < 2**16 or shared % 4 == 0


def test_flattened_image_needs_no_reorder():
    lanes = HOST.channel_block
    x, w = normal(2, 20, 3, 4), normal(20 * 3 * 4, 30, seed=1)
    packed = block_flattened_weight(w, 20, 3, 4, lanes)
    rows = block(x, lanes, fill=5.0).reshape(2, -1).astype(np.float64)
    assert np.abs(rows @ packed - x.reshape(2, -1).astype(np.float64) @ w).max() < 1e-12


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_code_keeps_accumulators_in_registers(machine):
    code = assembly(make_kernel(layer(1, 512, 1024), machine, "dense"))
    assert code.has("ParallelLaunch")
    assert code.count(r"vfmadd\w*")
    assert not code.marked_spills()


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
def test_the_default_is_legal_for_any_size(machine):
    for rows in (1, 2, 7, 30, 197):
        for inputs, outputs in ((1, 1), (17, 9), (768, 3072), (25088, 4096)):
            make_kernel(layer(rows, inputs, outputs), machine, "dense")
