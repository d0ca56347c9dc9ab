"""The compiled model that users hold: run, save, load, explain, profile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tvmconv.artifact.facts import ModelFacts
from tvmconv.artifact.manifest import Manifest, check_features
from tvmconv.artifact.saving import open_artifact, save_artifact
from tvmconv.core.arguments import MOST_THREADS, file_path, shown, whole
from tvmconv.core.errors import ArtifactError, ConfigError
from tvmconv.core.interrupts import uninterrupted
from tvmconv.core.results import filled_folder
from tvmconv.runtime.arguments import describe
from tvmconv.runtime.executable import Executable
from tvmconv.runtime.gpu_options import GpuOptions
from tvmconv.runtime.library import Library
from tvmconv.runtime.runner import Runner
from tvmconv.runtime.weights import weights_path

if TYPE_CHECKING:
    from tvmconv.compile.network import CompiledProgram
    from tvmconv.report.document import Report

# the second two are former names
WeightsPlace = Literal["embedded", "external", "inside", "separate"]


class CompiledModel(ModelFacts, Executable):
    """A model compiled for one machine.

    Made by :func:`tvmconv.build` or :func:`load`. Any number of threads may call it at the same
    time: each call has its own state, constants are shared.

    Parameters
    ----------
    manifest
        The model's record.
    library
        Its code; loaded on the first call.
    load_seconds
        Time that :func:`load` took; 0 for a model built in this process.
    gpu
        Of a model for GPUs.
    """

    def __init__(
        self,
        manifest: Manifest,
        library: Library | CompiledProgram,
        load_seconds: float = 0.0,
        gpu: GpuOptions | None = None,
    ) -> None:
        super().__init__(manifest.inputs, manifest.outputs, gpu)
        self.manifest = manifest
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
        """Write the model, and beside it a readable copy of its manifest.

        The shared object holds the manifest too, so that one renaming switches from an old model
        to the new one: whenever the process is killed or the disk is full, :func:`load` opens
        either, whole. What a killed process left is removed by the next ``save`` or ``load`` of
        the same name.

        Parameters
        ----------
        path
            Name of the shared object, ending in ``.so``; the manifest gets the same name ending
            in ``.json``.
        weights
            Where the constants are: ``"embedded"`` in the shared object, or ``"external"``, in a
            file of the same name ending in ``.weights`` and in the same folder. Embedded by
            default; a loaded model keeps its place. ``"inside"`` and ``"separate"`` are former
            names.
        header
            Whether to write a C header too, of the same name ending in ``.h``: the model's own
            symbol and its sizes; and ``tvmconv.h``, which it includes.

        Returns
        -------
        Path
            The shared object.

        Raises
        ------
        ArtifactError
            If the name is unsuitable, the folder is missing or not writable, writing fails, a
            file would be replaced that is none of tvmconv's, or a loaded model's weights are
            wanted elsewhere.
        ConfigError
            If ``weights`` is something else.
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
        from tvmconv.compile.header import model_header

        return model_header(
            self.name,
            self.inputs,
            self.outputs,
            layers=len(self.calls),
            arena_bytes=self.memory.arena_bytes,
            weight_bytes=self.memory.constant_bytes,
        )

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
            Made if it does not exist; otherwise empty, or an older bundle.
        name
            Of the files in it: letters, digits, ``_``, ``-`` and ``.``; ``"model"`` by default.
        weights
            As of :meth:`save`.

        Returns
        -------
        Path
            The shared object in the folder.

        Raises
        ------
        ArtifactError
            As :meth:`save`, and if the folder holds something else.
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
        """Write what the shared object is linked from, C and kernels, and a script that links it.

        Parameters
        ----------
        folder
            Made if it does not exist.

        Raises
        ------
        ArtifactError
            If the model was loaded: its parts are known where it is built. Or if writing fails.
        """
        place = file_path(folder, "folder", ArtifactError)
        if isinstance(self._library, Library):
            raise ArtifactError(f"model {self.name!r} was loaded; its parts are kept at a build")
        try:
            self._library.keep(place)
        except OSError as error:
            raise ArtifactError(f"cannot write {place}: {error.strerror or error}") from error

    def _start(self) -> Runner:
        check_features(self.manifest, f"model {self.name!r}")
        code = self._library.code()
        for kind, recorded, own in (
            ("inputs", self.inputs, code.inputs),
            ("outputs", self.outputs, code.outputs),
        ):
            # the code reads and writes its own sizes, whatever arrays it gets
            if [(i.shape, i.dtype) for i in recorded] != [(i.shape, i.dtype) for i in own]:
                raise ArtifactError(
                    f"model {self.name!r}: the manifest has {kind} {describe(recorded)}, the code "
                    f"{describe(own)}; save the model again"
                )
        return Runner(
            code,
            self.inputs,
            self.outputs,
            self.threads,
            self._library.weights,
            self._gpu,
        )

    def __repr__(self) -> str:
        manifest = self.manifest
        return (
            f"CompiledModel({self.name!r}, {manifest.machine.name}, threads={manifest.threads}, "
            f"inputs=[{'; '.join(map(str, manifest.inputs))}], "
            f"outputs=[{'; '.join(map(str, manifest.outputs))}])"
        )


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

    Everything is checked before any of its code is mapped: the manifest, the hash of the
    shared object, the processor's features. Nothing of TVM is imported.

    Parameters
    ----------
    path
        The shared object; its manifest ``<name>.json`` stands beside it, and ``<name>.weights``
        where these are separate.
    threads
        Threads of one call; those it was built for by default.
    verify
        Whether to hash the shared object and separate weights and compare with the manifest,
        which reads all of them: about a tenth of a second for 160 MB.
    device, cuda_graph
        Of models for GPUs: which of those that the driver shows, from 0; and whether launches are
        replayed as a CUDA graph, by default where inputs are of one image, or as the variable
        ``TVMCONV_CUDA_GRAPH`` says.

    Returns
    -------
    CompiledModel
        Ready to be called: its code is mapped, and a state is made.

    Raises
    ------
    ArtifactError
        Naming the file, what does not fit, and what to do.
    InputError
        If ``threads`` or ``device`` is no number that there may be.
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
