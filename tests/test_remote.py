"""A saved model on a server of TVM's RPC on this machine's loopback."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest

import tvmconv
from tests.cli.verbs import data_of, invoke
from tests.small_network import small_network
from tvmconv.core.errors import InputError, TvmconvError
from tvmconv.machines.targets import resolve_machine
from tvmconv.remote import Address, connected, devices_of

pytest.importorskip("tornado")

SERVER = """
import sys
from tvm.rpc.server import Server
server = Server(host="127.0.0.1", port=19500, port_end=19600, silent=True)
print(server.port, flush=True)
sys.stdin.read()
server.terminate()
"""
# a tracker, and a server that offers itself there
LAB = """
import sys
from tvm.rpc.server import Server
from tvm.rpc.tracker import Tracker
started = []
try:
    started.append(Tracker(host="127.0.0.1", port=19610, port_end=19700, silent=True))
    started.append(Server(host="127.0.0.1", port=19700, port_end=19800, silent=True, key="lab",
                          tracker_addr=("127.0.0.1", started[0].port)))
    print(started[0].port, flush=True)
    sys.stdin.read()
except (OSError, ValueError) as error:
    print(error, flush=True)
for one in started:
    one.terminate()
"""
VALUES = [onnx.helper.make_tensor_value_info(name, 1, [2, 7]) for name in ("x", "y")]
RELU = onnx.helper.make_model(
    onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])], "relu", VALUES[:1], VALUES[1:]
    ),
    opset_imports=[onnx.helper.make_opsetid("", 17)],
    ir_version=8,
)


class Device:
    def __init__(self, code: str = SERVER, key: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if "cannot bind" in answer or "Permission denied" in answer:
            self.end()
            pytest.skip(f"no port on this machine's loopback: {answer.strip()}")
        self.address = Address("127.0.0.1", int(answer), key)

    def end(self) -> None:
        """As when a cable is pulled."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            child.kill()
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    one = Device()
    yield one
    one.end()


@pytest.fixture(scope="module")
def lab() -> Iterator[Device]:
    one = Device(LAB, "lab")
    try:
        deadline = time.monotonic() + 120
        # the server tells the tracker of itself when it has started
        while not devices_of(one.address.host, one.address.port):
            assert one.process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield one
    finally:
        one.end()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote")
    (path / "small.onnx").write_bytes(small_network().SerializeToString())
    model = tvmconv.build(path / "small.onnx", threads=1)
    for weights in ("embedded", "external"):
        model.save(path / f"{weights}.so", weights=weights)
    return path


def image(model: tvmconv.CompiledModel) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(2)
    return {t.name: generator.standard_normal(t.shape, np.float32) for t in model.inputs}


