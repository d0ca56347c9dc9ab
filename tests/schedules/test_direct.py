"""The code that direct kernels become: registers, workspace, golden forms."""

from __future__ import annotations

import re

import pytest

from tests.kernels import V4, each_target, generated_code, lowered_text
from tvmconv.kernel import make_kernel
from tvmconv.registry import schedule
from tvmconv.schedules.common.tile_model import TileModel
from tvmconv.workload import Conv2dWorkload

PROBLEMS = [
    "ic64ih56oc64kh3ph1+bias+relu",
    "ic64ih56oc256kh1+bias+add+relu",
    "ic128ih56oc128kh3sh2ph1",
    "ic128ih14oc128kh3ph1",
    "ic512ih7oc128kh1",
    "ic32ih71oc40kh3ph1",
    "ic256ih28oc64kh1sh2",
]


@each_target
@pytest.mark.parametrize("problem", PROBLEMS)
def test_accumulators_stay_in_registers(machine, problem):
    workload = Conv2dWorkload.parse(problem)
    kernel = make_kernel(workload, machine, "direct")
    code = generated_code(kernel)
    body = code.hot_loop()
    oc, oh, ow = (kernel.config.int(name) for name in ("oc", "oh", "ow"))
    # border copies may be the longest loop: the compiler unrolls some of them further
    assert code.multiply_adds(body) >= (oc - 1) * oh * ow
    assert not code.spills(body)
    assert not code.stores(body)


@each_target
@pytest.mark.parametrize("problem", PROBLEMS)
def test_nothing_is_allocated_beyond_the_tile(machine, problem):
    kernel = make_kernel(Conv2dWorkload.parse(problem), machine, "direct")
    text = lowered_text(kernel)
    sizes = re.findall(r"alloc_buffer\(\(([\d, ]+)\)", text)
    assert sizes
    for size in sizes:
        values = 1
        for extent in size.split(","):
            values *= int(extent)
        # below this many bytes TVM keeps a buffer on the stack
        assert 4 * values < 1024
    assert "AllocWorkspace" not in generated_code(kernel).text
    assert kernel.expression.workspace_bytes(kernel.workload, machine, kernel.config) == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_predicate_in_the_reduction(problem):
    text = lowered_text(make_kernel(Conv2dWorkload.parse(problem), V4, "direct"))
    assert "T.if_then_else" not in text


@each_target
def test_default_tiles_obey_both_register_bounds(machine):
    module = schedule("direct", machine)
    for problem in PROBLEMS:
        workload = Conv2dWorkload.parse(problem)
        config = module.default_config(workload, machine)
        tile = [config.int(name) for name in ("oc", "oh", "ow")]
        model = TileModel(workload, machine)
        assert model.registers(*tile) <= machine.vector_registers
        assert tile[0] * tile[1] * tile[2] >= machine.minimum_accumulators
        assert module.predicted_cycles(workload, machine, config) > 0
        for name, values in module.knobs(workload, machine).items():
            assert name == "rows" or config[name] in values


@each_target
@pytest.mark.parametrize(
    "name, problem",
    [("direct-3x3", "ic32ih20oc64kh3ph1+bias+relu"), ("direct-1x1", "ic32ih10oc64kh1+add")],
)
def test_lowered_form(golden, machine, name, problem):
    kernel = make_kernel(Conv2dWorkload.parse(problem), machine, "direct")
    golden(f"{name}-{machine.isa}.txt", lowered_text(kernel))
