"""Tuning for GPUs on the emulated driver: candidates, records, resuming, a tracker's device."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from tests.emulated_gpu import EmulatedGpu, needs_emulator
from tests.tuning.examples import record
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.lab.bench.variants import chosen_kernel
from tvmconv.machines.cuda import MACHINES
from tvmconv.records.logfile import append
from tvmconv.records.record import Record, is_near, machine_facts
from tvmconv.records.space import make_space, record_machine, refusal, validate
from tvmconv.records.store import prune
from tvmconv.tuning.search import searches
from tvmconv.tuning.settings import Settings

GPU = MACHINES["cuda:sm_90"]
WORKLOAD = Conv2dWorkload.parse("mb1ic8ih6oc40kh3ph1+bias+relu")
LARGE = Conv2dWorkload.parse("mb32ic64ih28oc128kh3ph1+bias+relu")
# runs with so many trials each, one after the other; a precision may follow a colon
TUNE = """
import json, sys
from pathlib import Path
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import MACHINES
from tvmconv.tuning.measure import GpuMeasurer
from tvmconv.tuning.measure import Final, Quick
from tvmconv.tuning.pool import Pool
from tvmconv.tuning.session import Task, tune
from tvmconv.tuning.settings import Settings

def main():
    workload, log, tracker = sys.argv[1:4]
    workload = Conv2dWorkload.parse(workload)
    quick = Quick(samples=2, seconds=1e-4)
    with Pool(workers=1) as pool:
        if tracker:
            from tvmconv.tuning.remote import RemoteMeasurer
            host, port = tracker.split(":")
            measurer = RemoteMeasurer(pool, host, int(port), ["gpu"], quick)
        else:
            measurer = GpuMeasurer(pool, quick)
        for word in sys.argv[4:]:
            trials, _, precision = word.partition(":")
            settings = Settings(
                trials=int(trials),
                batch=2,
                algorithms=("implicit_gemm_mma" if precision else "direct",),
                final=Final(2, 1e-4),
                precision=precision or "float32",
            )
            (outcome,) = tune(
                [Task("one", workload)], MACHINES["cuda:sm_90"], measurer, Path(log), settings
            )
            print(json.dumps({
                "trials": outcome.trials, "remembered": outcome.remembered,
                "status": outcome.status, "failures": dict(outcome.failures),
                "samples": outcome.samples, "best": outcome.best, "identity": measurer.identity(),
            }))

