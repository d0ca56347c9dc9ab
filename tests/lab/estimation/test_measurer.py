"""Tuning by estimates: candidates under qemu, records that say so."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from tests.cli.verbs import data_of, invoke
from tests.emulating import needs_arm
from tests.estimating import needs_estimation
from tvmconv.core.config import Config
from tvmconv.core.errors import ArtifactError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.lab.estimation import measurer as estimated
from tvmconv.lab.estimation.cores import core_of
from tvmconv.lab.estimation.estimate import Cost, Estimate, LayerEstimate
from tvmconv.lab.estimation.measurer import EstimatingMeasurer
from tvmconv.machines.arm import MACHINES
from tvmconv.records.logfile import read_log
from tvmconv.records.lookup import tuned
from tvmconv.tuning.candidate import SeededOperands
from tvmconv.tuning.measure import Final

A72 = MACHINES["cortex-a72"].with_cores(1)
WORKLOAD = Conv2dWorkload.parse("mb1ic8ih6iw7oc8kh3ph1+bias+relu")
DEFAULT = ("direct", registry.default_config("direct", WORKLOAD, A72))
SMALLER = ("direct", DEFAULT[1].replace(oc=1, oh=1, ow=1))
FOREIGN = ("direct", Config.of(gone=1))


@pytest.fixture
def measurer(monkeypatch):
    monkeypatch.setattr(estimated, "described_method", lambda core: f"by {core.model}")
    return EstimatingMeasurer(A72)


def fake(monkeypatch, results):
    """Replace the emulation: ``results`` gets kernels and operands, and returns outputs."""
    calls = []

    def run(kernels, operands, seconds):
        calls.append([(kernel.algorithm, kernel.config) for kernel in kernels])
        outputs = results(kernels, operands)
        layers = (LayerEstimate(None, Cost(1.5e6 * (n + 1), 10, 5)) for n in range(len(kernels)))
        return Estimate(core_of(A72), tuple(layers)), outputs

    monkeypatch.setattr(estimated, "run_kernels", run)
    return calls


def exact(kernels, operands):
    """The output of a correct kernel, in blocks of four channels."""
    expected = SeededOperands(str(WORKLOAD), 4).expected
    planes, channels, height, width = expected.shape
    blocks = expected.reshape(planes, channels // 4, 4, height, width).transpose(0, 1, 3, 4, 2)
    return [blocks for _ in kernels]


def test_candidates_that_do_not_fit_are_failures(measurer, monkeypatch):
    calls = fake(monkeypatch, exact)
    trials = list(measurer.trials(WORKLOAD, A72, [FOREIGN, DEFAULT, SMALLER]))
    assert [trial.status for trial in trials] == ["error", "timed", "timed"]
    assert [trial.seconds for trial in trials] == [math.inf, pytest.approx(1e-3), 2e-3]
    # a known candidate is not run again
    assert measurer.interleaved(WORKLOAD, A72, [SMALLER, DEFAULT], Final())[1].samples == (
        pytest.approx(1e-3),
    )
    assert calls == [[DEFAULT, SMALLER]]


def test_wrong_results_are_failures(measurer, monkeypatch):
    fake(monkeypatch, lambda kernels, operands: [1.01 * x for x in exact(kernels, operands)])
    (trial,) = measurer.trials(WORKLOAD, A72, [DEFAULT])
    assert (trial.status, trial.seconds) == ("wrong", math.inf)


def test_one_that_crashes_takes_no_other_with_it(measurer, monkeypatch):
    def results(kernels, operands):
        if any((kernel.algorithm, kernel.config) == SMALLER for kernel in kernels):
            raise ArtifactError("layers under qemu: Segmentation fault")
        return exact(kernels, operands)

    calls = fake(monkeypatch, results)
    trials = measurer.trials(WORKLOAD, A72, [DEFAULT, SMALLER])
    assert [trial.status for trial in trials] == ["timed", "crashed"]
    assert calls == [[DEFAULT, SMALLER], [DEFAULT], [SMALLER]]


def test_weights_are_linked_in_portions(measurer, monkeypatch):
    calls = fake(monkeypatch, exact)
    monkeypatch.setattr(estimated, "_MOST_BYTES", 1)
    assert len(list(measurer.trials(WORKLOAD, A72, [DEFAULT, SMALLER]))) == 2
    assert calls == [[DEFAULT], [SMALLER]]


def test_what_says_that_times_are_estimates(measurer):
    assert measurer.times == "by cortex-a57"
    assert measurer.identity() == {"cpu": "estimate for cortex-a57", "estimate": "by cortex-a57"}
    assert measurer.weights == "in L1"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--baselines", "onednn"), "combined with --rpc-tracker"),
        (("--search", "metaschedule"), "combined with --rpc-tracker"),
        (("--rpc-tracker", "127.0.0.1:9190", "--rpc-key", "lab"), "combined with --rpc-tracker"),
        (("--threads", "2"), "one thread, got 2"),
    ],
)
def test_what_estimates_cannot_do_is_refused(words, why):
    layer = ("--layer", str(WORKLOAD), "--target", "cortex-a72", "--estimate")
    result = invoke("tune", *layer, *words)
    assert result.exit_code == 1
    assert why in result.stderr


@needs_arm
@needs_estimation
def test_tune_writes_estimated_records_and_goes_on(tmp_path, monkeypatch):
    log = tmp_path / "a72.jsonl"
    # a default that is easily beaten
    slow = (DEFAULT[0], DEFAULT[1].replace(oc=1, oh=1, ow=1))
    monkeypatch.setattr("tvmconv.tuning.tuner.untuned_choice", lambda *_: slow)
    words = ("tune", "--layer", str(WORKLOAD), "--target", "cortex-a72", "--estimate")
    words += ("--algorithms", "direct", "--tuning-log", log)
    first = data_of(*words, "--trials-per-layer", 4)
    assert first["trials"] == 4
    assert "estimate, not a measurement" in first["estimate_method"]
    assert first["estimated_at"] == "1.50 GHz (Raspberry Pi 4)"
    (record,) = read_log(log).records
    assert record.estimated
    assert record.speedup > 1.5
    assert len(record.samples) == 1
    assert record.tuner["weights"] == "in L1"
    (found,) = tuned(WORKLOAD, A72, "direct", [log])
    assert "estimated to be" in found.source
    # the same command has nothing to do, and one with more trials goes on
    (again,) = data_of(*words, "--trials-per-layer", 4)["workloads"]
    assert again["status"] == "done before"
    more = data_of(*words, "--trials-per-layer", 5)
    (row,) = more["workloads"]
    assert row["remembered"] == 4
    assert more["trials"] == 1
    # another processor's estimates are others: nothing is remembered
    context = json.loads(log.with_suffix(".trials").read_text().splitlines()[0])["context"]
    assert "cortex-a57" in context["times"]
    assert replace(record, device={}).key != record.key
