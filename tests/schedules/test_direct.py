"""The code that direct kernels become: registers, workspace, loop order."""

from __future__ import annotations

from math import prod

import pytest
from tvm.tirx import AllocBuffer

from tests.assembly import assembly
from tests.kernels import (
    V4,
    default_config,
    each_target,
    lowered,
    nodes,
    predicates,
    reduction_nests,
)
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.registry import schedule

PROBLEMS = [
    "ic64ih56oc64kh3ph1+bias+relu",
    "ic64ih56oc256kh1+bias+add+relu",
    "ic128ih56oc128kh3sh2ph1",
    "ic128ih14oc128kh3ph1",
    "ic512ih7oc128kh1",
    "ic32ih71oc40kh3ph1",
    "ic256ih28oc64kh1sh2",
    "ic64id16ih56oc64kd3kh3pd1ph1+bias+relu",
]


@each_target
@pytest.mark.parametrize("problem", PROBLEMS)
def test_accumulators_stay_in_registers(machine, problem):
    workload = Conv2dWorkload.parse(problem)
    kernel = make_kernel(workload, machine, "direct")
    code = assembly(kernel)
    body = code.hot_loop()
    oc, oh, ow = (kernel.config.int(name) for name in ("oc", "oh", "ow"))
    # border copies may be the longest loop: the compiler unrolls some of them further
    assert code.multiply_adds(body) >= max(oc - 1, 1) * oh * ow
    assert not code.spills(body)
    assert not code.stores(body)


@each_target
def test_accumulators_stay_in_registers_along_the_depth(machine):
    """A plane outside the volume is a branch around its taps, which the tile outlives."""
    workload = Conv2dWorkload.parse("ic144id16ih56oc64kd3kh1pd1")
    code = assembly(make_kernel(workload, machine, "direct"))
    body = max(code.loops(), key=code.multiply_adds)
    assert code.multiply_adds(body) >= machine.minimum_accumulators
    assert not code.spills(body)
    assert not code.stores(body)


@each_target
@pytest.mark.parametrize("problem", PROBLEMS)
def test_nothing_is_allocated_beyond_the_tile(machine, problem):
    kernel = make_kernel(Conv2dWorkload.parse(problem), machine, "direct")
    buffers = [allocation.buffer for allocation in nodes(lowered(kernel), AllocBuffer)]
    assert buffers
    for buffer in buffers:
        # below this many bytes TVM keeps a buffer on the stack
        assert 4 * prod(int(extent) for extent in buffer.shape) < 1024
    assert "AllocWorkspace" not in assembly(kernel).text
    assert kernel.expression.workspace_bytes(kernel.workload, machine, kernel.config) == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_predicate_in_the_reduction(problem):
    assert not predicates(make_kernel(Conv2dWorkload.parse(problem), V4, "direct"))


@each_target
def test_default_tiles_obey_both_register_bounds(machine):
    module = schedule("direct", machine)
    for problem in PROBLEMS:
        workload = Conv2dWorkload.parse(problem)
        config = default_config("direct", workload, machine)
        tile = [config.int(name) for name in ("oc", "oh", "ow")]
        model = TileModel(workload, machine)
        assert model.registers(*tile) <= machine.vector_registers
        assert tile[0] * tile[1] * tile[2] >= machine.minimum_accumulators
        assert module.predicted_cycles(workload, machine, config) > 0
        for name, values in module.KNOBS.values(workload, machine).items():
            assert name == "rows" or config[name] in values


def nests(problem, machine):
    workload = Conv2dWorkload.parse(problem)
    config = default_config("direct", workload, machine, oc=2, oh=1, ow=5)
    return reduction_nests(make_kernel(workload, machine, "direct", config))


@each_target
def test_loop_order(machine):
    """Tasks; columns; blocks of channels, kernel rows and columns, channels; the tile."""
    lanes = machine.lanes
    parallel, blocks = f"parallel {64 // (2 * lanes) * 20}", f"serial {32 // lanes}"
    tile, shorter = (f"unrolled {n}, unrolled 2, vectorized {lanes}" for n in (5, 4))
    assert nests("ic32ih20oc64kh3ph1", machine) == [
        # the left border: a pixel less where the kernel column falls outside, then the other two
        f"{parallel}, {blocks}, serial 3, serial {lanes}, {shorter}",
        f"{parallel}, {blocks}, serial 3, serial 2, serial {lanes}, {tile}",
        # between the borders
        f"{parallel}, serial 2, {blocks}, serial 3, serial {lanes}, {tile}",
        f"{parallel}, serial 2, {blocks}, serial 3, serial 2, serial {lanes}, {tile}",
        # the right border: the loop of its shorter tile is the left border's
        f"{parallel}, {blocks}, serial 3, serial {lanes}, {tile}",
    ]


@each_target
def test_pointwise_loops_run_over_all_pixels_alike(machine):
    lanes = machine.lanes
    assert nests("ic32ih10oc64kh1", machine) == [
        f"parallel {64 // (2 * lanes)}, serial 20, serial {32 // lanes}, serial {lanes}, "
        f"unrolled 5, unrolled 2, vectorized {lanes}"
    ]