main()
"""


def gpu_record(gain: float) -> Record:
    """A record that is so many times faster than the default."""
    default = registry.default_config("implicit_gemm", LARGE, GPU)
    other = "single" if default["pipeline"] != "single" else "none"
    return replace(
        record(LARGE, GPU, "implicit_gemm", {"pipeline": other}, 1e-4, gain * 1e-4),
        device={"cpu": "NVIDIA H100"},
    )


def test_a_build_takes_what_a_log_of_the_gpu_holds(tmp_path):
    log = tmp_path / "gpu.jsonl"
    # no other algorithm is predicted to be so much faster than the default of this one
    found = gpu_record(5.0)
    append(log, [found.to_line()])
    assert chosen_kernel(LARGE, GPU, str(log)).config == found.config
    assert chosen_kernel(LARGE, GPU, "none").config != found.config
    # a chip with fewer multiprocessors does not use the record
    small = replace(GPU, model="H100 PCIe", multiprocessors=114)
    assert not is_near(found.machine, small)
    assert chosen_kernel(LARGE, small, str(log)).config != found.config


def rounded_record(precision: str) -> Record:
    """A record of tensor cores, far faster than their default."""
    offers = registry.offers("implicit_gemm_mma", LARGE, GPU)
    (default,) = (each for each in offers if each["precision"] == precision)
    knobs = {**default, "pipeline": "single"}
    return replace(
        record(LARGE, GPU, "implicit_gemm_mma", knobs, 1e-4, 5e-4), device={"cpu": "NVIDIA H100"}
    )


def test_records_of_tensor_cores_serve_builds_of_their_precision_alone(tmp_path):
    log = tmp_path / "gpu.jsonl"
    known = {precision: rounded_record(precision) for precision in ("fp16", "tf32")}
    append(log, [each.to_line() for each in known.values()])
    for precision, found in known.items():
        taken = chosen_kernel(LARGE, GPU, str(log), precision)
        assert (taken.algorithm, taken.config) == (found.algorithm, found.config)
    assert chosen_kernel(LARGE, GPU, str(log)) == chosen_kernel(LARGE, GPU, "none")
    # neither makes the other's place unneeded
    kept, dropped = prune(known.values())
    assert len(kept) == 2 and not dropped


@pytest.mark.parametrize(("weight", "is_held"), [(1.0, True), (1e6, False)])
def test_a_space_holds_the_precisions_that_hold_the_weights(weight, is_held):
    facts = WeightFacts(largest_weight=weight)
    space = make_space(LARGE, GPU, "implicit_gemm_mma", facts=facts, precision="fp16")
    assert bool(space.starts) is is_held


def test_searches_stay_within_the_precision_that_is_asked_for():
    rounded = "implicit_gemm_mma"
    for precision in ("tf32", "fp16"):
        settings = Settings(algorithms=(rounded,), precision=precision)
        (search,) = searches(LARGE, GPU, settings)
        proposed = search.propose(8)
        assert len(proposed) == 8
        assert {config["precision"] for config in proposed} == {precision}
        assert settings.to_json()["precision"] == precision
    assert not searches(LARGE, GPU, Settings(algorithms=(rounded,)))
    assert rounded not in {s.space.algorithm for s in searches(LARGE, GPU, Settings())}
    # as of a build: a budget that is given is kept by tensor cores, too
    exact = Settings(algorithms=(rounded,), precision="tf32", error_budget=1e-5)
    assert not searches(LARGE, GPU, exact)


def test_records_of_gpus_are_read_back_and_held_to_their_limits():
    found = Record.from_line(gpu_record(1.2).to_line())
    assert refusal(found) == ""
    assert record_machine(machine_facts(GPU)) == GPU
    foreign = replace(found, machine={**found.machine, "isa": "sm_70"})
    assert "sm_70 have no schedules" in refusal(foreign)
    torn = replace(found, machine={**found.machine, "lanes": 16})
    assert "other registers" in refusal(torn)
    with pytest.raises(ConfigError, match=r"pipeline='triple' is out of range"):
        validate(LARGE, GPU, "implicit_gemm", found.config.replace(pipeline="triple"))


def test_the_space_of_a_gpu_is_that_of_its_schedules():
    space = make_space(LARGE, GPU, "implicit_gemm")
    assert all(space.fits(start) for start in space.starts)
    assert not space.fits(Config.of(**{**space.starts[0], "m": 96}))
    with pytest.raises(ConfigError, match="'strassen' is unknown"):
        make_space(LARGE, GPU, "strassen")


def run(gpu: EmulatedGpu, log, *trials: str, tracker: str = "") -> list[dict]:
    done = gpu.python("-c", TUNE, str(WORKLOAD), log, tracker, *trials)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def gpu(tmp_path_factory) -> EmulatedGpu:
    return EmulatedGpu(tmp_path_factory.mktemp("gpu"))


@needs_emulator
def test_candidates_are_measured_on_the_gpu_and_remembered(gpu, tmp_path):
    first, again, more, rounded = run(gpu, tmp_path / "a.jsonl", "1", "1", "2", "1:tf32")
    assert (first["trials"], first["failures"]) == (1, {})
    assert first["identity"]["cpu"] == "emulated on the processor"
    assert again["status"] == "done before"
    assert (more["trials"], more["remembered"]) == (2, 1)
    # the second candidate was compared with the default, which was the first one
    assert more["samples"] > 0
    # verified against the bound of their precision, which float32's would refuse
    assert (rounded["trials"], rounded["failures"]) == (1, {})
    assert rounded["best"] == "implicit_gemm_mma"


@needs_emulator
def test_what_nvcc_spills_is_not_timed_but_for_the_default(gpu, tmp_path, monkeypatch):
    spilling = tmp_path / "nvcc"
    said = "s/0 bytes spill loads/8 bytes spill loads/"
    spilling.write_text(f"""#!/bin/sh\n"{gpu.folder}/nvcc" "$@" 2>&1 | sed '{said}' >&2\n""")
    spilling.chmod(0o755)
    monkeypatch.setitem(gpu.environment, "NVCC", str(spilling))
    log = tmp_path / "a.jsonl"
    (found,) = run(gpu, log, "2")
    assert (found["trials"], found["failures"]) == (2, {"spilled": 1})
    lines = [json.loads(line) for line in log.with_suffix(".trials").read_text().splitlines()]
    timed = [line["config"] for line in lines if line.get("status") == "timed"]
    assert timed == [registry.default_config("direct", WORKLOAD, GPU).to_json()]


_SERVER = """
import sys
from tvm.rpc.tracker import Tracker
from tvm.rpc.server import Server
tracker = Tracker(host="127.0.0.1", port=19190, port_end=19290, silent=True)
server = Server(host="127.0.0.1", port=19300, port_end=19400, silent=True, key="gpu",
                tracker_addr=("127.0.0.1", tracker.port))
print(tracker.port, flush=True)
sys.stdin.read()
server.terminate()
tracker.terminate()
"""


@pytest.mark.slow
@needs_emulator
def test_candidates_are_measured_on_the_gpu_of_a_tracker(gpu, tmp_path):
    import subprocess

    lab = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=gpu.environment,
        text=True,
    )
    try:
        port = lab.stdout.readline().strip()
        (found,) = run(gpu, tmp_path / "a.jsonl", "1", tracker=f"127.0.0.1:{port}")
    finally:
        lab.stdin.close()
        lab.wait(30)
    assert (found["trials"], found["failures"]) == (1, {})
    assert found["identity"]["cpu"] == "remote"
