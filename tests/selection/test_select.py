"""Decisions for single layers: candidates, budgets, reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvmconv.core.config import Config
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.decision import CAUSES, Decision
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.sve import MACHINES as SCALABLE
from tvmconv.machines.x86 import MACHINES
from tvmconv.selection.policy import check_algorithms, make_policy
from tvmconv.selection.select import candidates, select

SVE = SCALABLE["aarch64+sve"]
AVX512, AVX2 = MACHINES["x86-64-v4"], MACHINES["x86-64-v3"]
STRIDED = Conv2dWorkload.parse("mb1ic64ih14oc64kh3ph1sh2+bias+relu")
DENSE = Conv2dWorkload.parse("mb1ic64ih56oc64kh3ph1+bias+relu")
DEPTHWISE = Conv2dWorkload.parse("g64mb1ic64ih14oc64kh3ph1+bias+relu")
FIRST = Conv2dWorkload.parse("mb1ic3ih32oc64kh3ph1:nchw+bias")
PLAIN = ["direct", "depthwise", "direct_first"]


def choose(workload=DENSE, layer="conv1", **arguments) -> Decision:
    return select(workload, AVX512, layer=layer, policy=make_policy(**arguments))


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("workload", "name"), [(DENSE, "direct"), (DEPTHWISE, "depthwise"), (FIRST, "direct_first")]
)
def test_algorithm_of_each_kind_of_layer(workload, name, machine):
    decision = select(workload, machine, layer="conv1", policy=make_policy(PLAIN))
    assert (decision.layer, decision.chosen.algorithm) == ("conv1", name)
    assert decision.chosen.cycles > 0
    assert decision.chosen.workspace_bytes == 0
    assert decision.reason


@pytest.mark.parametrize("workload", [STRIDED, DENSE, DEPTHWISE, FIRST], ids=str)
def test_every_other_algorithm_is_listed_with_its_reason(workload):
    decision = select(workload, AVX512)
    names = {decision.chosen.algorithm, *(c.algorithm for c in decision.rejected)}
    assert names == set(registry.ALGORITHMS)
    assert all(c.rejected and c.cause in CAUSES[1:] for c in decision.rejected)
    assert (decision.chosen.rejected, decision.chosen.cause) == ("", "")
    assert all(o.cycles >= decision.chosen.cycles for o in decision.rejected if o.cause == "slower")


def test_inputs_of_any_value_leave_sums_of_the_products():
    decision = choose(finite=False)
    assert registry.algorithm(decision.chosen.algorithm).sums_products
    assert "finite=False" in decision.reason
    causes = {c.algorithm: c.cause for c in decision.rejected}
    assert causes["winograd"] == "finite"


def test_inputs_of_any_value_prefer_kernels_without_zeros_of_other_channels():
    """Plain NCHW input has no surplus lanes; blocked input of 20 channels has nothing better."""
    ragged = Conv2dWorkload.parse("mb1ic20ih14oc32kh3ph1")
    assert "zero weights" in choose(ragged, finite=False).reason
    plain = replace(ragged, data_layout="NCHW")
    assert "zero weights" not in choose(plain, finite=False).reason
    assert "zero weights" not in choose(DEPTHWISE, finite=False).reason
    assert "finite=" not in choose(ragged).reason


@pytest.mark.parametrize("value", [None, 1, "no"])
def test_finite_is_a_boolean(value):
    with pytest.raises(ConfigError, match="finite="):
        make_policy(finite=value)


def test_decision_survives_json():
    decision = choose(layer="a/b")
    again = Decision.from_json(decision.to_json())
    assert again == decision
    assert again.chosen.parts == decision.chosen.parts
    typed = replace(decision, workload=replace(DENSE, types=DataTypes(*["float16"] * 4)))
    assert Decision.from_json(typed.to_json()) == typed


def test_allow_list_that_cannot_compute_the_layer_names_it():
    with pytest.raises(ConfigError, match=r"'features\.3'.*direct: not in algorithms="):
        choose(layer="features.3", algorithms=["depthwise"])


def test_unknown_algorithm_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"winogard.*direct"):
        check_algorithms(["winogard"])


def test_an_algorithm_can_be_left_out():
    assert "winograd" not in check_algorithms(["-winograd"])
    assert check_algorithms(["direct", "winograd", "-winograd"]) == ("direct",)
    decision = choose(algorithms=["-winograd"])
    assert decision.chosen.algorithm != "winograd"
    assert {o.cause for o in decision.rejected if o.algorithm == "winograd"} == {"disallowed"}


def test_packed_bytes_are_those_of_the_packed_weight():
    (offer,) = candidates(DENSE, AVX512, "direct")
    assert offer.packed_weight_bytes == 4 * 64 * 64 * 9


@pytest.mark.parametrize("machine", [AVX512, AVX2, replace(AVX512, cores=4)], ids=str)
@pytest.mark.parametrize("name", registry.ALGORITHMS)
def test_parts_of_the_cost_add_up(name, machine):
    for workload in (DENSE, DEPTHWISE, FIRST, STRIDED):
        for offer in candidates(workload, machine, name):
            if offer.parts:
                assert sum(offer.parts.values()) == pytest.approx(offer.cycles)


def test_smaller_error_budgets_take_smaller_tiles_and_then_plain_sums():
    errors = sorted({o.error for o in candidates(DENSE, AVX512, "winograd")})
    cycles = []
    for budget in reversed(errors):
        chosen = choose(algorithms=["winograd", "direct"], error_budget=budget).chosen
        assert chosen.error <= budget
        cycles.append(chosen.cycles)
    assert cycles == sorted(cycles)
    decision = choose(algorithms=["winograd", "direct"], error_budget=0)
    assert decision.chosen.algorithm == "direct"
    assert "kept though its error estimate" in decision.reason


def test_candidates_beyond_the_error_budget_say_so():
    offers = candidates(DENSE, AVX512, "winograd")
    budget = sorted(o.error for o in offers)[len(offers) // 2]
    decision = choose(error_budget=budget)
    beyond = [o for o in decision.rejected if o.error > budget]
    assert beyond
    assert all(o.cause == "error" and "exceeds the budget" in o.rejected for o in beyond)


def test_faster_candidates_beyond_the_budget_are_named_in_the_reason():
    (direct,) = candidates(DENSE, AVX512, "direct")
    fastest = min(candidates(DENSE, AVX512, "winograd"), key=lambda o: o.cycles)
    assert fastest.cycles < direct.cycles
    decision = choose(algorithms=["direct", "winograd"], error_budget=1e-9)
    assert decision.chosen.algorithm == "direct"
    reason = choose(algorithms=["direct", "winograd"], error_budget=direct.error).reason
    named, _, why = reason.partition("; ")[2].partition(" would be ")
    assert named.startswith("winograd with ")
    assert all(f"{k}={v}" in named for k, v in fastest.config.items() if k in ("mh", "mw"))
    assert "times faster, but its error estimate" in why


def test_memory_budget_bounds_the_workspace():
    free = choose(algorithms=["winograd", "direct"]).chosen
    assert free.workspace_bytes > 0
    offers = candidates(DENSE, AVX512, "winograd")
    for budget in sorted({0, *(o.workspace_bytes for o in offers)}):
        decision = choose(algorithms=["winograd", "direct"], memory_budget=budget)
        chosen = decision.chosen
        assert chosen.workspace_bytes <= budget
        allowed = [
            o for o in (*offers, *candidates(DENSE, AVX512, "direct"))
            if o.workspace_bytes <= budget and o.error <= 5e-6
        ]  # fmt: skip
        assert chosen.cycles == min(o.cycles for o in allowed)
        assert all("workspace" in o.rejected for o in decision.rejected if o.cause == "memory")


def test_impossible_memory_budget_names_layer_and_least_bytes():
    least = min(o.workspace_bytes for o in candidates(DENSE, AVX512, "winograd"))
    with pytest.raises(ConfigError, match=rf"'layer2'.* {least} bytes of workspace"):
        choose(layer="layer2", algorithms=["winograd"], memory_budget=least - 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"error_budget": -1},
        {"error_budget": float("nan")},
        {"memory_budget": -1},
        {"memory_budget": 1.5},
        {"algorithms": ["fft"]},
    ],
)
def test_bad_arguments_are_named(arguments):
    (name,) = arguments
    with pytest.raises(ConfigError, match=name):
        make_policy(**arguments)


@pytest.mark.parametrize("name", registry.REPRODUCTIONS)
def test_reproductions_are_never_taken(name):
    workload = FIRST if name == "im2win_nchw" else DENSE
    assert registry.algorithm(name).unsupported(workload, AVX512) is None
    decision = choose(workload)
    assert name not in {decision.chosen.algorithm, *(o.algorithm for o in decision.rejected)}
    with pytest.raises(ConfigError, match=f"{name} only reproduces its paper, for bench; choose"):
        make_policy(algorithms=[name, "direct"])
    with pytest.raises(ConfigError, match=f"{name} only reproduces its paper"):
        make_policy(overrides={"conv1": {"algorithm": name}})

    def pick(layer, workload, offers):
        return replace(offers[0], algorithm=name)

    with pytest.raises(ConfigError, match="must return a candidate"):
        select(workload, AVX512, policy=make_policy(overrides=pick))


def test_what_is_never_taken_may_be_left_out():
    assert check_algorithms(["-winograd_eta"]) == registry.choices()
    assert registry.ALGORITHMS.keys().isdisjoint(registry.REPRODUCTIONS)


def test_a_candidate_of_an_earlier_version_can_be_asked_for():
    """A knob that its config lacks has its backward-compatible default."""

    def pick(layer, workload, offers):
        direct = next(o for o in offers if o.algorithm == "direct")
        knobs = {k: v for k, v in direct.config.items() if k != "fetch_weight"}
        return replace(direct, config=Config.of(**knobs))

    assert choose(overrides=pick).chosen.config["fetch_weight"] == 0


def test_reasons_say_which_vectors_a_layer_has_and_what_the_others_would_take():
    scalable = select(DENSE, SVE, policy=make_policy(["direct"]))
    assert scalable.chosen.config["vectors"]
    (fixed,) = (o for o in scalable.rejected if o.algorithm == "direct")
    assert not fixed.config["vectors"]
    ratio = f"{fixed.cycles / scalable.chosen.cycles:.2f}"
    assert f"; SVE code: NEON code is predicted to take {ratio} times as long (direct with" in (
        scalable.reason
    )
    # the other way round where vectors are NEON's length and rows of seven fill none
    small = Conv2dWorkload.parse("mb1ic64ih7oc64kh3ph1")
    neon = select(small, SCALABLE["neoverse-v2+sve"], policy=make_policy(["direct"]))
    assert not neon.chosen.config["vectors"]
    assert "; NEON code: SVE code is predicted to take 1." in neon.reason
    text = "mb1ic64ih14oc64kh3ph1:s8s8s32s8"
    bytes_, grouped = (select(Conv2dWorkload.parse(t), SVE) for t in (text, f"g32{text}"))
    assert "; SVE code: NEON code is predicted to take 1." in bytes_.reason
    assert grouped.reason.endswith("; NEON code: no algorithm has SVE code for it")
    assert "SVE" not in select(DENSE, AVX512).reason


def test_tiles_of_few_blocks_are_not_taken_where_a_layer_has_more():
    """LLVM moves vectors between registers there."""
    for problem in ("mb1ic128ih28oc128kh3ph1", "mb1ic128ih112oc128kh3ph1"):
        chosen = select(Conv2dWorkload.parse(problem), SCALABLE["neoverse-v1+sve"]).chosen
        assert chosen.algorithm == "winograd"
        assert chosen.config.int("kr") >= 4


def with_excess(workload, excess):
    """Facts of weights that need so many more steps; None for any weights."""
    facts = WeightFacts.any_weights(workload)
    return facts if excess is None else replace(facts, excess=tuple(excess))


@pytest.mark.parametrize(("excess", "steps"), [(0, 0), (2, 2), (3, 4), (12, 12)])
def test_products_of_bytes_have_the_steps_that_weights_need(excess, steps):
    workload = Conv2dWorkload.parse("ic256ih14oc256kh1:u8s8s32u8+bias")
    decision = select(workload, AVX2, facts=with_excess(workload, [excess] * 3))
    assert (decision.chosen.algorithm, decision.chosen.config["excess"]) == ("direct_bytes", steps)
    fewer = [o for o in decision.rejected if o.config.get("excess", steps) < steps]
    assert all(f"need {excess} more steps" in o.rejected for o in fewer)


def test_products_of_bytes_are_left_where_too_many_weights_need_more():
    workload = Conv2dWorkload.parse("ic256ih14oc256kh1:u8s8s32u8+bias")
    for excess in ([13] * 3, None):
        assert (
            select(workload, AVX2, facts=with_excess(workload, excess)).chosen.algorithm == "direct"
        )
    with pytest.raises(ConfigError, match="need 13 more steps to be exact, and it has 2"):
        policy = make_policy(
            overrides={"conv1": {"algorithm": "direct_bytes", "knobs": {"excess": 2}}}
        )
        select(workload, AVX2, layer="conv1", facts=with_excess(workload, [13] * 3), policy=policy)
