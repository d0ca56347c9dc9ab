"""Tuning 8-bit layers: bounds of their sums, and candidates that must be exact."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvmconv
from tests.graph.quantised_net import QuantisedNet
from tests.tuning.examples import V3, Instant
from tvmconv.algorithms.integer.saturation import ORDERS
from tvmconv.algorithms.winograd.integers import (
    exact_below,
    integer_transforms,
    largest_sums,
    safe_sum,
    usual_sum,
    worst_sum,
)
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.records.logfile import read_log
from tvmconv.records.space import make_space
from tvmconv.selection.policy import make_policy
from tvmconv.tuning.candidate import CandidateKernels, SeededOperands
from tvmconv.tuning.default_choice import untuned_choice
from tvmconv.tuning.measure import Final, LocalMeasurer
from tvmconv.tuning.pool import Pool
from tvmconv.tuning.session import Task, collect, tune
from tvmconv.tuning.settings import Settings

TYPES = ":u8s8s32u8:zpdata+bias"
SMALL = Conv2dWorkload.parse(f"ic16ih6oc16kh3ph1{TYPES}")
DEEP = Conv2dWorkload.parse(f"ic512ih4oc16kh3ph1{TYPES}")


def request(algorithm, config):
    return {"machine": V3.to_json(), "choices": [[algorithm, config.to_json()]]}


def tiles(space):
    return {(config.int("mh"), config.int("mw")) for config in space.starts}


def test_safe_sums_are_exact_with_the_largest_tile():
    assert safe_sum() == exact_below(*[integer_transforms(4, 3)] * 2)


@pytest.mark.parametrize("channels", [8, 128, 512])
def test_normal_weights_stay_below_the_usual_sum(channels):
    workload = Conv2dWorkload.parse(f"ic{channels}ih8oc64kh3ph1{TYPES}")
    weight = np.random.default_rng(0).normal(0, 36, workload.weight_shape).round().clip(-128, 127)
    reached = largest_sums(weight.astype(np.int8), "uint8").max()
    assert 0.7 * usual_sum(workload) < reached < usual_sum(workload) <= worst_sum(workload)


def test_a_large_tile_of_many_channels_is_built_and_exact():
    config = next(c for c in make_space(DEEP, V3, "winograd").starts if c.int("mh") == 4)
    operands = SeededOperands(str(DEEP), V3.channel_block)
    checked = CandidateKernels.build(operands, request("winograd", config)).verify()
    assert checked["status"] == "correct"
    assert checked["error"] == checked["limit"] == 0


@pytest.mark.parametrize(
    ("steps", "status"), [("", "wrong"), ("+quantise+add", "wrong"), ("+silu", "correct")]
)
def test_one_step_is_wrong_where_nothing_is_approximated(steps, status):
    workload = Conv2dWorkload.parse(f"{SMALL}{steps}")
    kernel = make_kernel(workload, V3, "direct")
    operands = SeededOperands(str(workload), V3.channel_block)
    output = operands.arrays(kernel)[-1]
    lanes = V3.channel_block
    blocked = operands.expected.reshape(1, -1, lanes, 6, 6).transpose(0, 1, 3, 4, 2).copy()
    assert blocked.shape == output.shape
    assert operands.judged(kernel, blocked)["status"] == "correct"
    blocked[0, 1, 2, 3, 4] += 1 if blocked[0, 1, 2, 3, 4] < 255 else -1
    assert operands.judged(kernel, blocked)["status"] == status


def test_a_space_holds_the_tiles_that_are_exact():
    assert (4, 4) in tiles(make_space(DEEP, V3, "winograd"))
    limited = make_space(DEEP, V3, "winograd", facts=WeightFacts(2**25))
    assert (2, 2) in tiles(limited)
    assert (4, 4) not in tiles(limited)


@pytest.mark.parametrize("needed", [0, 3])
def test_a_space_holds_the_steps_that_saturating_weights_need(needed):
    workload = Conv2dWorkload.parse("ic64ih8oc32kh3ph1:u8s8s32u8+bias")
    facts = WeightFacts(0, (needed,) * len(ORDERS))
    space = make_space(workload, V3, "direct_bytes", facts=facts)
    start = make_space(workload, V3, "direct_bytes").starts[0]
    accepted = [n for n in range(5) if space.fits(start.replace(excess=n))]
    assert accepted == [*range(needed, 5)]


def test_the_default_of_a_layer_without_weights_is_that_of_usual_ones():
    workload = Conv2dWorkload.parse(f"ic256ih28oc256kh3ph1{TYPES}")
    large, _ = untuned_choice(workload, V3)[1]["mh"], None
    assert large == 4
    assert untuned_choice(workload, V3, facts=WeightFacts(2**25, (workload.taps,) * 3))[1]["mh"] < 4


def network(tmp_path):
    net = QuantisedNet(1, 16, 8, 8)
    x = net.layer("Conv", net.rounded("x"), 16, 16, 3, 3, pads=[1, 1, 1, 1])
    y = net.layer("Conv", net.rounded(x), 16, 16, 3, 3, pads=[1, 1, 1, 1])
    path = tmp_path / "net.onnx"
    onnx.save(net.model(net.rounded(y)), path)
    return path


def test_a_model_tells_its_bounds(tmp_path):
    tasks = collect(V3, models=[network(tmp_path)])
    integers = [task for task in tasks if task.workload.types.is_integer]
    assert integers
    for task in integers:
        assert 0 < task.facts.largest_sum < worst_sum(task.workload)
    (layer,) = collect(V3, layers=[str(SMALL)])
    assert layer.facts is None


def test_every_candidate_of_8_bits_is_exact(tmp_path):
    settings = Settings(trials=6, batch=6, final=Final(rounds=2, seconds=1e-3))
    with Pool(workers=2) as pool:
        measurer = LocalMeasurer(pool)
        (outcome,) = tune([Task("layer", SMALL)], V3, measurer, tmp_path / "a.jsonl", settings)
    assert outcome.trials == 6
    assert not outcome.failures


def test_records_of_8_bits_are_taken_by_a_build(tmp_path):
    path, log = network(tmp_path), tmp_path / "a.jsonl"
    tasks = collect(V3, models=[path])
    outcomes = tune(tasks, V3, Instant(), log, Settings(trials=8, algorithms=("direct",)))
    assert [outcome.status for outcome in outcomes] == ["recorded"] * len(tasks)
    assert {record.verification["reference"] for record in read_log(log).records} == {"int64"}
    model = tvmconv.build(path, V3, threads=1, algorithms=["direct"], log=log)
    assert "default" not in {decision.chosen.source for decision in model.decisions}


def test_models_in_fixed_point_are_tuned_as_such(tmp_path):
    policy = make_policy(requantize="fixed")
    tasks = collect(V3, models=[network(tmp_path)], policy=policy)
    kinds = {t.workload.types.quantisation.requantise for t in tasks}
    assert "fixed" in kinds
