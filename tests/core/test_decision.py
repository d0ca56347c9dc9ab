"""Decisions as plain data, in the present form and the first one."""

from __future__ import annotations

import json

import pytest

from tvmconv.core.decision import Candidate, Decision
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.x86 import MACHINES
from tvmconv.selection.select import select

DECISION = select(
    Conv2dWorkload.parse("mb1ic64ih56oc64oh56kh3ph1"), MACHINES["x86-64-v3"], layer="conv"
)


def test_decisions_survive_json() -> None:
    again = Decision.from_json(json.loads(json.dumps(DECISION.to_json())))
    assert again == DECISION
    assert again.chosen.parts == DECISION.chosen.parts


def test_candidates_of_the_first_form_had_seconds_at_a_nominal_clock() -> None:
    data = DECISION.chosen.to_json()
    data["seconds"] = data.pop("cycles") / 2.5e9
    data["parts"] = {name: cycles / 2.5e9 for name, cycles in data["parts"].items()}
    again = Candidate.from_json(data)
    assert again.cycles == pytest.approx(DECISION.chosen.cycles)
    assert again.parts == pytest.approx(DECISION.chosen.parts)
    assert again.to_json().keys() == DECISION.chosen.to_json().keys()
