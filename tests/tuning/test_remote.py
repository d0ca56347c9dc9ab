"""Devices of a tracker on this machine's loopback: identity, loss, nothing left."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

import psutil
import pytest

from tests.tuning.examples import SMALL, V3, default
from tvmconv.core.errors import TvmconvError
from tvmconv.records.logfile import read_log
from tvmconv.remote import count_devices, is_loopback, parse_address
from tvmconv.tuning.compare import tune_auto
from tvmconv.tuning.journal import Journal
from tvmconv.tuning.measure import Final, Quick
from tvmconv.tuning.pool import Failure, Limits, Pool, Running
from tvmconv.tuning.remote import RemoteMeasurer
from tvmconv.tuning.results import MeasuredChoice
from tvmconv.tuning.session import Task, tune
from tvmconv.tuning.settings import Settings

GOOD = default(SMALL, V3)
QUICK = Quick(samples=2, seconds=1e-3)

_TRACKER = """
import sys
from tvm.rpc.tracker import Tracker
tracker = Tracker(host="127.0.0.1", port=19190, port_end=19290, silent=True)
print(tracker.port, flush=True)
sys.stdin.read()
tracker.terminate()
"""
_SERVER = """
import sys
from tvm.rpc.server import Server
tracker = ("127.0.0.1", int(sys.stdin.readline()))
server = Server(host="127.0.0.1", port=19300, port_end=19400, silent=True, key=sys.argv[1],
                tracker_addr=tracker)
