"""The record that a saved model carries, and the checks made on it before loading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from tvmconv.artifact.program_record import MemoryReport, ProgramRecord
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
    others
        Programs for other shapes of the inputs. The fields of this record are for the first shape.
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
    others: tuple[ProgramRecord, ...] = ()

    @property
    def programs(self) -> tuple[Manifest, ...]:
        """A manifest of the model with each program alone."""
        alone = replace(self, others=())
        return (alone, *(replace(alone, **vars(record)) for record in self.others))

    def with_library(self, sha256: str, size: int, weights_sha256: str = "") -> Manifest:
        """The manifest of the same model with its shared object filled in."""
        return replace(
            self, library_sha256=sha256, library_bytes=size, weights_sha256=weights_sha256
        )

    def with_threads(self, threads: int) -> Manifest:
        """The manifest of the same model with another number of threads."""
        return replace(self, threads=threads)

    def _first(self) -> ProgramRecord:
        return ProgramRecord(
            self.inputs,
            self.outputs,
            self.decisions,
            self.calls,
            self.unscheduled,
            self.memory,
            self.reorders,
        )

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
            "policy": dict(self.policy),
            **self._first().to_json(),
            **({"others": [each.to_json() for each in self.others]} if self.others else {}),
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
            **vars(ProgramRecord.from_json(data)),
            policy=dict(data.get("policy", {})),
            versions={str(k): str(v) for k, v in data["versions"].items()},
            library_sha256=str(data["library"]["sha256"]),
            library_bytes=data["library"]["bytes"],
            weights_sha256=str(data["library"].get("weights_sha256", "")),
            others=tuple(map(ProgramRecord.from_json, data.get("others", ()))),
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
        tensors = [t for each in self.programs for t in (*each.inputs, *each.outputs)]
        for tensor in tensors:
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
