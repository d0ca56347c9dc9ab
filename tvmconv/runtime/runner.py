"""Calls of a loaded model from any number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import shown
from ..core.errors import InputError
from ..core.tensor import TensorInfo
from .binding import Code, State, pointers
from .outputs import empty_aligned

Array = npt.NDArray[Any]


class Runner:
    """Runs one model; each call that runs at a time has a state of its own.

    Parameters
    ----------
    code
        The model.
    inputs, outputs
        Its tensors.
    threads
        Threads of one call.
    weights
        The constants, where they are not part of the code.
    """

    def __init__(
        self,
        code: Code,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        threads: int,
        weights: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        self._code = code
        self._inputs = inputs
        self._outputs = outputs
        self._threads = threads
        self._weights = weights
        # append and pop of a deque are atomic: no lock between concurrent calls
        self._idle: deque[State] = deque()

    def new_state(self) -> State:
        """A state that the caller keeps."""
        return State(self._code, self._threads, self._weights)

    def prepare(self) -> None:
        """Have a state for the next call."""
        if not self._idle:
            self._idle.append(self.new_state())

    def empty_outputs(self) -> list[Array]:
        """Uninitialised arrays for the results."""
        return [empty_aligned(info.shape, info.dtype) for info in self._outputs]

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """One call; the results are arrays of the caller's own."""
        results = self.empty_outputs()
        self._call(arrays, results)
        return results

    def run_into(self, arrays: Sequence[Array], destinations: Sequence[Array]) -> None:
        """One call with the results in existing arrays.

        Raises
        ------
        InputError
            If a destination has another shape or type than its output, or cannot be written.
        """
        for info, array in zip(self._outputs, destinations, strict=True):
            if not isinstance(array, np.ndarray):
                raise InputError(
                    f"the destination of output {info.name!r} must be an array, not {shown(array)}"
                )
            if array.shape != info.shape or array.dtype != info.dtype or not array.flags.writeable:
                raise InputError(
                    f"the destination of output {info.name!r} must be a writable {info.dtype} "
                    f"array of shape {info.shape}, got {array.dtype} {array.shape}"
                )
        # results are written before the last input is read
        taken = list(arrays)
        results: list[Array] = []
        for info, array in zip(self._outputs, destinations, strict=True):
            direct = array.flags.carray and not any(
                np.may_share_memory(array, other) for other in (*taken, *results)
            )
            results.append(array if direct else empty_aligned(info.shape, info.dtype))
        self._call(arrays, results)
        for result, array in zip(results, destinations, strict=True):
            if result is not array:
                np.copyto(array, result)

    def _call(self, arrays: Sequence[Array], results: Sequence[Array]) -> None:
        held = [in_memory(array) for array in arrays]
        try:
            state = self._idle.pop()
        except IndexError:
            state = self.new_state()
        state.run(addresses(held), addresses(results))
        # the state of a call that failed is dropped
        self._idle.append(state)


def in_memory(array: Array) -> Array:
    """The array itself if kernels can read it in place, or a copy."""
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")


def addresses(arrays: Sequence[Array]) -> Any:
    """Where arrays start, for :class:`State`; the arrays must be kept alive."""
    return pointers([array.__array_interface__["data"][0] for array in arrays])
