"""The record that a saved model carries, and the checks made on it before loading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from tvmconv.core.decision import Decision, KernelCall, Unscheduled
from tvmconv.core.errors import ArtifactError, TvmconvError
from tvmconv.core.files import read_regular
from tvmconv.core.plain_data import check_types, parse
from tvmconv.core.stored_types import STORED
from tvmconv.core.tensor import TensorInfo
from tvmconv.core.version import __version__
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.gate import ensure_executable
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_device

FORMAT = "tvmconv-module"
# 3: the code has tvmconv's C interface
FORMAT_VERSION = 3
READABLE = (3,)
MAX_BYTES = 1 << 28

_MOST = {"threads": 1 << 16, "cores": 1 << 16, "lanes": 1 << 12}
_DTYPES = (
    *("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", *STORED),
)


def manifest_path(library: Path) -> Path:
    """The file of the manifest of ``model.so``: ``model.json`` in the same folder."""
    return library.with_suffix(".json")


@dataclass(frozen=True)
class MemoryReport:
    """Bytes that one model holds, and one call needs.

    Parameters
    ----------
    arena_bytes
        Activations of one call, which the model holds once for each call that runs at a time.
    output_bytes
        Outputs, which the caller holds.
    constant_bytes
        Packed weights and other constants, held once for all calls.
    workspace_bytes
        Scratch memory of one call, for all of its threads; as long as its activations.
    padding_bytes
        The part of activations and constants that is zeros added to fill channel blocks.
    """

    arena_bytes: int = 0
    output_bytes: int = 0
    constant_bytes: int = 0
    workspace_bytes: int = 0
    padding_bytes: int = 0


@dataclass(frozen=True)
class Manifest:
    """Everything known about a compiled model besides its code and constants.

    :class:`~tvmconv.artifact.facts.ModelFacts` describes the fields that models show.

    Parameters
    ----------
    model_sha256
        Hash of the ONNX model's bytes.
    required_features
        CPU flags that the code requires, named as in ``/proc/cpuinfo``.
    reorders
        Layout changes that remained in the graph.
    policy
        Budgets, allowed algorithms, overrides and names of tuning logs.
    versions
        Versions of tvmconv, tvm, tvm_ffi and llvm at build time.
    library_sha256, library_bytes
        Hash and size of the shared object; empty and 0 until it is linked.
    weights_sha256
        Hash of the constants in an external file of weights; otherwise empty.
    """

    model_name: str
    model_sha256: str
    machine: Machine | CudaMachine
    required_features: tuple[str, ...]
    threads: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    decisions: tuple[Decision, ...] = ()
    calls: tuple[KernelCall, ...] = ()
    unscheduled: tuple[Unscheduled, ...] = ()
    memory: MemoryReport = field(default_factory=MemoryReport)
    reorders: int = 0
    policy: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    library_sha256: str = ""
    library_bytes: int = 0
    weights_sha256: str = ""

    def with_library(self, sha256: str, size: int, weights_sha256: str = "") -> Manifest:
        """The manifest of the same model with its shared object filled in."""
        return replace(
            self, library_sha256=sha256, library_bytes=size, weights_sha256=weights_sha256
        )

    def with_threads(self, threads: int) -> Manifest:
        """The manifest of the same model with another number of threads."""
        return replace(self, threads=threads)

    def to_json(self) -> dict[str, Any]:
        """The file's contents."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "versions": {"tvmconv": __version__, **self.versions},
            "model": {"name": self.model_name, "sha256": self.model_sha256},
            "target": self.machine.to_json(),
            "required_features": list(self.required_features),
            "threads": self.threads,
            "inputs": [tensor.to_json() for tensor in self.inputs],
            "outputs": [tensor.to_json() for tensor in self.outputs],
            "memory": asdict(self.memory),
            "reorders": self.reorders,
            "policy": dict(self.policy),
            "decisions": [decision.to_json() for decision in self.decisions],
            "calls": [call.to_json() for call in self.calls],
            "unscheduled": [convolution.to_json() for convolution in self.unscheduled],
            "library": {
                "sha256": self.library_sha256,
                "bytes": self.library_bytes,
                "weights_sha256": self.weights_sha256,
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """Inverse of :meth:`to_json`; malformed data raise errors of many types."""
        manifest = cls(
            model_name=str(data["model"]["name"]),
            model_sha256=str(data["model"]["sha256"]),
            machine=read_device(data["target"]),
            required_features=tuple(map(str, data["required_features"])),
            threads=data["threads"],
            inputs=tuple(TensorInfo.from_json(t) for t in data["inputs"]),
            outputs=tuple(TensorInfo.from_json(t) for t in data["outputs"]),
            decisions=tuple(Decision.from_json(d) for d in data["decisions"]),
            calls=tuple(KernelCall.from_json(c) for c in data["calls"]),
            unscheduled=tuple(Unscheduled.from_json(c) for c in data.get("unscheduled", ())),
            memory=MemoryReport(**data["memory"]),
            reorders=data["reorders"],
            policy=dict(data.get("policy", {})),
            versions={str(k): str(v) for k, v in data["versions"].items()},
            library_sha256=str(data["library"]["sha256"]),
            library_bytes=data["library"]["bytes"],
            weights_sha256=str(data["library"].get("weights_sha256", "")),
        )
        check_types(manifest, cls, "manifest")
        manifest.check_ranges()
        return manifest

    def check_ranges(self) -> None:
        """Raise ``ValueError`` for sizes that no machine and no model has."""
        sizes = {
            name: value for name, value in self.machine.to_json().items() if type(value) is int
        }
        sizes["threads"] = self.threads
        for name, value in sizes.items():
            if not (0 if name == "l3_bytes" else 1) <= value < _MOST.get(name, 1 << 40):
                raise ValueError(f"{name}={value} is out of range")
        for tensor in (*self.inputs, *self.outputs):
            size = prod(tensor.shape) if min(tensor.shape, default=0) >= 0 else -1
            if tensor.dtype not in _DTYPES or not 0 <= size < 1 << 40:
                raise ValueError(f"tensor {tensor} has a type or a size that models do not have")

    def to_text(self) -> str:
        """The file as text."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest file."""
    return parse_manifest(_read(path), path)


def parse_manifest(text: bytes, path: Path) -> Manifest:
    """The manifest in a file's content; see :func:`read_manifest`."""
    data = _parse(text, path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not a tvmconv manifest. Save the model again.")
    version = data.get("format_version")
    if version not in READABLE:
        raise ArtifactError(
            f"{path} has format version {version!r}. Expected {' or '.join(map(str, READABLE))} "
            f"for this tvmconv {__version__}. Build the model again, or install the tvmconv "
            f"that wrote it ({data.get('versions', {}).get('tvmconv', 'unknown')})."
        )
    try:
        return Manifest.from_json(data)
    except (
        KeyError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        TvmconvError,
    ) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ArtifactError(f"{path} is damaged ({reason}). Save the model again.") from error


def is_manifest(path: Path) -> bool:
    """Whether a file is a manifest, of any format version."""
    try:
        data = _parse(_read(path), path)
    except ArtifactError:
        return False
    return isinstance(data, dict) and data.get("format") == FORMAT


def is_copy(text: bytes, path: Path) -> bool:
    """Whether a file holds the same record as a text, spaces and line ends aside."""
    try:
        content = _read(path)
        return content == text or bool(_parse(content, path) == _parse(text, path))
    except ArtifactError:
        return False


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        raise ArtifactError(
            f"{path} is missing. Copy it with the .so of the same name, or save the model again."
        ) from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error


def _parse(text: bytes, path: Path) -> Any:
    try:
        return parse(text.decode())
    except ValueError as error:
        raise ArtifactError(f"{path} is not valid JSON ({error}). Save the model again.") from error


def check_features(manifest: Manifest, what: str) -> None:
    """Check that this CPU has every feature that the code may use."""
    built = f"{what} was built for {manifest.machine.described}"
    ensure_executable(manifest.required_features, built)
