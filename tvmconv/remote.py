"""A saved model on a device: uploaded, run and timed through TVM's RPC.

The functions ``main`` and ``profile`` of the model's shared object do the work there; the device
needs TVM's RPC server and nothing of tvmconv.
"""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvmconv.artifact.facts import ModelFacts, ProgramFacts
from tvmconv.artifact.manifest import Manifest
from tvmconv.artifact.saving import open_artifact
from tvmconv.core.errors import TvmconvError
from tvmconv.core.tensor import TensorInfo
from tvmconv.runtime.arguments import Parameters
from tvmconv.runtime.outputs import Outputs
from tvmconv.runtime.profile import Profile, profile_of
from tvmconv.runtime.timing import Timing, random_inputs
from tvmconv.runtime.weights import weights_path

_CONNECT_SECONDS = 5.0
_WARM_UP = 2


@dataclass(frozen=True)
class Address:
    """An RPC server or, with a key, a device of an RPC tracker.

    TVM's RPC is neither encrypted nor authenticated: use it in trusted networks only.
    """

    host: str
    port: int
    key: str = ""

    def __str__(self) -> str:
        device = f" (device {self.key!r})" if self.key else ""
        return f"{self.host}:{self.port}{device}"


def parse_address(text: str, option: str = "--rpc-tracker") -> tuple[str, int]:
    """Parse ``host:port``."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise TvmconvError(f"cannot read {option} {text!r}. Expected host:port.")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether an address stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def devices_of(host: str, port: int) -> dict[str, int]:
    """Devices that a tracker knows, by key."""
    reason = _refusal(host, port)
    try:
        if not reason:
            return count_devices(host, port)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error)
    raise TvmconvError(
        f"cannot reach the RPC tracker {host}:{port}: {reason}. Start it there, or correct the "
        "address."
    )


def _refusal(host: str, port: int) -> str:
    """The system's reason why no connection is possible; empty if one is."""
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def count_devices(host: str, port: int) -> dict[str, int]:
    """Devices that a tracker knows, by key; raises what TVM raises."""
    from tvmconv.tvm_api.runtime import rpc

    tracker = rpc.connect_tracker(host, port)
    summary: dict[str, Any] = tracker.summary()
    tracker.close()
    keys = [str(info["key"]).removeprefix("server:") for info in summary["server_info"]]
    return dict(Counter(keys))


class RemoteModel(ModelFacts):
    """A model on a device; made by :func:`connected`."""

    def __init__(self, manifest: Manifest, address: Address, session: Any, module: Any) -> None:
        self.manifest = manifest
        self._address = address
        self._parameters = Parameters([program.inputs for program in manifest.programs])
        self._module = module
        self._device = session.cpu(0)

    def run(self, *arguments: Any) -> Outputs:
        """See :meth:`tvmconv.CompiledModel.run`.

        Raises
        ------
        TvmconvError
            Also if the device reports an error, or is lost.
        """
        with _reported(self._address):
            tensors, _ = self._tensors(arguments)
            self._module["main"](*tensors)
            results = [tensor.numpy() for tensor in tensors[len(self.inputs) :]]
        return Outputs(tuple(info.name for info in self.outputs), results)

    def time(self, inputs: Mapping[str, Any] | None = None, *, repeat: int = 20) -> Timing:
        """Measure whole calls by the device's clock, without the network."""
        with _reported(self._address):
            return self._time(self._tensors([self._values(inputs)])[0], repeat)

    def profile(self, inputs: Mapping[str, Any] | None = None, *, repeat: int = 20) -> Profile:
        """Measure every kernel of a call by the device's clock."""
        from tvmconv.tvm_api import runtime

        with _reported(self._address):
            tensors, program = self._tensors([self._values(inputs)])
            total = self._time(tensors, repeat)
            times = runtime.empty((len(program.calls),), "int64", self._device)
            rows = []
            for _ in range(max(repeat, 1)):
                self._module["profile"](*tensors, times)
                rows.append([int(value) for value in times.numpy()])
        return profile_of(rows, total, program.calls, self.threads)

    def _values(self, inputs: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return random_inputs(self.inputs) if inputs is None else inputs

    def _time(self, tensors: Sequence[Any], repeat: int) -> Timing:
        for _ in range(_WARM_UP):
            self._module["main"](*tensors)
        evaluator = self._module.time_evaluator(
            "main", self._device, number=1, repeat=max(repeat, 1)
        )
        return Timing(tuple(float(value) for value in evaluator(*tensors).results))

    def _tensors(self, arguments: Sequence[Any]) -> tuple[list[Any], ProgramFacts]:
        """Inputs, and memory for the outputs, on the device; and the program for them."""
        from tvmconv.tvm_api import runtime

        def empty(info: TensorInfo) -> Any:
            return runtime.empty(info.shape, info.dtype, self._device)

        arrays = self._parameters.bind(arguments)
        pairs = zip(arrays, self.inputs, strict=True)
        images = next((int(a.shape[0]) for a, info in pairs if info.batched), 1)
        inputs = [runtime.tensor(np.ascontiguousarray(a), self._device) for a in arrays]
        program = self.programs[self._parameters.index_of(arrays)]
        outputs = (empty(info.for_images(images)) for info in program.outputs)
        return [*inputs, *outputs], program


@contextmanager
def connected(address: Address, path: Path, verify: bool = True) -> Iterator[RemoteModel]:
    """A saved model that is uploaded to a device and loaded there during the block.

    A server has one client at a time, and this waits until it is free. The model checks the CPU of
    the device; this CPU may lack features. ``verify`` compares hashes before.

    Raises
    ------
    ArtifactError
        If the model's files are damaged.
    TvmconvError
        If the device cannot be reached, or cannot load the model.
    """
    manifest, library = open_artifact(path, verify, here=False)
    name = f"tvmconv-{manifest.library_sha256[:16]}.so"
    session = _session(address)
    with _reported(address):
        session.upload(str(path), name)
        if library.weights is not None:
            session.upload(str(weights_path(path)), str(weights_path(Path(name))))
        module = session.load_module(name)
        if manifest.targets:
            manifest = manifest.for_target(manifest.targets[int(module["target"]())].name)
    yield RemoteModel(manifest, address, session, module)


def _session(address: Address) -> Any:
    from tvmconv.tvm_api.runtime import rpc

    host, port, key = address.host, address.port, address.key
    if not key:
        try:
            with _reported(address):
                return rpc.connect(host, port)
        except TvmconvError:
            # only after a failure, as a server would accept this connection as its client
            if reason := _refusal(host, port):
                raise TvmconvError(
                    f"cannot reach the RPC server {address}: {reason}. Start it there, or correct "
                    "the address."
                ) from None
            raise
    known = devices_of(host, port)
    if not known.get(key):
        names = ", ".join(sorted(known)) or "none"
        raise TvmconvError(
            f"the tracker {host}:{port} has no device under key {key}. Devices: {names}."
        )
    with _reported(address):
        return rpc.connect_tracker(host, port).request(key)


@contextmanager
def _reported(address: Address) -> Iterator[None]:
    """Raise errors of TVM as :class:`TvmconvError` that name the device."""
    try:
        yield
    except TvmconvError:
        raise
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        text = str(error).rpartition("Error caught from RPC call:")[2].strip()
        said = " ".join(text.split()) or type(error).__name__
        raise TvmconvError(f"RPC server {address}: {said[:1000]}") from error
