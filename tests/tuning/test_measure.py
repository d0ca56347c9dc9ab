"""Candidates in processes of their own, and the decision whether a gain is real."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import replace

import psutil
import pytest

from tests.tuning.examples import POINTWISE, SMALL, V3, default
from tvmconv.tuning.candidate import CandidateKernels, SeededOperands
from tvmconv.tuning.measure import Final, LocalMeasurer
from tvmconv.tuning.pool import Failure, Limits, Pool, Running
from tvmconv.tuning.results import MeasuredChoice, gain, is_better

GOOD = default(SMALL, V3)


@pytest.fixture(scope="module")
def pool():
    with Pool(workers=2) as one:
        yield one


def request(config=GOOD):
    return {"machine": V3.to_json(), "threads": 1, "choices": [["direct", config.to_json()]]}


def await_end(pid):
    """Wait for a process whose parent may not have asked for its exit status yet."""
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_good_candidate_is_verified_and_timed(pool):
    (trial,) = LocalMeasurer(pool).trials(SMALL, V3, [("direct", GOOD)])
    assert trial.status == "timed"
    assert 0 < trial.seconds < 1
    assert 0 < trial.error < 1e-5


def test_a_broken_config_costs_only_itself(pool):
    broken = GOOD.replace(oc=9, ow=30)
    choices = [("direct", broken), ("direct", GOOD), ("nonsense", GOOD)]
    assert [t.status for t in LocalMeasurer(pool).trials(SMALL, V3, choices)] == [
        "error",
        "timed",
        "error",
    ]


def test_a_crash_costs_only_itself(pool):
    running, other = pool.build(SMALL, V3, [("direct", GOOD), ("direct", GOOD)])
    os.kill(running.pid, signal.SIGSEGV)
    await_end(running.pid)
    with pytest.raises(Failure, match="crashed"):
        running.order("verify")
    assert other.order("verify")["status"] == "correct"
    other.close()


def test_a_hang_is_ended():
    with Pool(workers=1, limits=Limits(run_seconds=0.5)) as pool:
        (running,) = pool.build(SMALL, V3, [("direct", GOOD)])
        process = psutil.Process(running.pid)
        process.suspend()
        with pytest.raises(Failure, match="hung"):
            running.order("verify")
        process.wait(10)


def test_memory_beyond_the_limit_costs_only_the_candidate():
    # an output of 32 MiB; memory of a small one may be left over from before the fork
    large = replace(POINTWISE, in_height=512, in_width=512)
    with Pool(workers=1, limits=Limits(memory_bytes=1 << 16)) as pool:
        (trial,) = LocalMeasurer(pool).trials(large, V3, [("direct", default(large, V3))])
        assert trial.status in ("error", "crashed")


def test_a_new_process_replaces_one_that_was_killed(pool):
    assert isinstance(pool.build(SMALL, V3, [("direct", GOOD)])[0], Running)
    os.kill(pool.pid, signal.SIGKILL)
    time.sleep(0.2)
    results = [
        t.status
        for _ in range(2)
        for t in LocalMeasurer(pool).trials(SMALL, V3, [("direct", GOOD)])
    ]
    assert results[-1] == "timed"


def test_a_wrong_result_is_seen():
    candidate = CandidateKernels.build(SeededOperands(str(SMALL), V3.lanes), request())
    assert candidate.verify()["status"] == "correct"
    candidate.operands.expected[0, 3, 1, 1] += 0.01
    assert candidate.verify()["status"] == "wrong"


def test_interleaved_samples_alternate(pool):
    choices = [("direct", GOOD), ("direct", GOOD.replace(ow=2)), ("nonsense", GOOD)]
    first, second, third = LocalMeasurer(pool).interleaved(
        SMALL, V3, choices, Final(rounds=5, seconds=1e-4)
    )
    assert isinstance(first, MeasuredChoice)
    assert isinstance(second, MeasuredChoice)
    assert isinstance(third, Failure)
    assert len(first.samples) == len(second.samples) == 5
    assert first.error <= first.limit


def test_gain_beyond_noise():
    noise = random.Random(1)
    base = [1e-3 * noise.uniform(0.95, 1.25) for _ in range(24)]
    same = [1e-3 * noise.uniform(0.95, 1.25) for _ in range(24)]
    fast = [0.8e-3 * noise.uniform(0.95, 1.25) for _ in range(24)]
    assert not is_better(base, same)
    assert is_better(base, fast)
    middle, low = gain(base, fast)
    assert 1.01 < low < middle < 1.5


def test_drift_of_the_machine_is_no_gain():
    # the machine slows down by half during the run; interleaved rounds see it alike
    base = [1e-3 * (1 + turn / 24) for turn in range(24)]
    assert not is_better(base, [t * 0.999 for t in base])
    assert is_better(base, [t * 0.95 for t in base])
