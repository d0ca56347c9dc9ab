"""A compiled model as an object to call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from ..core.arguments import shown, whole
from ..core.errors import InputError
from ..core.interrupts import uninterrupted
from ..core.tensor import Array, TensorInfo
from . import forks
from .arguments import Parameters
from .gpu_options import GpuOptions
from .memory import empty_aligned
from .outputs import Outputs
from .runner import Runner
from .submitting import Submitting
from .tensors import GpuTensor, stream_handle
from .timing import BoundCall, Timing, random_inputs, time_call

if TYPE_CHECKING:
    from ..core.decision import KernelCall
    from .profile import Profile


class ProgramInfo(Protocol):
    """A model's program for one shape of its inputs."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Inputs in argument order."""

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Outputs in result order."""

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """Kernel calls in execution order."""


class Executable(Submitting, ABC):
    """A model's inputs and outputs, and every way to call it.

    Any number of threads may call it at the same time: each call has its own state, and all share
    the constants.
    """

    def __init__(self, gpu: GpuOptions | None = None) -> None:
        super().__init__()
        self._gpu = gpu or GpuOptions()
        programs = [program.inputs for program in self.programs]
        self._parameters = Parameters(programs, self._gpu.device)
        self._names = tuple(info.name for info in self.outputs)
        self._lock = forks.Lock()
        self._runners: tuple[Runner, ...] = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it holds machine code. Save it, "
            "and load it where you need it (threads and forked processes may share it)."
        )

    @property
    @abstractmethod
    def programs(self) -> Sequence[ProgramInfo]:
        """The program of each shape that the model was built for, in the order of ``shapes=``."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Inputs of the first program in argument order."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Outputs of the first program in result order."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of one call, as far as the process has CPUs for them."""

    @property
    @abstractmethod
    def calls(self) -> tuple[KernelCall, ...]:
        """Kernel calls of the first program in execution order."""

    @abstractmethod
    def _start(self) -> tuple[Runner, ...]:
        """Load the code: a runner of each program."""

    def run(self, *arguments: Any, stream: Any = None) -> Outputs:
        """Compute the outputs.

        Parameters
        ----------
        arguments
            One mapping of input name to array, or the arrays in input order: numpy arrays, or any
            that support DLPack. Element types must be the model's. C-contiguous arrays are read in
            place, others are copied. The program for the shapes of the arrays runs. A model for a
            GPU also accepts tensors in the GPU's memory.
        stream
            CUDA only: the stream to which the call is queued without waiting for it. A handle, or
            an object with ``cuda_stream`` or ``ptr``, as torch and cupy have. Keep the inputs
            until the stream is done with them.

        Returns
        -------
        Outputs
            A tuple of arrays in output order that is indexed by name as well. The caller may keep
            and change the arrays. An output whose size depends on the data has its actual shape. It
            is a view of an array of the largest shape, or a copy if the first axis is fixed. If an
            input is in the GPU's memory, or with a stream, each is a
            :class:`~tvmconv.runtime.tensors.GpuTensor`: ordered by the stream, or complete without
            a stream.

        Raises
        ------
        InputError
            If an input is missing, unknown, or of another shape or type.
        ArtifactError
            If this CPU lacks a feature that the model was built for.
        """
        queue = None if stream is None else stream_handle(stream)
        arrays = self._parameters.bind(arguments, queue)
        return Outputs(self._names, self._runner_of(arrays).run(arrays, queue))

    __call__ = run

    def run_into(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Mapping[str, Any] | Sequence[Any],
        *,
        stream: Any = None,
    ) -> Outputs:
        """Compute the outputs into existing arrays, or into tensors in the GPU's memory.

        Parameters
        ----------
        inputs
            As for :meth:`run`, in one mapping or sequence.
        outputs
            Arrays by output name, or in output order: writable, and of the model's shapes and
            types. All are in the CPU's memory, where C-contiguous ones are written in place, or
            all in the GPU's.
        stream
            As for :meth:`run`. Outputs must then be in the GPU's memory.

        Returns
        -------
        Outputs
            The arrays of ``outputs``. An output whose size depends on the data has an array of its
            largest shape, and a view of the part that exists is returned.

        Raises
        ------
        InputError
            As for :meth:`run`. Also if an output array is missing, of another shape or type, or
            in another memory.
        ArtifactError
            As for :meth:`run`.
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
        return Outputs(self._names, self._runner_of(arrays).run_into(arrays, outputs, queue))

    def empty_inputs(self) -> dict[str, Array]:
        """Uninitialized arrays for the inputs by name, aligned for the kernels."""
        return {t.name: empty_aligned(t.shape, t.dtype) for t in self.inputs}

    def bind(self, inputs: Mapping[str, Any] | Sequence[Any]) -> BoundCall:
        """A call with copies of the inputs: the shortest path into the kernels.

        Returns
        -------
        BoundCall
            Called without arguments, it computes the outputs; ``outputs()`` copies them. Write
            values for the next call into the arrays of ``inputs``. One thread at a time may use it.
        """
        arrays = self._parameters.bind((inputs,))
        return BoundCall(self._names, self._runner_of(arrays), arrays)

    def time(
        self,
        inputs: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        repeat: int = 20,
        number: int = 1,
        warmup: int = 2,
    ) -> Timing:
        """Measure whole calls, without copies of arguments to or from the GPU.

        Parameters
        ----------
        inputs
            Seeded random values by default.
        repeat
            Number of samples.
        number
            Calls in each sample.
        warmup
            Calls before the first sample.

        Returns
        -------
        Timing
            Seconds of one call: all samples, their minimum and their median.
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
        """Measure every kernel of a call; on a GPU by its events.

        Parameters
        ----------
        inputs
            Seeded random values by default.
        repeat
            Number of measured calls.
        """
        from .profile import profile_call

        repeat = whole(repeat, "repeat")
        values = random_inputs(self.inputs) if inputs is None else inputs
        arrays = self._parameters.bind((values,))
        if (images := self._runner_of(arrays).images(arrays)) != 1:
            raise InputError(f"profile of {images} images. Expected one image. Pass one.")
        program = self.programs[self._parameters.index_of(arrays)]
        call = BoundCall(self._names, self._runner_of(arrays), arrays)
        return profile_call(call, program.calls, repeat, self.threads)

    def prepare(self) -> None:
        """Load the code and make the first state before the first call."""
        self._ready().prepare()

    def _ready(self) -> Runner:
        """The runner of the first program."""
        return (self._runners or self._started())[0]

    def _stream_cpus(self, cpus: str | None) -> tuple[Sequence[int], bool]:
        runner = self._ready()
        return runner.cpus(cpus), runner.on_gpu

    def _runner_of(self, arrays: Sequence[Array | GpuTensor]) -> Runner:
        runners = self._runners or self._started()
        return runners[0 if len(runners) == 1 else self._parameters.index_of(arrays)]

    # an exception on the way into or out of the lock would leave it held
    @uninterrupted()
    def _started(self) -> tuple[Runner, ...]:
        with self._lock:
            self._runners = self._runners or self._start()
            return self._runners
