"""Decisions for single layers."""

from __future__ import annotations

import pytest

from tvmconv import registry
from tvmconv.decision import Decision
from tvmconv.errors import ConfigError
from tvmconv.machine import MACHINES
from tvmconv.selection.policy import check_algorithms, make_policy
from tvmconv.selection.select import candidates, select
from tvmconv.workload import Conv2dWorkload

AVX512, AVX2 = MACHINES["x86-64-v4"], MACHINES["x86-64-v3"]
DENSE = Conv2dWorkload.parse("mb1ic64ih14oc64kh3ph1sh2+bias+relu")
DEPTHWISE = Conv2dWorkload.parse("g64mb1ic64ih14oc64kh3ph1+bias+relu")
FIRST = Conv2dWorkload.parse("mb1ic3ih32oc64kh3ph1:nchw+bias")


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("workload", "name"), [(DENSE, "direct"), (DEPTHWISE, "depthwise"), (FIRST, "direct_first")]
)
def test_algorithm_of_each_kind_of_layer(workload, name, machine):
    decision = select(workload, machine, layer="conv1")
    assert (decision.layer, decision.chosen.algorithm) == ("conv1", name)
    assert decision.chosen.seconds > 0
    assert decision.chosen.workspace_bytes == 0
    assert decision.reason


def test_every_other_algorithm_is_listed_with_its_reason():
    decision = select(DENSE, AVX512)
    names = {decision.chosen.algorithm, *(c.algorithm for c in decision.rejected)}
    assert names == set(registry.ALGORITHMS)
    assert all(c.rejected for c in decision.rejected)
    assert "depthwise" in next(c.rejected for c in decision.rejected if c.algorithm == "depthwise")


def test_decision_survives_json():
    decision = select(DENSE, AVX512, layer="a/b")
    assert Decision.from_json(decision.to_json()) == decision


def test_allow_list_that_cannot_compute_the_layer_names_it():
    with pytest.raises(ConfigError, match=r"'features\.3'.*direct: not in algorithms="):
        select(DENSE, AVX512, layer="features.3", policy=make_policy(["depthwise"]))


def test_unknown_algorithm_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"winogard.*direct"):
        check_algorithms(["winogard"])


def test_packed_bytes_are_those_of_the_packed_weight():
    (offer,) = candidates(DENSE, AVX512, "direct")
    assert offer.packed_weight_bytes == 4 * 64 * 64 * 9
