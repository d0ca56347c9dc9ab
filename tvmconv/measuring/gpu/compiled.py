"""A convolution's kernels as machine code with their launches: compiled here, or read from files.

A machine with a GPU needs neither nvcc nor TVM for kernels that another machine compiled into a
folder. It packs the weights without TVM.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tvmconv.core.errors import ArtifactError, TvmconvError
from tvmconv.core.files import read_regular
from tvmconv.core.launch import Launch
from tvmconv.core.version import __version__
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.cuda import CudaMachine

_MOST_BYTES = 1 << 28
_PACKAGE = Path(__file__).parents[2]
# parts of the package that make the code of kernels and models
_MAKERS = (
    *("algorithms", "compile", "core", "frontend", "graph", "kernels", "operators"),
    *("program", "runtime", "schedules", "selection", "tir", "tvm_api"),
)


@dataclass(frozen=True)
class Compiled:
    """Machine code of one function, ``fatbin``, and the ``launches`` of a call in order.

    Their ``arguments`` number the parameters, which have ``shapes``: input, packed weight, bias and
    residual where the workload has them, output, workspaces.
    """

    fatbin: bytes
    launches: tuple[Launch, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def spill_bytes(self) -> int:
        """Bytes that a thread of each launch spills, together."""
        return spill_bytes(self.launches)

    def facts(self) -> dict[str, Any]:
        """Registers, shared memory, spills and blocks of each launch."""
        return {
            "launches": [
                {
                    "kernel": each.kernel,
                    "blocks": each.blocks,
                    "threads": each.threads,
                    "registers": each.registers,
                    "shared_bytes": each.shared_bytes + each.dynamic_shared_bytes,
                    "spill_bytes": each.spill_bytes,
                }
                for each in self.launches
            ]
        }


def spill_bytes(launches: Iterable[Launch]) -> int:
    """Bytes of registers that a thread of each launch stores and reads back, together."""
    return sum(launch.spill_bytes for launch in launches)


def compile_kernel(kernel: Kernel) -> Compiled:
    """Schedule a kernel and let nvcc compile it; needs TVM.

    Raises :class:`ArtifactError` if nvcc is missing, or refuses the source, and :class:`ModelError`
    or :class:`ConfigError` if the schedule does not fit the layer.
    """
    from tvmconv.compile.cuda_compiler import compile_fatbin
    from tvmconv.tir.cuda.lowering import cuda_code
    from tvmconv.tir.cuda.workspace_parameters import with_workspace

    machine = kernel.machine
    assert isinstance(machine, CudaMachine)
    function = with_workspace(kernel.prim_func())
    code = cuda_code(function, machine)
    fatbin, resources = compile_fatbin(code.source, machine)
    launches = tuple(resources[each.kernel].of(each) for each in code.launches["main"])
    shapes = tuple(tuple(int(extent) for extent in buffer.shape) for buffer in function.params)
    return Compiled(fatbin, launches, shapes)


def source_code(
    source: str, machine: CudaMachine, folder: str | Path | None = None
) -> tuple[bytes, Path | None]:
    """Machine code of a CUDA source, and its file in a folder of compiled ones.

    Raises :class:`ArtifactError` if neither the file nor nvcc exists.
    """
    from tvmconv.compile.cuda_compiler import compile_fatbin

    if folder is None:
        return compile_fatbin(source, machine)[0], None
    digest = hashlib.sha256(f"{machine.isa}\n{source}".encode()).hexdigest()
    path = Path(folder) / f"source-{digest[:20]}.kernel"
    if not path.is_file():
        fatbin, _ = compile_fatbin(source, machine)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, fatbin)
    return read_regular(path, _MOST_BYTES, ArtifactError), path


@cache
def code_digest() -> str:
    """A hash of the code that makes kernels and models, so that versions are not mixed."""
    found = hashlib.sha256(__version__.encode())
    # each folder by itself, because one of them may be a link
    for folder in _MAKERS:
        place = (_PACKAGE / folder).resolve()
        for path in sorted(place.rglob("*")):
            name = path.relative_to(place)
            # packaging leaves files in a source tree only
            if path.suffix in (".py", ".c", ".h") and "build" not in name.parts:
                found.update(f"{folder}/{name}\n".encode() + path.read_bytes())
    return found.hexdigest()


class KernelFolder:
    """Compiled kernels in files, by their content and the version of the code."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, kernel: Kernel) -> Compiled:
        """A kernel of the folder, compiled and written where it is missing.

        Raises :class:`ArtifactError` if it is missing and nothing here compiles it, or its file is
        damaged.
        """
        described = _described(kernel)
        digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
        path = self.path / f"{kernel.algorithm}-{digest[:20]}.kernel"
        if path.is_file():
            return _read(path, described)
        try:
            compiled = compile_kernel(kernel)
        except ImportError as error:
            raise ArtifactError(
                f"{self.path} holds no {kernel.algorithm} of this version for {kernel.workload}; "
                f"prepare it by bench run --compile-only where TVM and nvcc are ({error}): "
                f"{kernel.config}"
            ) from None
        self.path.mkdir(parents=True, exist_ok=True)
        head = {
            **described,
            "launches": [launch.to_json() for launch in compiled.launches],
            "shapes": compiled.shapes,
        }
        _write(path, json.dumps(head).encode() + b"\n" + compiled.fatbin)
        return compiled


def kernel_code(kernel: Kernel, folder: str | Path | None = None) -> Compiled:
    """A kernel from a folder of compiled ones, if there is one, or compiled."""
    return KernelFolder(Path(folder)).get(kernel) if folder else compile_kernel(kernel)


def _write(path: Path, content: bytes) -> None:
    """Write a file at once, because other processes may write the same."""
    written = path.with_suffix(f".{os.getpid()}.new")
    written.write_bytes(content)
    written.rename(path)


def _described(kernel: Kernel) -> dict[str, Any]:
    return {
        "code": code_digest(),
        "isa": kernel.machine.isa,
        "workload": str(kernel.workload),
        "algorithm": kernel.algorithm,
        "config": kernel.config.to_json(),
    }


def _read(path: Path, described: Mapping[str, Any]) -> Compiled:
    try:
        line, _, fatbin = read_regular(path, _MOST_BYTES, ArtifactError).partition(b"\n")
        head = json.loads(line)
        if any(head[name] != value for name, value in described.items()):
            raise ValueError("it belongs to another kernel")
        launches = tuple(map(Launch.from_json, head["launches"]))
        return Compiled(fatbin, launches, tuple(map(tuple, head["shapes"])))
    except (OSError, ValueError, KeyError, TypeError, TvmconvError) as error:
        raise ArtifactError(f"{path} holds no compiled kernel ({error})") from None
