"""TVM's RPC server of an aarch64 Python, emulated or real: models and candidates from here.

`tests/arm_python.sh` makes such a Python, which runs under qemu.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest

import tvmconv
from tests.cli.verbs import data_of
from tests.emulating import ARM_PYTHON, needs_arm_python
from tests.networks.compare import onnxruntime_outputs, random_inputs
from tests.small_network import small_network
from tvmconv.core.errors import TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.machines.arm import MACHINES
from tvmconv.remote import Address, connected, count_devices
from tvmconv.tuning.measure import Final, Quick
from tvmconv.tuning.pool import Limits, Pool
from tvmconv.tuning.remote import RemoteMeasurer
from tvmconv.tuning.results import MeasuredChoice

pytest.importorskip("tornado")
pytestmark = [pytest.mark.slow, needs_arm_python]

_KEY = "arm"
_START_SECONDS = 300
_TRACKER = """
import sys
from tvm.rpc.tracker import Tracker
tracker = Tracker(host="127.0.0.1", port=19600, port_end=19700, silent=True)
print(tracker.port, flush=True)
sys.stdin.read()
tracker.terminate()
"""
# The server starts a Python of its own by name. Under qemu that must be the command that starts
# the emulator: this system's kernel cannot start a program for another processor.
_SERVER = """
import os, sys
os.environ["TVM_USE_RUNTIME_LIB"] = "1"
sys.executable = sys.argv[1]
from tvm.rpc.server import Server
tracker = ("127.0.0.1", int(sys.argv[2]))
server = Server(host="127.0.0.1", port=19700, port_end=19800, silent=True, key=sys.argv[3],
                tracker_addr=tracker)
print(server.port, flush=True)
sys.stdin.read()
server.terminate()
"""


@contextlib.contextmanager
def started(*command: str) -> Iterator[int]:
    """A process that writes its port when it is ready."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def tracker() -> Iterator[str]:
    """Where a tracker is that has the device under its key."""
    with (
        started(sys.executable, "-c", _TRACKER) as port,
        started(ARM_PYTHON, "-c", _SERVER, ARM_PYTHON, str(port), _KEY),
    ):
        deadline = time.monotonic() + _START_SECONDS
        while not count_devices("127.0.0.1", port).get(_KEY):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("weights", ["embedded", "external"])
def test_a_model_is_run_and_profiled(tracker: str, tmp_path: Path, weights: str) -> None:
    network = small_network()
    onnx.save(network, tmp_path / "small.onnx")
    path = tmp_path / "small.so"
    words = ("--target", "cortex-a72", "--threads", 2, "--weights", weights)
    data_of("compile", tmp_path / "small.onnx", *words, "-o", path)
    inputs = random_inputs(network)
    np.savez(tmp_path / "x.npz", **inputs)
    where = ("--rpc-tracker", tracker, "--rpc-key", _KEY)
    given = ("--input", tmp_path / "x.npz", "-o", tmp_path / "y.npz", "--repeat", 2)
    ran = data_of("run", path, *where, *given)
    assert len(ran["samples"]) == 2
    (expected,) = onnxruntime_outputs(network, inputs).values()
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["output"], expected, atol=1e-6)
    profiled = data_of("profile", path, *where, "--repeat", 2)
    assert len(profiled["layers"]) > 5
    assert sum(row["time_share"] for row in profiled["layers"]) == pytest.approx(1)


def test_a_model_for_another_processor_is_refused_there(tracker: str, tmp_path: Path) -> None:
    host, port = tracker.split(":")
    path = tvmconv.build(small_network(), "x86-64-v3").save(tmp_path / "x86.so")
    with (
        pytest.raises(TvmconvError, match=r"RPC server .*cannot open shared object file"),
        connected(Address(host, int(port), _KEY), path),
    ):
        pass


def test_candidates_are_verified_and_timed(tracker: str) -> None:
    host, port = tracker.split(":")
    machine = MACHINES["cortex-a72"].with_cores(1)
    workload = Conv2dWorkload.parse("mb1ic8ih9iw12oc12kh3ph1+bias+add")
    choices = [
        (name, registry.default_config(name, workload, machine))
        for name in ("direct", "im2col", "winograd")
    ]
    with Pool(workers=1, limits=Limits(build_seconds=120, run_seconds=120)) as pool:
        measurer = RemoteMeasurer(pool, host, int(port), [_KEY], Quick(samples=2, seconds=1e-3))
        trials = list(measurer.trials(workload, machine, choices))
        assert [trial.status for trial in trials] == ["timed"] * len(choices)
        final = Final(rounds=2, seconds=1e-3)
        results = measurer.interleaved(workload, machine, choices, final)
    assert all(isinstance(result, MeasuredChoice) and result.error < 1e-5 for result in results)
    assert measurer.identity() == {"cpu": "remote", "key": _KEY}


def test_the_subcommand_tunes(tracker: str, tmp_path: Path) -> None:
    words = ("--target", "cortex-a72", "--threads", 1, "--trials-per-layer", 2)
    where = ("--rpc-tracker", tracker, "--rpc-key", _KEY, "--tuning-log", tmp_path / "a.jsonl")
    layer = ("--layer", "mb1ic8ih6iw6oc8kh1", "--algorithms", "direct")
    report = data_of("tune", *layer, *words, *where)
    assert report["trials"] == 2
    assert report["failures"] == {}
