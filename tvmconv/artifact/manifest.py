"""The record that a saved model carries, and the checks made on it before loading."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from tvmconv.artifact.program_record import (
    MALFORMED,
    MemoryReport,
    ProgramRecord,
    StoredDecisions,
)
from tvmconv.artifact.target_record import TargetRecord
from tvmconv.core.decision import Decision, KernelCall, Unscheduled
from tvmconv.core.errors import ArtifactError
from tvmconv.core.files import read_regular
from tvmconv.core.plain_data import check_types, parse
from tvmconv.core.stored_types import STORED
from tvmconv.core.tensor import TensorInfo
from tvmconv.core.version import __version__
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.record import Machine

FORMAT = "tvmconv-module"
# 3: the code has tvmconv's C interface; 4: the same, for several targets
FORMAT_VERSION = 3
SEVERAL_TARGETS_VERSION = 4
READABLE = (FORMAT_VERSION, SEVERAL_TARGETS_VERSION)
MAX_BYTES = 1 << 28

# the index of one of several targets
Select = Callable[[Sequence[TargetRecord]], int]

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
    targets
        All targets of a model with several, in the order in which they are preferred. The other
        fields are for one of them.
    """

    model_name: str
    model_sha256: str
    machine: Machine | CudaMachine
    required_features: tuple[str, ...]
    threads: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    decisions: tuple[Decision, ...] | StoredDecisions = ()
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
    targets: tuple[TargetRecord, ...] = ()

    @property
    def programs(self) -> tuple[Manifest, ...]:
        """A manifest of the model with each program alone, for one target."""
        alone = replace(self, others=(), targets=())
        return (alone, *(replace(alone, **vars(record)) for record in self.others))

    def with_library(self, sha256: str, size: int, weights_sha256: str = "") -> Manifest:
        """The manifest of the same model with its shared object filled in."""
        return replace(
            self, library_sha256=sha256, library_bytes=size, weights_sha256=weights_sha256
        )

    def for_target(self, name: str) -> Manifest:
        """The manifest of the same model with the fields for one of its targets."""
        if name == self.machine.name:
            return self
        record = next(each for each in self.targets if each.name == name)
        try:
            first, *others = record.programs
        except MALFORMED as error:
            raise ArtifactError(
                f"the programs for {name} of model {self.model_name!r} are damaged "
                f"({type(error).__name__}: {error}). Save the model again."
            ) from error
        return replace(
            self,
            machine=record.machine,
            required_features=record.required_features,
            **vars(first),
            others=tuple(others),
        )

    def with_threads(self, threads: int) -> Manifest:
        """The manifest of the same model with another number of threads."""
        return replace(self, threads=threads)

    def record(self, own_constant_bytes: int = 0) -> TargetRecord:
        """The fields for the target alone."""
        first = ProgramRecord(
            self.inputs,
            self.outputs,
            self.decisions,
            self.calls,
            self.unscheduled,
            self.memory,
            self.reorders,
        )
        programs = (first, *self.others)
        return TargetRecord.of(self.machine, self.required_features, programs, own_constant_bytes)

    def to_json(self) -> dict[str, Any]:
        """The file's contents."""
        first, *others = self.targets or (self.record(),)
        fields = first.to_json()
        if others:
            fields["other_targets"] = [each.to_json() for each in others]
        else:
            del fields["own_constant_bytes"]
        return {
            "format": FORMAT,
            "format_version": SEVERAL_TARGETS_VERSION if others else FORMAT_VERSION,
            "versions": {"tvmconv": __version__, **self.versions},
            "model": {"name": self.model_name, "sha256": self.model_sha256},
            "threads": self.threads,
            "policy": dict(self.policy),
            **fields,
            "library": {
                "sha256": self.library_sha256,
                "bytes": self.library_bytes,
                "weights_sha256": self.weights_sha256,
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], select: Select | None = None) -> Manifest:
        """Inverse of :meth:`to_json`; malformed data raise errors of many types.

        ``select`` gives the index of the target of several whose fields the manifest has, by
        default the first one.
        """
        several = data["format_version"] == SEVERAL_TARGETS_VERSION
        records = [data, *(data["other_targets"] if several else ())]
        targets = tuple(map(TargetRecord.from_json, records))
        if len({each.name for each in targets}) < len(targets):
            raise ValueError("two targets have one name")
        chosen = targets[select(targets) if several and select else 0]
        first, *others = chosen.unchecked()
        manifest = cls(
            model_name=str(data["model"]["name"]),
            model_sha256=str(data["model"]["sha256"]),
            machine=chosen.machine,
            required_features=chosen.required_features,
            threads=data["threads"],
            **vars(first),
            policy=dict(data.get("policy", {})),
            versions={str(k): str(v) for k, v in data["versions"].items()},
            library_sha256=str(data["library"]["sha256"]),
            library_bytes=data["library"]["bytes"],
            weights_sha256=str(data["library"].get("weights_sha256", "")),
            others=tuple(others),
            targets=targets if several else (),
        )
        check_types(manifest, cls, "manifest")
        manifest.check_ranges()
        return manifest

    def check_ranges(self) -> None:
        """Raise ``ValueError`` for sizes that no machine and no model has."""
        machines = [self.machine, *(each.machine for each in self.targets)]
        facts = [fact for machine in machines for fact in machine.to_json().items()]
        sizes = [(name, value) for name, value in facts if type(value) is int]
        for name, value in (*sizes, ("threads", self.threads)):
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


def read_manifest(path: Path, select: Select | None = None) -> Manifest:
    """Read and check a manifest file; see :meth:`Manifest.from_json`."""
    return parse_manifest(_read(path), path, select)


def parse_manifest(text: bytes, path: Path, select: Select | None = None) -> Manifest:
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
        return Manifest.from_json(data, select)
    except MALFORMED as error:
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
