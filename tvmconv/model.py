"""The compiled model that users hold: run, save, load, explain, profile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tvmconv.artifact.facts import ModelFacts
from tvmconv.artifact.host_target import for_host
from tvmconv.artifact.manifest import Manifest
from tvmconv.artifact.saving import open_artifact, save_artifact
from tvmconv.core.arguments import MOST_THREADS, file_path, shown, whole
from tvmconv.core.errors import ArtifactError, ConfigError
from tvmconv.core.files import unwritable
from tvmconv.core.interrupts import uninterrupted
from tvmconv.core.results import filled_folder
from tvmconv.core.tensor import TensorInfo
from tvmconv.runtime.arguments import describe
from tvmconv.runtime.executable import Executable
from tvmconv.runtime.gpu_options import GpuOptions
from tvmconv.runtime.library import Library
from tvmconv.runtime.runner import Runner
from tvmconv.runtime.weights import weights_path

if TYPE_CHECKING:
    from tvmconv.compile.program import CompiledProgram
    from tvmconv.report.document import Report

# the second two are former names
WeightsPlace = Literal["embedded", "external", "inside", "separate"]


class CompiledModel(ModelFacts, Executable):
    """A model compiled for one machine.

    Made by :func:`tvmconv.build` or :func:`load`. Any number of threads may call it at the same
    time: each call has its own state, and all share the constants. ``load_seconds`` is the time
    that :func:`load` took; 0 for a model built in this process.
    """

    def __init__(
        self,
        manifest: Manifest,
        library: Library | CompiledProgram,
        load_seconds: float = 0.0,
        gpu: GpuOptions | None = None,
    ) -> None:
        self.manifest = manifest
        super().__init__(gpu)
        self.load_seconds = load_seconds
        self._library = library

    def explain(self) -> Report:
        """The report of every decision, printable as text and convertible to JSON."""
        from tvmconv.report.explain import explain_report

        return explain_report(self)

    @uninterrupted()
    def save(
        self,
        path: str | Path,
        *,
        weights: WeightsPlace | None = None,
        header: bool = False,
    ) -> Path:
        """Write the model, and next to it a readable copy of its manifest.

        The shared object holds the manifest too, so one renaming replaces an old model by the new
        one. If the process is killed or the disk is full, :func:`load` opens the complete old
        model or the complete new one. The next ``save`` or ``load`` of the same name removes
        files that a killed process left.

        Parameters
        ----------
        path
            Name of the shared object, ending in ``.so``; the manifest gets the same name ending
            in ``.json``.
        weights
            The place of the constants. ``"embedded"``, the default, puts them into the shared
            object. ``"external"`` puts them into a file of the same name ending in ``.weights``,
            in the same folder. A loaded model keeps its place. ``"inside"`` and ``"separate"`` are
            former names.
        header
            Whether to write a C header too, of the same name ending in ``.h``. It declares the
            model's own symbol and sizes, and includes ``tvmconv.h``, which is written as well.

        Returns
        -------
        Path
            The shared object.

        Raises
        ------
        ArtifactError
            If the name is unsuitable, the folder is missing or not writable, or writing fails.
            Also if saving would replace a file of another program, or move the weights of a
            loaded model to another place.
        ConfigError
            If ``weights`` is not one of these places.
        """
        destination = file_path(path, "path", ArtifactError)
        if weights not in (None, *get_args(WeightsPlace)):
            raise ConfigError(f"weights={shown(weights)} must be 'embedded' or 'external'")
        separate = None if weights is None else weights in ("external", "separate")
        return save_artifact(
            self.manifest,
            lambda: self._library.linked(separate),
            destination,
            self._header if header else None,
            separate is True or (separate is None and bool(self.manifest.weights_sha256)),
        )

    def _header(self) -> str:
        from tvmconv.compile.header import ModelShapes, model_header

        shapes = [
            ModelShapes(p.inputs, p.outputs, len(p.calls), p.memory.arena_bytes)
            for p in self.programs
        ]
        return model_header(self.name, shapes, weight_bytes=self.memory.constant_bytes)

    @uninterrupted()
    def bundle(
        self,
        folder: str | Path,
        name: str | None = None,
        *,
        weights: WeightsPlace | None = None,
    ) -> Path:
        """Save the model with its headers, an example in C and a script that compiles and runs it.

        Parameters
        ----------
        folder
            Is created if it does not exist. An existing folder must be empty or an older bundle.
        name
            Name of the files: letters, digits, ``_``, ``-`` and ``.``; ``"model"`` by default.
        weights
            As for :meth:`save`.

        Returns
        -------
        Path
            The shared object in the folder.

        Raises
        ------
        ArtifactError
            As for :meth:`save`, and if the folder holds other files.
        """
        from tvmconv.artifact.bundle import check_bundle, write_bundle

        place, name = file_path(folder, "folder", ArtifactError), name or "model"
        check_bundle(place, name)
        with filled_folder(place):
            path = self.save(place / f"{name}.so", weights=weights, header=True)
            write_bundle(place, name, self.manifest, weights_path(path).exists())
        return path

    @uninterrupted()
    def keep(self, folder: str | Path) -> None:
        """Write the C sources and kernels of the shared object, and a script that links them.

        Raises
        ------
        ArtifactError
            If the model was loaded, as only a build knows its parts. Also if writing fails.
        """
        place = file_path(folder, "folder", ArtifactError)
        if isinstance(self._library, Library):
            raise ArtifactError(
                f"cannot keep the parts of model {self.name!r}: it was loaded. Expected a model "
                "that this process built. Use compile --emit-sources, or keep after build."
            )
        try:
            self._library.keep(place)
        except OSError as error:
            raise unwritable(place, error) from error

    def _start(self) -> tuple[Runner, ...]:
        self.manifest = for_host(self.manifest, f"model {self.name!r}")
        code = self._library.code()
        if self.manifest.targets:
            code.select(self.machine.name)
        for kind in ("inputs", "outputs"):
            recorded = [getattr(program, kind) for program in self.programs]
            own = [getattr(program, kind) for program in code.programs]
            # the code reads and writes its own sizes, not the sizes of the arrays
            if [_sizes(tensors) for tensors in recorded] != [_sizes(tensors) for tensors in own]:
                raise ArtifactError(
                    f"model {self.name!r}: the manifest has {kind} "
                    f"{' | '.join(map(describe, recorded))}, and the code has "
                    f"{' | '.join(map(describe, own))}. Save the model again."
                )
        return Runner.each(code, self.threads, self._library.weights, self._gpu)

    def __repr__(self) -> str:
        manifest = self.manifest
        tensors = (
            f"inputs=[{'; '.join(map(str, program.inputs))}], "
            f"outputs=[{'; '.join(map(str, program.outputs))}]"
            for program in manifest.programs
        )
        return (
            f"CompiledModel({self.name!r}, {manifest.machine.name}, threads={manifest.threads}, "
            f"{' | '.join(tensors)})"
        )


def _sizes(tensors: Sequence[TensorInfo]) -> list[tuple[tuple[int, ...], str]]:
    return [(tensor.shape, tensor.dtype) for tensor in tensors]


@uninterrupted()
def load(
    path: str | Path,
    *,
    threads: int | None = None,
    verify: bool = True,
    device: int = 0,
    cuda_graph: bool | None = None,
) -> CompiledModel:
    """Open a saved model.

    The manifest, the hash of the shared object and the CPU's features are checked before any code
    is mapped. TVM is not imported.

    Parameters
    ----------
    path
        The shared object. Its files ``<name>.json`` and, for external weights, ``<name>.weights``
        are in the same folder.
    threads
        Threads of one call; by default as many as the model was built for.
    verify
        Whether to hash the shared object and external weights and compare with the manifest. This
        reads all of both: about a tenth of a second for 160 MB.
    device, cuda_graph
        CUDA only: the number of the GPU, from 0, and whether launches are replayed as a CUDA
        graph. By default the variable ``TVMCONV_CUDA_GRAPH`` decides, and without it a model of
        batch size 1 replays them.

    Returns
    -------
    CompiledModel
        Ready to be called: its code is mapped, and a state is made.

    Raises
    ------
    ArtifactError
        If the files are damaged or do not fit this system; names the file and the remedy.
    InputError
        If ``threads`` or ``device`` is out of range.
    """
    start = time.perf_counter()
    if threads is not None:
        threads = whole(threads, "threads", high=MOST_THREADS)
    gpu = GpuOptions.of(device, cuda_graph)
    manifest, library = open_artifact(file_path(path, "path", ArtifactError), verify)
    if threads is not None:
        manifest = manifest.with_threads(threads)
    model = CompiledModel(manifest, library, gpu=gpu)
    model.prepare()
    model.load_seconds = time.perf_counter() - start
    return model
