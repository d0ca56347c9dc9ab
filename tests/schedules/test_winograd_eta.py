"""The code of Winograd along eta: registers, vectors, order of loops, workspace."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.tirx import BufferStore, For, ForKind, Ramp

from tests.assembly import assembly
from tests.kernels import (
    V3,
    V4,
    allocated,
    default_config,
    each_target,
    factors,
    lowered,
    nodes,
    reduction_nests,
)
from tvmconv.algorithms.reproductions.winograd_packing import Packing
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.registry import offers, schedule

# 4 images: all extents of the product's loops differ, so that their order shows
WORKLOAD = Conv2dWorkload.parse("mb4ic48ih20oc80kh3ph1+bias+relu")


def kernel(machine, **knobs):
    config = default_config("winograd_eta", WORKLOAD, machine)
    return make_kernel(WORKLOAD, machine, "winograd_eta", config.replace(**knobs))


def adds(store):
    return store.buffer.name.startswith("conv2d") and isinstance(store.value, tirx.Add)


@each_target
@pytest.mark.parametrize("prefetch", [0, 1])
def test_the_register_block_stays_in_registers(machine, prefetch):
    """No store, spill or broadcast in the loop over C_l1; prefetches where asked for."""
    built = kernel(machine, prefetch=prefetch)
    code, config = assembly(built), built.config
    tile = config.int("br") * config.int("kr")
    bodies = code.tile_loops(tile, without="vmulps|vaddps|vsubps")
    assert bodies
    for body in bodies:
        assert not code.spills(body)
        assert not code.stores(body)
        assert not [t for t in body if "broadcast" in t or "{1to" in t]
        assert any("prefetch" in t for t in body) == bool(prefetch)
    assert not code.has(r"sgemm|cblas")


@each_target
def test_the_transforms_are_vectors(machine):
    code = assembly(kernel(machine))
    assert not code.count(r"vmulss|vaddss|vsubss|vfn?madd\w+ss|vfmsub\w+ss")


@each_target
@pytest.mark.parametrize(("m", "s"), [(4, 4), (6, 8)])
def test_d_and_u_are_touched_by_whole_vectors(machine, m, s):
    """A vector of S values for every S products of a channel: 9 for F(4x4) with S = 4."""
    func = lowered(kernel(machine, m=m, s=s))
    stores = [n.indices[-1] for n in nodes(func, BufferStore) if n.buffer.name == "transform"]
    loads = [n.indices[-1] for n in nodes(func, TensorLoad) if n.source.name == "sums"]
    # the product itself reads and writes U; it does so in loops over S, here still not vectors
    loads = [index for index in loads if isinstance(index, Ramp)]
    vectors = -(-((m + 2) ** 2) // s)
    if machine.lanes > s:
        # an unrolled loop over eta holds every square of a vector of channels once
        assert len(stores) == len(loads) == machine.lanes
    for index in (*stores, *loads):
        assert (int(index.lanes), int(index.stride)) == (s, 1)
    assert Packing(WORKLOAD, machine, kernel(machine, m=m, s=s).config).eta == vectors


def test_loops_have_the_order_of_the_paper():
    """eta, cs, then (ks, bs, mu) in parallel, then kf, and channels innermost."""
    built = kernel(V4, m=6, s=16, br=4, kr=4, cl1=16, kl2=16, tiles=0)
    loops = nodes(lowered(built), For)
    nest = [loop for loop in loops if any(adds(n) for n in nodes(loop, BufferStore))]
    nest.sort(key=lambda loop: -len(nodes(loop, For)))
    extents = [int(loop.extent) for loop in nest]
    # 4 vectors of products; 3 blocks of channels; 5 of outputs, 1 of samples, 16 tiles; 4 of K_r
    assert extents == [4, 3, 5 * 1 * 16, 4, 16, 4, 4, 16]
    kinds = [int(loop.kind) == ForKind.PARALLEL for loop in nest]
    assert kinds == [False, False, True, *[False] * 5]


def test_coefficients_of_zero_and_one_cost_no_multiplication():
    for m in (4, 6):
        found = factors(kernel(V4, m=m))
        assert found and not found & {0.0, 1.0}


@pytest.mark.parametrize(("machine", "m"), [(V3, 4), (V4, 6)], ids=["avx2", "avx512"])
def test_no_memory_but_d_and_u(machine, m):
    """The transforms write and read the packed order: no pass or buffer is between them."""
    built = kernel(machine, m=m)
    expected = built.expression.workspace_bytes(WORKLOAD, machine, built.config)
    assert allocated(built) == expected
    pack = Packing(WORKLOAD, machine, built.config)
    written = {n.buffer.name for n in nodes(lowered(built), BufferStore)}
    assert written >= {"transform", "sums", "output"}
    assert expected == 4 * (prod(pack.input_shape()) + prod(pack.output_shape()))


@pytest.mark.parametrize(
    ("problem", "small", "large"),
    [
        ("ic64ih112oc128kh3ph1", 109, 161),
        ("ic64ih56oc64kh3ph1", 167, 230),
        ("ic128ih28oc128kh3ph1", 204, 296),
        ("ic256ih14oc256kh3ph1", 91, 83),
        ("ic256ih28oc512kh3ph1", 146, 188),
        ("ic512ih7oc512kh3ph1", 40, 31),
    ],
)
def test_predictions_are_near_what_was_measured(problem, small, large):
    """GFLOP/s of docs/notes/winograd.md, on a processor of 1 MiB L2 and 36 MiB L3."""
    measured = replace(V4, l2_bytes=1 << 20, l3_bytes=37486592, cores=1)
    workload = Conv2dWorkload.parse(problem)
    for config, gflops in zip(
        offers("winograd_eta", workload, measured), (small, large), strict=True
    ):
        module = schedule("winograd_eta", measured)
        # at the clock of that processor, 2.4 GHz
        predicted = 2.4 * workload.flops / module.predicted_cycles(workload, measured, config)
        assert 0.6 < predicted / gflops < 1.25


@each_target
def test_loop_order(machine):
    """Eta blocks, channels by C_l1, then the threads' blocks of outputs and samples; the tile."""
    config = Config.of(m=4, s=8, br=2, kr=2, cl1=16, kl2=16, tiles=1, outer_eta=0, prefetch=1)
    workload = Conv2dWorkload.parse("ic32ih12oc32kh3ph1+bias+relu")
    nests = reduction_nests(make_kernel(workload, machine, "winograd_eta", config))
    assert nests == [
        "serial 5, serial 2, parallel 10, serial 8, serial 16, unrolled 2, unrolled 2, vectorized 8"
    ]