print(server.port, flush=True)
sys.stdin.read()
server.terminate()
"""


def start(code, *words):
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


class Lab:
    def __init__(self, stack):
        self.stack = stack
        tracker = start(_TRACKER)
        stack.callback(self.end, tracker)
        self.devices = {key: start(_SERVER, key) for key in ("left", "right")}
        for device in self.devices.values():
            stack.callback(self.end, device)
        self.port = int(tracker.stdout.readline())
        for device in self.devices.values():
            device.stdin.write(b"%d\n" % self.port)
            device.stdin.flush()
        deadline = time.monotonic() + 30
        while set(count_devices("127.0.0.1", self.port)) != set(self.devices):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    @staticmethod
    def end(process):
        """As when a cable is pulled: nobody says good-bye."""
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                # a server's process of one session may end by itself
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture(scope="module")
def lab():
    with contextlib.ExitStack() as stack:
        yield Lab(stack)


@pytest.fixture(scope="module")
def pool():
    with Pool(workers=2, limits=Limits(run_seconds=6)) as one:
        yield one


def test_two_devices_share_the_work_and_one_may_disappear(lab, pool, tmp_path):
    measurer = RemoteMeasurer(pool, "127.0.0.1", lab.port, ["left", "right"], QUICK)
    choices = [("direct", GOOD.replace(ow=ow)) for ow in (2, 3, 4)]
    trials = list(measurer.trials(SMALL, V3, choices))
    assert [t.status for t in trials] == ["timed"] * 3
    assert [t.config for t in trials] == [config for _, config in choices]
    assert set(measurer.measured) == {"left", "right"}

    lab.end(lab.devices["left"])
    trials = list(measurer.trials(SMALL, V3, choices[:2]))
    assert [t.status for t in trials] == ["timed"] * 2
    results = measurer.interleaved(SMALL, V3, choices[:2], Final(rounds=3, seconds=1e-3))
    assert all(isinstance(r, MeasuredChoice) and len(r.samples) == 3 for r in results)
    assert measurer.identity()["key"] == "right"
    assert measurer.lost in ([], ["left"])

    log = tmp_path / "a.jsonl"
    settings = Settings(trials=2, batch=2, algorithms=("direct",), final=Final(4, 1e-3))
    (outcome,) = tune([Task("small", SMALL)], V3, measurer, log, settings)
    assert outcome.trials == 2
    assert {r.device["key"] for r in read_log(log).records} <= {"right"}

    lab.end(lab.devices["right"])
    with pytest.raises(TvmconvError, match="no device is left"):
        list(measurer.trials(SMALL, V3, choices))


class Hanging:
    """A pool whose candidates on one of two devices never answer."""

    def __init__(self):
        self.limits = Limits()
        self.asked = []

    def start(self, workload, machine, choices, remote=None, draft=False):
        self.asked.append(remote["key"])
        return Silent(remote["key"] == "bad")


class Silent(Running):
    def __init__(self, hangs):
        super().__init__(None, Limits())
        self.hangs = hangs

    def answer(self, seconds, what):
        return {"status": "built"}

    def order(self, what, **details):
        if self.hangs:
            raise Failure("hung", "no answer")
        return {"status": "correct", "error": 0.0, "limit": 1.0, "samples": [1e-3]}

    def close(self):
        pass


def test_a_device_that_hangs_twice_gets_nothing_more(monkeypatch):
    monkeypatch.setattr(RemoteMeasurer, "_devices", lambda self: {"bad": 1, "good": 1})
    pool = Hanging()
    measurer = RemoteMeasurer(pool, "127.0.0.1", 9, ["bad", "good"], QUICK)
    trials = list(measurer.trials(SMALL, V3, [("direct", GOOD)] * 12))
    assert [trial.status for trial in trials] == ["timed"] * 12
    assert (measurer.lost, measurer.measured["good"]) == (["bad"], 12)
    assert pool.asked.count("bad") == 2
    monkeypatch.setattr(RemoteMeasurer, "_devices", lambda self: {"bad": 1})
    alone = RemoteMeasurer(pool, "127.0.0.1", 9, ["bad"], QUICK)
    with pytest.raises(TvmconvError, match=r"no device is left; lost: bad"):
        list(alone.trials(SMALL, V3, [("direct", GOOD)]))


def test_an_error_of_ours_frees_the_device_and_is_shown(monkeypatch):
    monkeypatch.setattr(RemoteMeasurer, "_devices", lambda self: {"good": 2})

    def broken(self, what, **details):
        raise RuntimeError("not a failure of the candidate")

    monkeypatch.setattr(Silent, "order", broken)
    measurer = RemoteMeasurer(Hanging(), "127.0.0.1", 9, ["good"], QUICK)
    with pytest.raises(RuntimeError, match="not a failure"):
        list(measurer.trials(SMALL, V3, [("direct", GOOD)] * 12))
    assert [measurer._take(), measurer._take()] == ["good", "good"]


def test_missing_devices_and_trackers_are_named(lab, pool):
    with pytest.raises(TvmconvError, match="no device under nowhere"):
        RemoteMeasurer(pool, "127.0.0.1", lab.port, ["nowhere"])
    with pytest.raises(TvmconvError, match="cannot reach"):
        RemoteMeasurer(pool, "127.0.0.1", 9, ["left"])


def test_addresses():
    assert parse_address("127.0.0.1:9190") == ("127.0.0.1", 9190)
    with pytest.raises(TvmconvError, match="host:port"):
        parse_address("9190")
    assert is_loopback("127.0.0.1")
    assert is_loopback("localhost")
    assert not is_loopback("192.168.0.2")


@pytest.mark.slow
def test_metaschedule_searches_on_a_device(lab, tmp_path):
    log = tmp_path / "a.jsonl"
    settings = Settings(trials=4, final=Final(rounds=3, seconds=1e-3))
    journal = Journal(log, {})
    with Pool(workers=2) as pool:
        measurer = RemoteMeasurer(pool, "127.0.0.1", lab.port, ["right"], QUICK)
        outcome = tune_auto(SMALL, V3, measurer, settings, log, journal, lambda: {})
    assert outcome.status in ("recorded", "no gain")
    assert outcome.trials > 0
    assert not outcome.failures
    assert measurer.identity()["key"] == "right"
