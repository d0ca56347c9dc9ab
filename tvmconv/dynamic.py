"""A model with open dimensions: it builds a shape when a call first has it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tvmconv.core.arguments import shown, whole
from tvmconv.core.errors import (
    ArtifactError,
    ConfigError,
    InputError,
    ModelError,
    ShapeError,
    TvmconvError,
    WorkloadError,
)
from tvmconv.core.interrupts import checkpoint, uninterrupted
from tvmconv.core.tensor import Array, Declared, ShapeLists, Shapes
from tvmconv.core.unexpected import reported
from tvmconv.frontend.held import hold
from tvmconv.frontend.inputs import check_shapes
from tvmconv.frontend.open_shapes import OpenTensor, check_sizes, complete_shapes, fixed_sizes
from tvmconv.frontend.read import open_inputs
from tvmconv.frontend.source import HeldModel
from tvmconv.machines.device import Device
from tvmconv.machines.host import host_cores
from tvmconv.model import CompiledModel
from tvmconv.runtime import forks
from tvmconv.runtime.arguments import Parameters, typed
from tvmconv.runtime.submitting import Submitting
from tvmconv.runtime.tensors import GpuTensor, stream_handle

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ProgramFacts
    from tvmconv.report.document import Report
    from tvmconv.runtime.outputs import Outputs

DEFAULT_SHAPES = 16
# the shape of each input in order
Key = tuple[tuple[int, ...], ...]
Build = Callable[..., CompiledModel]
Devices = Callable[[], Sequence[Device]]

# errors that the same shape gives again; others, such as a full disk, may pass
_LASTING = (ModelError, ConfigError, WorkloadError)
_MOST_REFUSED = 256
# maximum delay of Ctrl-C while another thread builds the same shape
_POLL_SECONDS = 0.1


@dataclass(eq=False)
class _Place:
    """The model of one key. It is None until the thread that made the place has built it."""

    model: CompiledModel | None = None
    used: int = 0
    # models of shapes= are kept always
    is_first: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class DynamicModel(Submitting):
    """A model that is compiled for each shape of its inputs when a call first has the shape.

    Made by :func:`tvmconv.build` with ``dynamic=True``. Any number of threads may call it at the
    same time. While one thread builds a new shape, calls with known shapes go on. Threads that
    need the same new shape wait for one build.

    Attributes
    ----------
    name
        The ONNX model's name.
    inputs
        Inputs in argument order. In a shape, an open dimension has its name, or None without a
        name.
    max_shapes
        How many shapes are kept, without the shapes of ``shapes=``.
    """

    def __init__(
        self,
        model: HeldModel,
        inputs: tuple[OpenTensor, ...],
        shapes: ShapeLists | None,
        build: Build,
        max_shapes: int,
        device: int,
        devices: Devices,
    ) -> None:
        super().__init__()
        given: Any = check_shapes(shapes)
        fixed = fixed_sizes(inputs, given)
        self.name = model.name
        self.inputs = tuple(info.with_sizes(fixed) for info in inputs)
        self.max_shapes = max_shapes
        self._model, self._build, self._devices = model, build, devices
        self._open = [index for index, info in enumerate(inputs) if not info.is_fixed]
        self._arguments = _Arguments([self.inputs], device)
        self._lock = forks.Lock()
        self._clock = count()
        self._places: dict[Key, _Place] = {}
        self._refused: dict[Key, tuple[type[TvmconvError], str]] = {}
        if given.keys() - fixed.keys() or all(info.is_fixed for info in self.inputs):
            first = build(model, shapes=shapes)
            for program in first.programs:
                key = tuple(info.shape for info in program.inputs)
                self._places[key] = _Place(first, is_first=True)

    @classmethod
    def of(
        cls,
        model: Any,
        shapes: ShapeLists | None,
        outputs: Sequence[str] | None,
        build: Build,
        max_shapes: int | None,
        device: int,
        devices: Devices,
    ) -> DynamicModel:
        """Read a model, and build its first shapes by a function with an argument ``shapes``.

        ``devices`` resolves the targets of the builds.
        """
        most = DEFAULT_SHAPES
        if max_shapes is not None:
            most = whole(max_shapes, "max_shapes", error=ConfigError)
        with reported("reading the model"):
            held = hold(model)
            inputs = open_inputs(held, outputs)
        return cls(held, inputs, shapes, build, most, device, devices)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a DynamicModel cannot be pickled or copied: it holds machine code. Build it where you "
            "need it (threads and forked processes may share it)."
        )

    @property
    def threads(self) -> int:
        """Threads of one call, as far as the process has CPUs for them."""
        return self._devices()[0].cores

    @property
    def programs(self) -> tuple[ProgramFacts, ...]:
        """The program of each shape that is kept, in the order in which they were built."""
        return tuple(program for model in self._kept() for program in model.programs)

    def run(self, *arguments: Any, stream: Any = None) -> Outputs:
        """Compute the outputs, after a build if the shapes of the inputs are new.

        Parameters and results are as for :meth:`tvmconv.CompiledModel.run`.

        Raises
        ------
        InputError
            If an input is missing, unknown, of another type, or contradicts the model's shapes.
        ModelError
            If the model cannot be built for these shapes; names the node. Later calls with these
            shapes raise the error without another build.
        """
        queue = None if stream is None else stream_handle(stream)
        arrays = self._arguments.bind(arguments, queue)
        model = self._model_of(tuple([array.shape for array in arrays]))
        return model.run(*arrays, stream=queue)

    __call__ = run

    def compiled(self, shapes: Shapes) -> CompiledModel:
        """The model for one set of shapes, which is built if it is new.

        Use it to build a shape before its first call. Also for what a call does not do, such as
        ``save``, ``profile``, ``time`` and ``run_into``.

        Parameters
        ----------
        shapes
            Full shapes by input name, or sizes by the name of an open dimension.

        Raises
        ------
        InputError
            If a size is missing or contradicts the model.
        ModelError
            As for :meth:`run`.
        """
        return self._model_of(complete_shapes(self.inputs, check_shapes(shapes)))

    def explain(self) -> Report:
        """The report of the kept shapes, printable as text and convertible to JSON."""
        from tvmconv.report.dynamic import dynamic_report

        inputs = "; ".join(map(str, self.inputs))
        return dynamic_report(self.name, inputs, self._kept(), self.max_shapes)

    def save(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a file serves the shapes that it was built for.

        Raises
        ------
        ArtifactError
            Always.
        """
        raise ArtifactError(
            f"cannot save model {self.name!r}: it was built with dynamic=True. Expected a model of "
            "known shapes. Build with a list of them as shapes=, without dynamic=, or save one "
            "shape by compiled(shapes).save(path)."
        )

    bundle = save

    def __repr__(self) -> str:
        inputs = "; ".join(map(str, self.inputs))
        return f"DynamicModel({self.name!r}, inputs=[{inputs}], {len(self.programs)} shapes built)"

    def _stream_cpus(self, cpus: str | None) -> tuple[Sequence[int], bool]:
        if models := self._kept():
            return models[0]._stream_cpus(cpus)
        if cpus is not None:
            raise InputError(
                f"streams(cpus={shown(cpus)}) of model {self.name!r}: no shape is built yet. "
                "Expected a shape, whose code finds the CPUs. Build one by compiled(shapes)."
            )
        return range(host_cores()), self._devices()[0].kind == "cuda"

    def _kept(self) -> list[CompiledModel]:
        with self._lock:
            models = [place.model for place in self._places.values()]
        return list(dict.fromkeys(model for model in models if model is not None))

    def _model_of(self, key: Key) -> CompiledModel:
        # single operations of a dictionary need no lock
        place = self._places.get(key)
        if place is None or place.model is None:
            return self._built(key)
        place.used = next(self._clock)
        return place.model

    @uninterrupted()
    @forks.native(lengthy=True)
    def _built(self, key: Key) -> CompiledModel:
        """Build a model, or wait for the thread that builds it."""
        check_sizes(self.inputs, key)
        while True:
            with self._lock:
                if key in self._refused:
                    kind, text = self._refused[key]
                    raise kind(text)
                place = self._places.get(key)
                if is_mine := place is None:
                    place = self._places[key] = _Place()
            if is_mine:
                return self._make(key, place)
            while not place.done.wait(_POLL_SECONDS):
                checkpoint()
            if place.model is not None:
                return place.model

    def _make(self, key: Key, place: _Place) -> CompiledModel:
        shapes = {self.inputs[index].name: key[index] for index in self._open}
        try:
            model = self._build(self._model, shapes=shapes)
            with self._lock:
                place.model, place.used = model, next(self._clock)
                self._evict()
        except BaseException as error:
            with self._lock:
                self._places.pop(key, None)
                if isinstance(error, _LASTING):
                    self._refuse(key, error)
            raise
        finally:
            place.done.set()
        return model

    def _refuse(self, key: Key, error: TvmconvError) -> None:
        # not the error itself, whose traceback holds the arrays of the call
        kind = ModelError if isinstance(error, ShapeError) else type(error)
        self._refused[key] = (kind, str(error))
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]

    def _evict(self) -> None:
        """Drop the models that were not used for the longest time; running calls keep theirs."""
        kept = [
            (place.used, key)
            for key, place in self._places.items()
            if place.model is not None and not place.is_first
        ]
        for _, key in sorted(kept)[: max(len(kept) - self.max_shapes, 0)]:
            del self._places[key]


class _Arguments(Parameters):
    """Arguments of any shape."""

    def _check(
        self, info: Declared, dtype: np.dtype[Any], value: Any, stream: int | None
    ) -> Array | GpuTensor:
        if type(value) is np.ndarray and value.dtype == dtype:
            return value
        return typed(info, dtype, value, stream, self._device)
