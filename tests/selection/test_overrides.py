"""Choices for single layers, from files, mappings and functions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import tvmconv
from tests.graph.network import Net
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.x86 import MACHINES
from tvmconv.selection.overrides import check_used, read_overrides
from tvmconv.selection.policy import make_policy
from tvmconv.selection.select import candidates, select

MACHINE = MACHINES["x86-64-v4"]
DENSE = Conv2dWorkload.parse("mb1ic64ih56oc64kh3ph1+bias+relu")


def chosen(overrides, layer="block.conv1", **arguments):
    policy = make_policy(overrides=overrides, **arguments)
    return select(DENSE, MACHINE, layer=layer, policy=policy)


def test_first_matching_pattern_counts_and_others_are_left_alone():
    overrides = {"block.*": {"algorithm": "direct"}, "*conv1": {"algorithm": "winograd"}}
    decision = chosen(overrides)
    assert (decision.chosen.algorithm, decision.chosen.source) == ("direct", "override")
    assert "block.*" in decision.reason
    assert chosen(overrides, "x.conv1").chosen.algorithm == "winograd"
    assert chosen(overrides, "x").chosen == chosen(None, "x").chosen


def test_names_with_pattern_characters_match_themselves():
    assert chosen({"a[0]": {"algorithm": "direct"}}, "a[0]").chosen.algorithm == "direct"


def test_knobs_are_taken_and_checked():
    entry = {"algorithm": "winograd", "knobs": {"mh": 2, "mw": 2}}
    config = chosen({"*": entry}).chosen.config
    assert (config["mh"], config["mw"]) == (2, 2)
    with pytest.raises(ConfigError, match=r"'block\.conv1'.*unknown knob.*tile"):
        chosen({"*": {"algorithm": "winograd", "knobs": {"tile": 2}}})
    with pytest.raises(ConfigError, match=r"'block\.conv1'.*registers"):
        chosen({"*": {"algorithm": "direct", "knobs": {"ow": 56}}})


def test_overrides_go_before_allow_list_and_error_budget_not_before_memory():
    entry = {"*": {"algorithm": "winograd"}}
    assert chosen(entry, algorithms=["direct"], error_budget=0).chosen.algorithm == "winograd"
    with pytest.raises(ConfigError, match=r"'block\.conv1'.*memory_budget is 0"):
        chosen(entry, memory_budget=0)


def test_algorithm_that_cannot_compute_the_layer_is_an_error():
    with pytest.raises(ConfigError, match=r"'block\.conv1'.*depthwise.*not depthwise"):
        chosen({"*": {"algorithm": "depthwise"}})


def test_function_sees_the_candidates_and_returns_one():
    seen = []

    def slowest(layer, workload, offers):
        seen.append((layer, workload))
        return max(offers, key=lambda o: o.cycles)

    decision = chosen(slowest)
    assert seen == [("block.conv1", DENSE)]
    assert decision.chosen.cycles == max(o.cycles for o in (decision.chosen, *decision.rejected))
    assert "caller" in decision.reason
    assert chosen(lambda *_: None).chosen == chosen(None).chosen


def test_what_a_function_returns_is_checked():
    (direct,) = candidates(DENSE, MACHINE, "direct")
    narrow = replace(direct, config=direct.config.replace(ow=2), cycles=0.0)
    decision = chosen(lambda *_: narrow)
    assert decision.chosen.config["ow"] == 2
    assert decision.chosen.cycles > direct.cycles
    with pytest.raises(ConfigError, match=r"must return a candidate or None, not 'direct'"):
        chosen(lambda *_: "direct")
    wide = replace(direct, config=direct.config.replace(ow=56))
    with pytest.raises(ConfigError, match=r"'block\.conv1'.*registers"):
        chosen(lambda *_: wide)
    with pytest.raises(ConfigError, match=r"'block\.conv1'.*depthwise"):
        chosen(lambda *_: replace(direct, algorithm="depthwise"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be a JSON object"),
        ("[]", "not list"),
        ('{"conv1": "direct"}', "'conv1' must be .*algorithm.* it is 'direct'"),
        ('{"conv1": {"algorithm": 3}}', "'conv1'"),
        ('{"conv1": {"algorithm": "fft"}}', "'conv1' asks for 'fft', .*choose from .*direct"),
        ('{"conv1": {"algorithm": "direct", "tile": 3}}', "unknown entries 'tile'"),
        ('{"conv1": {"algorithm": "direct", "knobs": [3]}}', r"knobs of 'conv1'.*\[3\]"),
        ('{"conv1": {"algorithm": "direct", "knobs": {"oc": 1.5}}}', "'conv1'.*'oc'=1.5"),
        ('{"a": {"algorithm": "direct"}, "a": {"algorithm": "direct"}}', "duplicate key 'a'"),
    ],
)
def test_errors_name_file_layer_and_value(tmp_path, text, message):
    path = tmp_path / "choices.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"choices\.json.*{message}"):
        read_overrides(path)


def test_missing_file_and_unmatched_pattern(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.json"):
        read_overrides(tmp_path / "nowhere.json")
    path = tmp_path / "choices.json"
    path.write_text(json.dumps({"stage9.*": {"algorithm": "direct"}}))
    with pytest.raises(ConfigError, match=r"choices\.json: 'stage9\.\*' matches no.*conv1"):
        check_used(read_overrides(path), ["conv1"])


def test_whole_model_with_budgets_and_overrides(tmp_path):
    net = Net(1, 16, 12, 12)
    model = net.model(net.conv(net.conv("x", 16, 16), 16, 16))
    built = tvmconv.build(model, threads=1, algorithms=["-winograd"])
    layers = [d.layer for d in built.decisions]
    path = tmp_path / "choices.json"
    path.write_text(json.dumps({layers[1]: {"algorithm": "winograd"}}))
    other = tvmconv.build(model, threads=1, algorithms=["-winograd"], overrides=path)
    assert [d.chosen.algorithm for d in other.decisions][1] == "winograd"
    assert other.decisions[0] == built.decisions[0]
    workspace = max(d.chosen.workspace_bytes for d in other.decisions)
    assert other.memory.workspace_bytes == workspace > 0
    x = {"x": np.random.default_rng(0).standard_normal((1, 16, 12, 12), dtype=np.float32)}
    expected = built.run(x)[0]
    scale = float(abs(expected).max())
    np.testing.assert_allclose(other.run(x)[0], expected, atol=1e-5 * scale)
    none = tvmconv.build(model, threads=1, memory_budget=0)
    assert none.memory.workspace_bytes == 0
    with pytest.raises(ConfigError, match=r"'gone' matches no"):
        tvmconv.build(model, threads=1, overrides={"gone": {"algorithm": "direct"}})