@pytest.mark.parametrize("weights", ["embedded", "external"])
def test_values_times_and_layers(device: Device, folder: Path, weights: str) -> None:
    here = tvmconv.load(folder / f"{weights}.so")
    inputs = image(here)
    session = onnxruntime.InferenceSession(str(folder / "small.onnx"))
    (wanted,) = session.run(None, inputs)
    with connected(device.address, folder / f"{weights}.so") as there:
        outputs = there.run(inputs)
        timing = there.time(inputs, repeat=3)
        profile = there.profile(repeat=2)
        with pytest.raises(InputError, match="missing input"):
            there.run({})
    np.testing.assert_allclose(outputs[0], wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(outputs[0], here.run(inputs)[0])
    assert outputs.names == here.run(inputs).names
    assert len(timing.samples) == 3 and timing.min > 0
    assert [kernel.call for kernel in profile] == list(here.calls)
    assert all(len(kernel.samples) == 2 for kernel in profile)
    assert profile.kernel_seconds > 0


def test_subcommands(device: Device, folder: Path) -> None:
    where = ("--rpc", str(device.address))
    there = data_of("run", folder / "embedded.so", *where, "--repeat", 2)
    assert there["values"] == data_of("run", folder / "embedded.so")["values"]
    assert len(there["samples"]) == 2
    built = data_of("run", folder / "small.onnx", "--threads", 1, *where)
    assert built["values"] == there["values"]
    report = data_of("profile", folder / "external.so", *where, "--repeat", 2)
    assert sum(row["time_share"] for row in report["layers"]) == pytest.approx(1)
    assert report["peak"] is None
    text = invoke("profile", folder / "embedded.so", *where, "--repeat", 1)
    assert text.exit_code == 0, text.output


def test_a_device_of_a_tracker(lab: Device, folder: Path) -> None:
    tracker = ("--rpc-tracker", f"{lab.address.host}:{lab.address.port}", "--rpc-key")
    here = data_of("run", folder / "embedded.so")
    for name in ("embedded.so", "external.so"):  # it comes back to the tracker in between
        there = data_of("run", folder / name, *tracker, "lab", "--repeat", 2)
        assert there["values"] == here["values"]
        assert len(there["samples"]) == 2
    report = data_of("profile", folder / "embedded.so", *tracker, "lab", "--repeat", 2)
    calls = [call.layer for call in tvmconv.load(folder / "embedded.so").calls]
    assert [row["layer"] for row in report["layers"]] == calls
    assert sum(row["time_share"] for row in report["layers"]) == pytest.approx(1)
    wrong = invoke("run", folder / "embedded.so", *tracker, "attic")
    assert wrong.exit_code == 1
    assert "no device under key attic. Devices: lab." in wrong.stderr


def test_a_model_that_the_device_cannot_run(device: Device, tmp_path: Path) -> None:
    """The device's own message: this host is not asked whether it could run the model."""
    missing = "xop"  # for CPUs without AVX2
    machine = resolve_machine("native", 1)
    foreign = replace(machine, features=(*machine.features, missing))
    path = tvmconv.build(RELU, foreign).save(tmp_path / "foreign.so")
    with pytest.raises(TvmconvError, match=f"needs .*{missing}"):
        tvmconv.load(path)
    with (
        connected(device.address, path) as there,
        pytest.raises(TvmconvError, match=rf"RPC server 127.0.0.1:\d+: .*{missing}"),
    ):
        there.run({"x": np.zeros((2, 7), np.float32)})


def test_a_device_that_goes(folder: Path) -> None:
    gone = Device()
    with connected(gone.address, folder / "embedded.so") as there:
        gone.end()
        with pytest.raises(TvmconvError, match=r"RPC server 127\.0\.0\.1"):
            there.run({t.name: np.zeros(t.shape, t.dtype) for t in there.inputs})
    with (
        pytest.raises(
            TvmconvError, match=r"cannot reach the RPC server 127.0.0.1:\d+: .*refused. "
        ),
        connected(gone.address, folder / "embedded.so"),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rpc", "9090"), "cannot read --rpc '9090'"),
        (("--rpc", "127.0.0.1:9"), "cannot reach the RPC server 127.0.0.1:9: Connection refused. "),
        (("--rpc-tracker", "127.0.0.1:9"), "with --rpc-key KEY"),
        (("--rpc-key", "lab"), "with --rpc-key KEY"),
        (("--rpc-tracker", "127.0.0.1:9", "--rpc-key", "lab"), "127.0.0.1:9: Connection refused. "),
        (("--rpc", "127.0.0.1:9", "--threads", "2"), "Leave out --threads"),
        (("--rpc", "127.0.0.1:9", "--target", "x86-64-v3"), "require an ONNX model"),
        (
            ("--rpc", "127.0.0.1:9", "--compare-onnxruntime", "--onnx", "x"),
            "cannot be combined with --rpc",
        ),
    ],
    ids=" ".join,
)
def test_errors_are_one_line(folder: Path, words: tuple[str, ...], message: str) -> None:
    result = invoke("run", folder / "embedded.so", *words)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Check failed" not in result.stderr and "Errno" not in result.stderr
