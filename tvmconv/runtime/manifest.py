"""The record that stands beside a saved module, and the checks made on it before loading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tvmconv import __version__
from tvmconv.decision import Decision, KernelCall
from tvmconv.errors import ArtifactError, TvmconvError
from tvmconv.machines.host import host_features, host_model
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_machine
from tvmconv.runtime.memory import MemoryReport
from tvmconv.runtime.tensor import TensorInfo

FORMAT = "tvmconv-module"
FORMAT_VERSION = 1


def manifest_path(library: Path) -> Path:
    """Where the manifest of ``model.so`` stands: ``model.json`` in the same folder."""
    return library.with_suffix(".json")


@dataclass(frozen=True)
class Manifest:
    """Everything known about a compiled model besides its code and constants.

    Parameters
    ----------
    model_name, model_sha256
        The ONNX model's name and the hash of its bytes.
    machine
        The record the kernels were chosen and scheduled for.
    required_features
        CPU flags, named as in ``/proc/cpuinfo``, without which the code must not run.
    threads
        Threads of one call.
    inputs, outputs
        Tensors in the order of ``run``'s arguments and results.
    decisions
        One per convolution, in the graph's order.
    calls
        Kernel calls in execution order.
    memory
        Planned bytes.
    reorders
        Layout changes that remained in the graph.
    policy
        Budgets, allowed algorithms, overrides and names of tuning logs that the choices kept.
    versions
        Of tvmconv, tvm, tvm_ffi and llvm at build time.
    library_sha256, library_bytes
        Hash and size of the shared object; empty and 0 until it is linked.
    """

    model_name: str
    model_sha256: str
    machine: Machine
    required_features: tuple[str, ...]
    threads: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    decisions: tuple[Decision, ...] = ()
    calls: tuple[KernelCall, ...] = ()
    memory: MemoryReport = field(default_factory=MemoryReport)
    reorders: int = 0
    policy: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    library_sha256: str = ""
    library_bytes: int = 0

    def with_library(self, sha256: str, size: int) -> Manifest:
        """The manifest of the same model with its shared object filled in."""
        return replace(self, library_sha256=sha256, library_bytes=size)

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
            "library": {"sha256": self.library_sha256, "bytes": self.library_bytes},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """Inverse of :meth:`to_json`; raises whatever a malformed record leads to."""
        return cls(
            model_name=str(data["model"]["name"]),
            model_sha256=str(data["model"]["sha256"]),
            machine=read_machine(data["target"]),
            required_features=tuple(map(str, data["required_features"])),
            threads=int(data["threads"]),
            inputs=tuple(TensorInfo.from_json(t) for t in data["inputs"]),
            outputs=tuple(TensorInfo.from_json(t) for t in data["outputs"]),
            decisions=tuple(Decision.from_json(d) for d in data["decisions"]),
            calls=tuple(KernelCall.from_json(c) for c in data["calls"]),
            memory=MemoryReport(**data["memory"]),
            reorders=int(data["reorders"]),
            policy=dict(data.get("policy", {})),
            versions={str(k): str(v) for k, v in data["versions"].items()},
            library_sha256=str(data["library"]["sha256"]),
            library_bytes=int(data["library"]["bytes"]),
        )

    def to_text(self) -> str:
        """The file as text."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest file.

    Raises
    ------
    ArtifactError
        If the file is missing, is no manifest, is damaged, or has another format version.
    """
    data = _read_json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not a tvmconv manifest; save the model again")
    version = data.get("format_version")
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{path} has format version {version!r}, this tvmconv {__version__} reads "
            f"{FORMAT_VERSION}; build the model again or install the tvmconv that wrote it "
            f"({data.get('versions', {}).get('tvmconv', 'unknown')})"
        )
    try:
        return Manifest.from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError, TvmconvError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ArtifactError(f"{path} is damaged ({reason}); save the model again") from error


def is_manifest(path: Path) -> bool:
    """Whether a file is a manifest, of any format version."""
    try:
        data = _read_json(path)
    except ArtifactError:
        return False
    return isinstance(data, dict) and data.get("format") == FORMAT


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArtifactError(
            f"{path} is missing; a saved model is a .so and the .json of the same name, "
            "move and copy them together"
        ) from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ArtifactError(f"{path} is not valid JSON ({error}); save the model again") from error


def check_features(manifest: Manifest, what: str) -> None:
    """Refuse a processor that lacks an instruction set the code may use.

    Raises
    ------
    ArtifactError
        Naming the missing features and a target that this processor has.
    """
    have = host_features()
    missing = [name for name in manifest.required_features if name not in have]
    if missing:
        raise ArtifactError(
            f"{what} was built for {manifest.machine.name} ({manifest.machine.mcpu}) and needs "
            f"{', '.join(missing)}, which this processor ({host_model()}) lacks; build the "
            "model on this machine, or for an older target such as x86-64-v3"
        )


def check_versions(manifest: Manifest, installed: Mapping[str, str], what: str) -> None:
    """Refuse a TVM runtime of another minor release than the build's.

    Raises
    ------
    ArtifactError
        Naming the package and both versions. Releases of TVM change the bytecode and the
        calling convention between minor versions.
    """
    packages = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}
    for name, package in packages.items():
        built, have = manifest.versions.get(name, ""), installed.get(name, "")
        if built.split(".")[:2] != have.split(".")[:2]:
            raise ArtifactError(
                f"{what} was built with {package} {built or 'unknown'}, installed is "
                f"{have or 'none'}; install {package} {built} or build the model again"
            )
