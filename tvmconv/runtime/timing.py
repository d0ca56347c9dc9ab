"""Timing of whole calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.tensor import TensorInfo
from tvmconv.runtime import threads
from tvmconv.runtime.outputs import Outputs, empty_aligned
from tvmconv.runtime.runner import Runner

if TYPE_CHECKING:
    from tvmconv.model import CompiledModel

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Timing:
    """Samples of the time of one call, in seconds."""

    samples: tuple[float, ...]

    @property
    def min(self) -> float:
        """Fastest sample: what the code can do when nothing disturbs it."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """Median sample."""
        return median(self.samples)

    def to_json(self) -> dict[str, Any]:
        """Plain data with every sample."""
        return {"min": self.min, "median": self.median, "samples": list(self.samples)}


class BoundCall:
    """A call whose inputs are fixed: calling it runs the model and nothing else.

    It holds its own copies of the inputs and its own state, and may be used by one thread at a
    time. The outputs of the last call are read with :meth:`outputs`.
    """

    def __init__(self, model: CompiledModel, runner: Runner, arrays: Sequence[Array]) -> None:
        self._model = model
        self._runner = runner
        self._instance = runner.new_instance()
        copies = [empty_aligned(a.shape, a.dtype.name) for a in arrays]
        for copy, array in zip(copies, arrays, strict=True):
            np.copyto(copy, array)
        self.tensors = self._instance.tensors(copies)
        self._main = self._instance.main
        self._threads = model.threads
        self._result: Any = None
        self._lease = runner.lease

    def __call__(self) -> None:
        """Run the model once."""
        # the previous result goes first: its memory serves this call again
        self._result = None
        self._result = threads.call(self._threads, self._main, *self.tensors)

    def outputs(self) -> Outputs:
        """Copies of the last call's outputs; the first call is made if there was none."""
        if self._result is None:
            self()
        arrays = self._runner.arrays(self._result, self.tensors)
        names = tuple(info.name for info in self._model.outputs)
        return Outputs(names, [array.copy() for array in arrays])


def time_call(call: BoundCall, repeat: int, number: int = 1, warmup: int = 2) -> Timing:
    """Samples of a bound call; see :meth:`CompiledModel.time`."""
    for _ in range(max(warmup, 0)):
        call()
    samples = []
    for _ in range(max(repeat, 1)):
        start = time.perf_counter()
        for _ in range(max(number, 1)):
            call()
        samples.append((time.perf_counter() - start) / max(number, 1))
    return Timing(tuple(samples))


def random_inputs(inputs: Sequence[TensorInfo], seed: int = 0) -> dict[str, Array]:
    """Seeded inputs: standard normal floats, small non-negative integers, random booleans."""
    generator = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for info in inputs:
        dtype = np.dtype(info.dtype)
        if dtype.kind == "f":
            values[info.name] = generator.standard_normal(info.shape).astype(dtype)
        else:
            high = 2 if dtype.kind == "b" else 10
            values[info.name] = generator.integers(0, high, info.shape).astype(dtype)
    return values
