"""The compiled model that users hold: run, save, load, explain, profile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tvmconv.core.arguments import MOST_THREADS, file_path, shown, whole
from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.core.interrupts import uninterrupted
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.record import Machine
from tvmconv.runtime import forks
from tvmconv.runtime.arguments import Parameters
from tvmconv.runtime.artifact import open_artifact, save_artifact
from tvmconv.runtime.facts import ModelFacts
from tvmconv.runtime.library import Library
from tvmconv.runtime.manifest import Manifest, check_features
from tvmconv.runtime.outputs import Outputs, empty_aligned
from tvmconv.runtime.runner import Runner

if TYPE_CHECKING:
    from tvmconv.runtime.link import BuiltLibrary
    from tvmconv.runtime.profile import Profile
    from tvmconv.runtime.timing import BoundCall, Timing

Array = npt.NDArray[Any]


class CompiledModel(ModelFacts):
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
        self, manifest: Manifest, library: Library | BuiltLibrary, load_seconds: float = 0.0
    ) -> None:
        self.manifest = manifest
        self.load_seconds = load_seconds
        self._library = library
        self._parameters = Parameters(manifest.inputs)
        self._names = tuple(info.name for info in manifest.outputs)
        self._lock = forks.Lock()
        self._runner: Runner | None = None

    @classmethod
    def from_executable(
        cls,
        executable: Any,
        *,
        machine: Machine,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        lowered: Any = None,
        model_name: str = "",
        model_sha256: str = "",
        threads: int | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> CompiledModel:
        """Take over what the compiler made, and record what is known of it.

        Parameters
        ----------
        executable
            What ``tvm.relax.build`` returned; its function ``main`` takes the inputs in order and
            returns the outputs in order. It belongs to the model from now on.
        machine
            The record the kernels were scheduled for.
        inputs, outputs
            The model's tensors, plain layouts.
        lowered
            The ``LoweredGraph`` the executable was built from: its decisions, calls, reorders
            and padding go into the manifest.
        model_name, model_sha256
            Of the ONNX model.
        threads
            Threads of one call; ``machine.cores`` by default.
        policy
            The limits of the choices, as plain data.
        """
        from tvmconv.runtime.link import BuiltLibrary
        from tvmconv.runtime.record import record_executable

        manifest = record_executable(
            executable,
            machine=machine,
            inputs=inputs,
            outputs=outputs,
            lowered=lowered,
            model_name=model_name,
            model_sha256=model_sha256,
            threads=threads,
            policy=policy,
        )
        return cls(manifest, BuiltLibrary(executable))

    def run(self, *arguments: Any) -> Outputs:
        """Compute the outputs.

        Parameters
        ----------
        arguments
            One mapping of input name to array, or the arrays in input order. Types must be the
            model's; memory layout may be any. An array that starts at a multiple of 64 bytes
            (see :meth:`empty_inputs`) is read in place, others are copied.

        Returns
        -------
        Outputs
            A tuple of arrays in output order that is indexed by name as well. The arrays are
            the caller's to keep and to change.

        Raises
        ------
        InputError
            If an input is missing, unknown, or of another shape or type.
        ArtifactError
            If this processor lacks a feature the model was built for.
        """
        arrays = self._parameters.bind(arguments)
        return Outputs(self._names, self._ready().run(arrays))

    def run_into(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Mapping[str, Array] | Sequence[Array],
    ) -> None:
        """Compute the outputs into arrays that exist.

        Raises
        ------
        InputError
            Additionally, if an output array is missing, or of another shape or type.
        """
        arrays = self._parameters.bind((inputs,))
        if isinstance(outputs, Mapping):
            if missing := [name for name in self._names if name not in outputs]:
                raise InputError(f"missing output array(s): {', '.join(missing)}")
            outputs = [outputs[name] for name in self._names]
        if not isinstance(outputs, list | tuple):
            raise InputError(f"outputs={shown(outputs)} must be a mapping or a list of arrays")
        if len(outputs) != len(self._names):
            raise InputError(f"the model has {len(self._names)} output(s), got {len(outputs)}")
        self._ready().run_into(arrays, outputs)

    def empty_inputs(self) -> dict[str, Array]:
        """Uninitialised input arrays, aligned so that calls read them in place."""
        return {t.name: empty_aligned(t.shape, t.dtype) for t in self.manifest.inputs}

    def bind(self, inputs: Mapping[str, Any] | Sequence[Any]) -> BoundCall:
        """A call with fixed input tensors: the shortest path into the kernels."""
        from tvmconv.runtime.timing import BoundCall

        return BoundCall(self, self._ready(), self._parameters.bind((inputs,)))

    def time(
        self,
        inputs: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        repeat: int = 20,
        number: int = 1,
        warmup: int = 2,
    ) -> Timing:
        """Measure whole calls, argument copies excluded.

        Parameters
        ----------
        inputs
            Seeded random values by default.
        repeat
            Samples.
        number
            Calls in each sample.
        warmup
            Calls before the first sample.
        """
        from tvmconv.runtime.timing import random_inputs, time_call

        repeat, number = whole(repeat, "repeat"), whole(number, "number")
        warmup = whole(warmup, "warmup", 0)
        values = random_inputs(self.manifest.inputs) if inputs is None else inputs
        return time_call(self.bind(values), repeat, number, warmup)

    def profile(
        self,
        inputs: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        repeat: int = 20,
    ) -> Profile:
        """Measure every kernel of a call; see :class:`tvmconv.runtime.profile.Profile`."""
        from tvmconv.runtime.profile import profile_model
        from tvmconv.runtime.timing import random_inputs

        repeat = whole(repeat, "repeat")
        values = random_inputs(self.manifest.inputs) if inputs is None else inputs
        arrays = self._parameters.bind((values,))
        return profile_model(self, self._ready(), arrays, repeat)

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

    def _ready(self) -> Runner:
        if self._runner is None:
            with self._lock:
                if self._runner is None:
                    self._runner = self._start()
        return self._runner

    @uninterrupted()
    def _start(self) -> Runner:
        check_features(self.manifest, f"model {self.name!r}")
        manifest = self.manifest
        module = self._library.module()
        return Runner(module, manifest.inputs, manifest.outputs, manifest.threads)

    def __repr__(self) -> str:
        manifest = self.manifest
        return (
            f"CompiledModel({self.name!r}, {manifest.machine.name}, threads={manifest.threads}, "
            f"inputs=[{'; '.join(map(str, manifest.inputs))}], "
            f"outputs=[{'; '.join(map(str, manifest.outputs))}])"
        )


@uninterrupted()
def load(path: str | Path, *, threads: int | None = None) -> CompiledModel:
    """Open a saved model.

    Everything is checked before any of its code is mapped: the manifest, the hash of the
    shared object, the processor's features, the installed runtime's version. TVM's compiler is
    not imported.

    Parameters
    ----------
    path
        The shared object; its manifest ``<name>.json`` stands beside it.
    threads
        Threads of one call; those it was built for by default.

    Raises
    ------
    ArtifactError
        Naming the file, what does not fit, and what to do.
    """
    start = time.perf_counter()
    if threads is not None:
        threads = whole(threads, "threads", high=MOST_THREADS)
    manifest, library = open_artifact(file_path(path, "path", ArtifactError))
    if threads is not None:
        manifest = manifest.with_threads(threads)
    model = CompiledModel(manifest, library)
    model._ready()
    model.load_seconds = time.perf_counter() - start
    return model
