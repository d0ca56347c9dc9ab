"""The compiled model that users hold: run, save, load, explain, profile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.artifact.facts import ModelFacts
from tvmconv.artifact.manifest import Manifest, check_features
from tvmconv.artifact.saving import open_artifact, save_artifact
from tvmconv.core.arguments import MOST_THREADS, file_path, whole
from tvmconv.core.errors import ArtifactError
from tvmconv.core.interrupts import uninterrupted
from tvmconv.runtime.executable import Executable
from tvmconv.runtime.library import Library
from tvmconv.runtime.runner import Runner

if TYPE_CHECKING:
    from tvmconv.compile.network import CompiledProgram


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
    """

    def __init__(
        self, manifest: Manifest, library: Library | CompiledProgram, load_seconds: float = 0.0
    ) -> None:
        super().__init__(manifest.inputs, manifest.outputs)
        self.manifest = manifest
        self.load_seconds = load_seconds
        self._library = library

    def explain(self) -> Any:
        """The report of every decision, printable as text and convertible to JSON."""
        from tvmconv.report.explain import explain_report

        return explain_report(self)

    @uninterrupted()
    def save(self, path: str | Path) -> Path:
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

        Returns
        -------
        Path
            The shared object.

        Raises
        ------
        ArtifactError
            If the name is unsuitable, the folder is missing or not writable, writing fails, or
            the manifest would replace a file that is none.
        """
        return save_artifact(
            self.manifest, self._library.file, file_path(path, "path", ArtifactError)
        )

    @uninterrupted()
    def _start(self) -> Runner:
        check_features(self.manifest, f"model {self.name!r}")
        return Runner(
            self._library.code(),
            self.inputs,
            self.outputs,
            self.threads,
            self._library.weights,
        )

    def __repr__(self) -> str:
        manifest = self.manifest
        return (
            f"CompiledModel({self.name!r}, {manifest.machine.name}, threads={manifest.threads}, "
            f"inputs=[{'; '.join(map(str, manifest.inputs))}], "
            f"outputs=[{'; '.join(map(str, manifest.outputs))}])"
        )


@uninterrupted()
def load(path: str | Path, *, threads: int | None = None, verify: bool = True) -> CompiledModel:
    """Open a saved model.

    Everything is checked before any of its code is mapped: the manifest, the hash of the
    shared object, the processor's features. Nothing of TVM is imported.

    Parameters
    ----------
    path
        The shared object; its manifest ``<name>.json`` stands beside it.
    threads
        Threads of one call; those it was built for by default.
    verify
        Whether to hash the shared object and compare with its manifest, which reads all of it:
        about a tenth of a second for 160 MB.

    Raises
    ------
    ArtifactError
        Naming the file, what does not fit, and what to do.
    """
    start = time.perf_counter()
    if threads is not None:
        threads = whole(threads, "threads", high=MOST_THREADS)
    manifest, library = open_artifact(file_path(path, "path", ArtifactError), verify)
    if threads is not None:
        manifest = manifest.with_threads(threads)
    model = CompiledModel(manifest, library)
    model.prepare()
    model.load_seconds = time.perf_counter() - start
    return model
