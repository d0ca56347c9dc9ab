"""Selections of several shapes that agree on packed weights."""

from __future__ import annotations

from dataclasses import replace

from tvmconv.core.decision import CAUSES, Decision
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.x86 import MACHINES
from tvmconv.selection.agreement import Agreement
from tvmconv.selection.policy import Policy, make_policy
from tvmconv.selection.select import select

MACHINE = MACHINES["x86-64-v4"]
# a layer of PP-OCR's recognizer for lines of 640 and 160 columns
WIDE = Conv2dWorkload.parse("mb1ic480ih1iw80oc60oh1ow80kh1kw3ph0pw1+bias+silu")
NARROW = replace(WIDE, in_width=20)
# its other layers are a hundred times as much work
REST = Conv2dWorkload.parse("mb1ic512ih56oc512kh3ph1+bias")


def decisions(*workloads: Conv2dWorkload, policy: Policy | None = None) -> dict[int, Decision]:
    return {
        i: select(workload, MACHINE, layer=f"layer{i}", policy=policy)
        for i, workload in enumerate(workloads)
    }


def agreed(
    first: dict[int, Decision], second: dict[int, Decision], policy: Policy | None = None
) -> dict[int, Decision]:
    agreement = Agreement(MACHINE, policy or make_policy())
    assert agreement.improved(first) == first
    agreement.add(first.values())
    return agreement.improved(second)


def test_a_small_layer_takes_the_packed_weights_of_another_shape() -> None:
    first, second = decisions(WIDE, REST), decisions(NARROW, REST)
    before, wanted = second[0].chosen, first[0].chosen.packed_weight_bytes
    assert before.packed_weight_bytes != wanted
    changed = agreed(first, second)
    after = changed[0]
    assert after.chosen.packed_weight_bytes == wanted
    assert (after.chosen.rejected, after.chosen.cause) == ("", "")
    assert after.reason.startswith("shares its weights with another program: 1.")
    assert changed[1] == second[1]
    causes = {(o.algorithm, o.config): o.cause for o in after.rejected}
    assert causes[before.algorithm, before.config] == "sharing"
    assert all(o.cause in CAUSES and o.rejected for o in after.rejected)


def test_agreement_costs_at_most_a_hundredth_of_the_program() -> None:
    # without other layers the difference is the program's
    first, second = decisions(WIDE), decisions(NARROW)
    assert agreed(first, second) == second


def test_overridden_layers_stay() -> None:
    policy = make_policy(overrides={"layer0": {"algorithm": second_best()}})
    first, second = decisions(WIDE, REST), decisions(NARROW, REST, policy=policy)
    assert agreed(first, second, policy) == second
    policy = make_policy(overrides=lambda *_: None)
    assert agreed(first, decisions(NARROW, REST), policy)[0] == decisions(NARROW)[0]


def second_best() -> str:
    decision = decisions(NARROW)[0]
    others = [o for o in decision.rejected if o.algorithm != decision.chosen.algorithm]
    return min((o for o in others if o.cause == "slower"), key=lambda o: o.cycles).algorithm
