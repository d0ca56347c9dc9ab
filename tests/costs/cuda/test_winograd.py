"""Where selection takes Winograd on GPUs, within which budgets, and that predictions hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.costs.cuda.test_tiles import chosen
from tests.cuda import SM_80, SM_90
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.selection.select import candidates, select

LAYERS = [
    "mb128ic64ih56oc64kh3ph1+bias+relu",
    "mb1ic512ih7oc512kh3ph1+bias+relu",
    "mb32ic256ih14oc256kh3ph1+bias+add+relu",
    "g4mb8ic256ih28oc256kh3ph1+bias",
]
WIDE = "mb32ic256ih28oc256kh3ph1+bias+relu"


@pytest.mark.parametrize("machine", [SM_80, SM_90], ids=["sm_80", "sm_90"])
@pytest.mark.parametrize("problem", LAYERS)
def test_no_prediction_is_faster_than_the_gpu(problem, machine):
    workload = Conv2dWorkload.parse(problem)
    for offer in candidates(workload, machine, "winograd"):
        algorithm = registry.algorithm("winograd", "cuda")
        executed = algorithm.multiplies(workload, machine, offer.config)
        lanes = machine.multiprocessors * machine.lanes
        moved = offer.packed_weight_bytes / machine.memory_rate
        moved += 2 * offer.workspace_bytes / machine.l2_rate
        assert offer.cycles > max(executed / lanes, moved)
        parts = registry.explain_cost("winograd", workload, machine, offer.config)
        assert sum(parts.values()) == pytest.approx(offer.cycles)
        assert min(parts.values()) >= 0


def test_a_larger_tile_multiplies_less_and_errs_more():
    workload = Conv2dWorkload.parse(WIDE)
    two, three, four = candidates(workload, SM_90, "winograd")
    assert [offer.config["mh"] for offer in (two, three, four)] == [2, 3, 4]
    assert two.parts["arithmetic"] > three.parts["arithmetic"] > four.parts["arithmetic"]
    assert two.error < three.error < four.error
    assert two.workspace_bytes > three.workspace_bytes > four.workspace_bytes


def test_it_is_taken_where_the_count_says_so():
    """With many channels most of the work is in the products; with few, in the transforms."""
    assert chosen(WIDE).algorithm == "winograd"
    for problem in (
        "mb32ic16ih56oc16kh3ph1+bias+relu",
        "mb1ic512ih7oc512kh3ph1+bias+relu",
        "mb32ic256ih28oc256kh1+bias+relu",
        "mb32ic3ih224oc64kh3ph1+bias+relu",
    ):
        assert chosen(problem).algorithm != "winograd"


def test_slower_memory_takes_it_off_layers_of_few_channels():
    problem = "mb32ic64ih56oc64kh3ph1+bias+relu"
    assert chosen(problem).algorithm == "winograd"
    slow = replace(SM_90, memory_rate=SM_90.memory_rate / 4)
    assert chosen(problem, slow).algorithm == "implicit_gemm"


def test_the_memory_budget_bounds_it():
    every = select(Conv2dWorkload.parse(WIDE), SM_90)
    taken = every.chosen
    assert (taken.algorithm, taken.config["mh"]) == ("winograd", 4)
    assert chosen(WIDE, memory_budget=taken.workspace_bytes).algorithm == "winograd"
    assert chosen(WIDE, memory_budget=taken.workspace_bytes - 1).algorithm == "implicit_gemm"


def test_the_error_budget_bounds_its_tiles():
    two, three, four = candidates(Conv2dWorkload.parse(WIDE), SM_90, "winograd")
    assert chosen(WIDE, error_budget=four.error).config["mh"] == 4
    assert chosen(WIDE, error_budget=(two.error + three.error) / 2).config["mh"] == 2
    assert chosen(WIDE, error_budget=0).algorithm == "implicit_gemm"


def test_it_is_not_taken_where_inputs_may_be_infinite():
    assert chosen(WIDE, finite=False).algorithm == "implicit_gemm"
