"""A register tile's values on the stack, and the prefetch of the stream it multiplies with."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.s_tir import Schedule

from tests.assembly import assembly
from tests.kernels import V3, V4
from tvmconv.tir.annotations import mark_panel, mark_stream
from tvmconv.tir.general.record_workspace import recorded
from tvmconv.tir.pipeline import compile_function

ROWS, DEPTH = 14, 40


def product(machine, *, scope, vectors, distance=0, tiles=1):
    """``data @ weight`` with all columns and a share of the rows in one tile, built."""
    lanes = machine.lanes
    data = te.placeholder((ROWS, DEPTH), name="data")
    weight = te.placeholder((DEPTH, vectors, lanes), name="weight")
    c = te.reduce_axis((0, DEPTH), "c")
    result = te.compute(
        (ROWS, vectors, lanes),
        lambda t, v, k: te.sum(data[t, c] * weight[c, v, k], axis=c),
        name="product",
    )
    schedule = Schedule(te.create_prim_func([data, weight, result]))
    block = schedule.get_sblock("product")
    store = schedule.cache_write(block, 0, scope)
    rows, v, k, c = schedule.get_loops(block)
    outer, t = schedule.split(rows, [tiles, None])
    schedule.reorder(outer, c, t, v, k)
    schedule.reverse_compute_at(store, outer)
    schedule.vectorize(k)
    for loop in (t, v):
        schedule.unroll(loop)
    for each in (schedule.decompose_reduction(block, c), store):
        *inner, last = schedule.get_loops(each)[1:]
        schedule.vectorize(last)
        for loop in inner:
            schedule.unroll(loop)
    if tiles > 1:
        mark_panel(schedule, outer)
    if distance:
        mark_stream(schedule, c, distance)
    with recorded() as sizes:
        built = compile_function(schedule.mod["main"].with_attr("global_symbol", "main"), machine)
    return built, sum(sizes.values())


@pytest.mark.parametrize("machine", [V3, V4])
def test_a_tile_of_local_scope_stays_off_the_workspace_pool(machine):
    vectors = 2 * 16 // machine.lanes
    built, size = product(machine, scope="local", vectors=vectors)
    assert 4 * ROWS * vectors * machine.lanes > 1024
    assert size == 0
    assert not assembly(built).has("AllocWorkspace")


def test_other_buffers_are_taken_from_the_pool_and_counted():
    built, size = product(V3, scope="global", vectors=4)
    assert size == 4 * ROWS * 4 * V3.lanes
    assert assembly(built).has("AllocWorkspace")


@pytest.mark.parametrize("vectors, lines", [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_one_prefetch_for_each_line_of_a_step(vectors, lines):
    built, _ = product(V3, scope="local", vectors=vectors, distance=4096)
    found = assembly(built).count("prefetcht0")
    assert found % lines == 0 and found
    plain, _ = product(V3, scope="local", vectors=vectors)
    assert not assembly(plain).prefetches()


def test_tiles_share_the_prefetch_of_the_next_panel():
    built, _ = product(V3, scope="local", vectors=2, tiles=7)
    assert assembly(built).prefetches() == {"prefetcht1"}


def test_prefetches_change_no_result():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((ROWS, DEPTH)), rng.standard_normal((DEPTH, 2, V3.lanes))]
    tensors = [tvm.runtime.tensor(a.astype(np.float32)) for a in arrays]
    results = []
    for options in ({}, {"distance": 4096}, {"tiles": 7}):
        built, _ = product(V3, scope="local", vectors=2, **options)
        out = tvm.runtime.tensor(np.full((ROWS, 2, V3.lanes), np.nan, np.float32))
        built["main"](*tensors, out)
        results.append(out.numpy())
    expected = np.einsum("tc,cvk->tvk", *arrays)
    assert np.abs(results[0] - expected).max() < 1e-5
    assert all(np.array_equal(result, results[0]) for result in results)
