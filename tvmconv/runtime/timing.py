"""Timing of whole calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.stored_types import SMALL_INTEGERS, STORED, numpy_type
from ..core.tensor import Array, TensorInfo
from .outputs import Outputs, part
from .runner import Runner, addresses
from .tensors import GpuTensor, own_copy


@dataclass(frozen=True)
class Timing:
    """Samples of the time of one call, in seconds."""

    samples: tuple[float, ...]

    @property
    def min(self) -> float:
        """Fastest sample."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """Median sample."""
        return float(np.median(self.samples))

    @property
    def mean(self) -> float:
        """Arithmetic mean of the samples."""
        return float(np.mean(self.samples))

    @property
    def rate(self) -> float:
        """Calls in a second, at the mean."""
        return 1 / self.mean

    def percentile(self, share: float) -> float:
        """The time that ``share`` percent of the samples do not exceed, such as 99."""
        return float(np.percentile(self.samples, share))

    def to_json(self) -> dict[str, Any]:
        """Plain data with every sample."""
        return {
            "min": self.min,
            "median": self.median,
            "mean": self.mean,
            "samples": list(self.samples),
        }


class BoundCall:
    """A prepared call: calling it runs the model and nothing else.

    It holds copies of the inputs on the model's device, and its own state. One thread at a time
    may use it. Write values for the next call into the tensors of ``inputs``, by name.
    :meth:`outputs` reads the outputs of the last call.
    """

    def __init__(
        self, names: tuple[str, ...], runner: Runner, arrays: Sequence[Array | GpuTensor]
    ) -> None:
        self._names = names
        self._infos = runner.outputs
        self._state = runner.new_state()
        held, self._results = runner.operands(arrays)
        self._state.bind(addresses(held), addresses(self._results), runner.images(arrays))
        self.inputs = {info.name: x for info, x in zip(runner.inputs, held, strict=True)}
        self._called = False

    def __call__(self) -> None:
        """Run the model once."""
        self._state.run()
        self._called = True

    def profile(self) -> list[int]:
        """Run the model once; the nanoseconds of each layer."""
        self._called = True
        return self._state.profile()

    def outputs(self) -> Outputs:
        """Copies of the last call's outputs; calls the model if it was never called."""
        if not self._called:
            self()
        found = map(part, self._results, self._infos, self._state.extents())
        return Outputs(self._names, [own_copy(array) for array in found])


def time_call(call: BoundCall, repeat: int, number: int = 1, warmup: int = 2) -> Timing:
    """Samples of a bound call; see ``time`` of a model."""
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
    """Seeded inputs: standard normal floats, small non-negative integers, random booleans.

    Integers of 32 and 64 bits are 0 or 1, because they may be indices of an axis of size 2.
    """
    generator = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for info in inputs:
        dtype = numpy_type(info.dtype)
        if dtype.kind == "f" or (info.dtype in STORED and STORED[info.dtype].wide == "float32"):
            values[info.name] = generator.standard_normal(info.shape).astype(dtype)
        else:
            short = dtype.kind == "b" or info.dtype in SMALL_INTEGERS
            high = 2 if short or dtype.itemsize > 2 else 10
            values[info.name] = generator.integers(0, high, info.shape).astype(dtype)
    return values
