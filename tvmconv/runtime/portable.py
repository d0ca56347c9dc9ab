"""Compiled models without the rest of tvmconv: the package ``tvmconv-runtime``.

The code describes its own tensors and layers, and checks the CPU. The manifest after it serves the
hash and ``explain`` only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.arguments import MOST_THREADS, file_path, whole
from ..core.errors import ArtifactError
from ..core.tensor import TensorInfo
from .binding import Code, ProgramCode
from .executable import Executable
from .gpu_options import GpuOptions
from .library import Library
from .runner import Runner
from .weights import map_weights

if TYPE_CHECKING:
    from ..core.decision import KernelCall


class Program:
    """The program of a model for one shape of its inputs."""

    def __init__(self, code: ProgramCode) -> None:
        self._code = code

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Inputs in argument order."""
        return self._code.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Outputs in result order."""
        return self._code.outputs

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """Kernel calls in execution order."""
        return tuple(map(self._call, range(self._code.layers)))

    def _call(self, index: int) -> KernelCall:
        from ..core.decision import KernelCall

        layer = self._code.layer(index)
        return KernelCall(
            layer=layer["name"],
            kernel=layer["kernel"],
            operator=layer["operation"],
            workload=layer["workload"],
            flops=layer["flops"],
            bytes=layer["bytes"],
        )

    def __repr__(self) -> str:
        return f"Program({'; '.join(map(str, (*self.inputs, *self.outputs)))})"


class Model(Executable):
    """A compiled model; made by :func:`load`. With ``threads=0`` it uses as many as built for."""

    def __init__(
        self,
        library: Library,
        manifest: Mapping[str, Any],
        threads: int = 0,
        gpu: GpuOptions | None = None,
    ) -> None:
        self._code: Code = library.code()
        self._weights = library.weights
        self._threads = threads or self._code.threads
        self.manifest = manifest
        self.name = self._code.name
        super().__init__(gpu)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The program of each shape that the model was built for."""
        return tuple(map(Program, self._code.programs))

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Inputs of the first program in argument order."""
        return self._code.programs[0].inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Outputs of the first program in result order."""
        return self._code.programs[0].outputs

    @property
    def threads(self) -> int:
        """Threads of one call, as far as the process has CPUs for them."""
        return self._threads

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """Kernel calls of the first program in execution order."""
        return self.programs[0].calls

    def explain(self) -> str:
        """A line for each convolution: layer, problem, algorithm, and why it was chosen."""
        targets = [self.manifest, *self.manifest.get("other_targets", [])]
        names = [target.get("target", {}).get("name") for target in targets]
        here = targets[names.index(self._code.target) if self._code.target in names else 0]
        programs = [here, *here.get("others", [])]
        lines = [
            f"{d['layer'] or '-'}  {d['workload']}  {d['chosen']['algorithm']}  {d['reason']}"
            for program in programs
            for d in program.get("decisions", [])
        ]
        return "\n".join([f"{self.name} for {self._code.target}", *lines])

    def _start(self) -> tuple[Runner, ...]:
        return Runner.each(self._code, self._threads, self._weights, self._gpu)

    def __repr__(self) -> str:
        tensors = " | ".join(
            "; ".join(map(str, (*program.inputs, *program.outputs))) for program in self.programs
        )
        return f"Model({self.name!r}, {self._code.target}, threads={self._threads}, {tensors})"


def load(
    path: str | Path,
    *,
    threads: int | None = None,
    verify: bool = True,
    device: int = 0,
    cuda_graph: bool | None = None,
) -> Model:
    """Open a saved model.

    Parameters
    ----------
    path
        The shared object.
    threads
        Threads of one call; by default as many as the model was built for.
    verify
        Whether to hash the file and external weights, and compare with its manifest, before code
        is mapped.
    device, cuda_graph
        CUDA only: the number of the GPU, from 0, and whether launches are replayed as a CUDA
        graph. By default the variable ``TVMCONV_CUDA_GRAPH`` decides, and without it a model of
        batch size 1 replays them.

    Raises
    ------
    ArtifactError
        If the files are damaged or do not fit this system; names the file and the remedy.
    """
    count = 0 if threads is None else whole(threads, "threads", high=MOST_THREADS)
    gpu = GpuOptions.of(device, cuda_graph)
    file = file_path(path, "path", ArtifactError)
    library = Library.open(file)
    manifest = _manifest(library, file)
    recorded = manifest["library"]
    if fault := library.difference(recorded["bytes"], recorded["sha256"], verify):
        raise ArtifactError(
            f"{file} is not the file that its manifest describes ({fault}): it was damaged or cut "
            "short. Copy it again."
        )
    if sha256 := recorded.get("weights_sha256"):
        size = manifest["memory"]["constant_bytes"]
        library.weights = map_weights(file, str(sha256), int(size), verify)
    return Model(library, manifest, count, gpu)


def _manifest(library: Library, file: Path) -> Any:
    if not library.manifest:
        raise ArtifactError(
            f"{file} holds no manifest: tvmconv did not save it, or it was cut short. Copy it "
            "again, or build the model again."
        )
    try:
        manifest = json.loads(library.manifest)
        _ = manifest["library"]["bytes"], manifest["library"]["sha256"]
        _ = int(manifest["memory"]["constant_bytes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(
            f"the manifest in {file} is damaged ({error}). Copy it again, or build the model again."
        ) from error
    return manifest
