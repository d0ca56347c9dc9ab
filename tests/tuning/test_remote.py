"""Devices of a tracker on this machine's loopback: identity, loss, nothing left."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

import pytest

from tests.tuning.examples import SMALL, V3, default
from tvmconv.errors import TvmconvError
from tvmconv.tuning.logfile import read_log
from tvmconv.tuning.measure import Final, Measured, Quick
from tvmconv.tuning.pool import Limits, Pool
from tvmconv.tuning.remote import RemoteMeasurer, is_loopback, parse_address
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
server = Server(host="127.0.0.1", port=19300, port_end=19400, silent=True, key=sys.argv[2],
                tracker_addr=("127.0.0.1", int(sys.argv[1])))
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
        self.port = int(tracker.stdout.readline())
        self.devices = {key: start(_SERVER, str(self.port), key) for key in ("left", "right")}
        for device in self.devices.values():
            stack.callback(self.end, device)
            device.stdout.readline()
        time.sleep(1.5)

    @staticmethod
    def end(process):
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()
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
    trials = list(measurer.trials(SMALL, V3, choices))
    assert [t.status for t in trials] == ["timed"] * 3
    results = measurer.interleaved(SMALL, V3, choices[:2], Final(rounds=3, seconds=1e-3))
    assert all(isinstance(r, Measured) and len(r.samples) == 3 for r in results)
    assert measurer.identity()["key"] == "right"
    assert measurer.lost in ([], ["left"])

    log = tmp_path / "a.jsonl"
    settings = Settings(trials=2, batch=2, algorithms=("direct",), final=Final(4, 1e-3))
    (outcome,) = tune([Task("small", SMALL)], V3, measurer, log, settings)
    assert outcome.trials == 2
    if log.exists():
        assert {r.device["key"] for r in read_log(log).records} == {"right"}

    lab.end(lab.devices["right"])
    with pytest.raises(TvmconvError, match="no device is left"):
        list(measurer.trials(SMALL, V3, choices))


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
