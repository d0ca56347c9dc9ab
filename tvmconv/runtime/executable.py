"""A compiled model as something to call, whoever opened it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy.typing as npt

from ..core.arguments import shown, whole
from ..core.errors import InputError
from ..core.interrupts import uninterrupted
from ..core.tensor import TensorInfo
from . import forks
from .arguments import Parameters
from .gpu_options import GpuOptions
from .outputs import Outputs, empty_aligned
from .runner import Runner
from .tensors import stream_handle
from .timing import BoundCall, Timing, random_inputs, time_call

if TYPE_CHECKING:
    from ..core.decision import KernelCall
    from .profile import Profile

Array = npt.NDArray[Any]


class Executable(ABC):
    """A model's inputs and outputs, and every way to call it.

    Any number of threads may call it at the same time: each call has its own state, constants
    are shared.
    """

    def __init__(
        self,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        gpu: GpuOptions | None = None,
    ) -> None:
        self._gpu = gpu or GpuOptions()
        self._parameters = Parameters(inputs, self._gpu.device)
        self._names = tuple(info.name for info in outputs)
        self._lock = forks.Lock()
        self._runner: Runner | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it holds machine code. Save it, "
            "and load it where you need it (threads and forked processes may share it)."
        )

    @property
    @abstractmethod
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Inputs in argument order."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Outputs in result order."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of one call, as far as the process has CPUs for them."""

    @property
    @abstractmethod
    def calls(self) -> tuple[KernelCall, ...]:
        """Kernel calls in execution order."""

    @abstractmethod
    def _start(self) -> Runner:
        """Load the code."""

    def run(self, *arguments: Any, stream: Any = None) -> Outputs:
        """Compute the outputs.

        Parameters
        ----------
        arguments
            One mapping of input name to array, or the arrays in input order; numpy's, or any
            that DLPack exchanges. Types must be the model's. C-contiguous arrays are read in
            place, others are copied. A model for a GPU takes tensors in its memory, too.
        stream
            Of a model for a GPU, the CUDA stream that the call is queued to and not waited for:
            its handle, or an object with ``cuda_stream`` or ``ptr``, as torch and cupy have.
            Inputs have to be kept until the stream is done with them.

        Returns
        -------
        Outputs
            A tuple of arrays in output order that is indexed by name as well. The arrays are
            the caller's to keep and to change. Where an input is in a GPU's memory, or a stream
            is given, they are a :class:`~tvmconv.runtime.tensors.GpuTensor` each: in the order of
            the stream, or complete without one.

        Raises
        ------
        InputError
            If an input is missing, unknown, or of another shape or type.
        ArtifactError
            If this processor lacks a feature the model was built for.
        """
        queue = None if stream is None else stream_handle(stream)
        arrays = self._parameters.bind(arguments, queue)
        return Outputs(self._names, self._ready().run(arrays, queue))

    def __call__(self, *arguments: Any, stream: Any = None) -> Outputs:
        """The same as :meth:`run`."""
        return self.run(*arguments, stream=stream)

    def run_into(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Mapping[str, Any] | Sequence[Any],
        *,
        stream: Any = None,
    ) -> None:
        """Compute the outputs into arrays that exist, or into tensors of the GPU's memory.

        Parameters
        ----------
        inputs
            As of :meth:`run`, in one mapping or sequence.
        outputs
            Arrays by output name, or in output order: writable, and of the model's shapes and
            types. All in the processor's memory, where C-contiguous ones are written in place, or
            all in the GPU's.
        stream
            As of :meth:`run`: the call is queued and not waited for. Outputs are then in the GPU's
            memory.

        Raises
        ------
        InputError
            As :meth:`run`; and if an output array is missing, of another shape or type, or lies
            elsewhere.
        ArtifactError
            As :meth:`run`.
        """
        queue = None if stream is None else stream_handle(stream)
        arrays = self._parameters.bind((inputs,), queue)
        if isinstance(outputs, Mapping):
            if missing := [name for name in self._names if name not in outputs]:
                raise InputError(
                    f"missing output array(s): {', '.join(missing)}; give one for each of "
                    f"{', '.join(self._names)}"
                )
            outputs = [outputs[name] for name in self._names]
        if not isinstance(outputs, list | tuple):
            raise InputError(f"outputs={shown(outputs)} must be a mapping or a list of arrays")
        if len(outputs) != len(self._names):
            raise InputError(f"the model has {len(self._names)} output(s), got {len(outputs)}")
        self._ready().run_into(arrays, outputs, queue)

    def empty_inputs(self) -> dict[str, Array]:
        """Uninitialised arrays for the inputs by name, aligned as kernels read them best."""
        return {t.name: empty_aligned(t.shape, t.dtype) for t in self.inputs}

    def bind(self, inputs: Mapping[str, Any] | Sequence[Any]) -> BoundCall:
        """A call with fixed input tensors: the shortest path into the kernels.

        Parameters
        ----------
        inputs
            As of :meth:`run`, in one mapping or sequence; they are copied.

        Returns
        -------
        BoundCall
            Called without arguments, it computes the outputs, of which its ``outputs()`` makes
            copies. For one thread at a time.

        Raises
        ------
        InputError, ArtifactError
            As :meth:`run`.
        """
        return BoundCall(self._names, self._ready(), self._parameters.bind((inputs,)))

    def time(
        self,
        inputs: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        repeat: int = 20,
        number: int = 1,
        warmup: int = 2,
    ) -> Timing:
        """Measure whole calls, argument copies excluded; a GPU's have them in its memory.

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

        Returns
        -------
        Timing
            Seconds of one call: all samples, their least and their median.

        Raises
        ------
        InputError, ArtifactError
            As :meth:`run`, and if a count is no whole number in its range.
        """
        repeat, number = whole(repeat, "repeat"), whole(number, "number")
        warmup = whole(warmup, "warmup", 0)
        values = random_inputs(self.inputs) if inputs is None else inputs
        return time_call(self.bind(values), repeat, number, warmup)

    def profile(
        self,
        inputs: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        repeat: int = 20,
    ) -> Profile:
        """Measure every kernel of a call.

        Parameters
        ----------
        inputs
            Seeded random values by default.
        repeat
            Calls to measure.

        Returns
        -------
        Profile
            Seconds of each kernel and of whole calls; of a model for GPUs by the GPU's events.

        Raises
        ------
        InputError, ArtifactError
            As :meth:`run`, and if ``repeat`` is no whole number from 1.
        """
        from .profile import profile_call

        repeat = whole(repeat, "repeat")
        values = random_inputs(self.inputs) if inputs is None else inputs
        return profile_call(self.bind(values), self.calls, repeat, self.threads)

    def prepare(self) -> None:
        """Load the code and make the first state, which the first call would do otherwise."""
        self._ready().prepare()

    def _ready(self) -> Runner:
        return self._runner or self._started()

    # an exception on the way into or out of the lock would leave it held
    @uninterrupted()
    def _started(self) -> Runner:
        with self._lock:
            if self._runner is None:
                self._runner = self._start()
            return self._runner
