"""The arguments of ``run``, checked against the model's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..core.arguments import nearest, shown
from ..core.errors import InputError
from ..core.stored_types import numpy_type
from ..core.tensor import Array, Declared
from .dlpack import on_gpu
from .tensors import GpuTensor, borrowed


class Parameters:
    """The inputs of a model in argument order; tensors in a GPU's memory must be on ``device``.

    ``programs`` are the inputs of each program, which differ in their shapes.
    """

    def __init__(self, programs: Sequence[Sequence[Declared]], device: int = 0) -> None:
        self._inputs = inputs = tuple(programs[0])
        self._programs = {
            tuple(info.shape for info in each): index for index, each in enumerate(programs)
        }
        self._device = device
        self._wanted = [(info, numpy_type(info.dtype), info.shape) for info in inputs]
        self._order = [info.name for info in inputs]
        self._names = set(self._order)
        self._batched = [place for place, info in enumerate(inputs) if info.batched]

    def bind(self, arguments: Sequence[Any], stream: int | None = None) -> list[Array | GpuTensor]:
        """Arrays in input order, with shapes and types checked.

        Parameters
        ----------
        arguments
            One mapping of name to array, one list or tuple of arrays, or the arrays themselves.
        stream
            The stream that orders the use of tensors in a GPU's memory.

        Raises
        ------
        InputError
            If an input is missing, unknown, or has another shape or element type.
        """
        inputs = self._inputs
        arrays = list(arguments)
        if len(arguments) == 1 and type(first := arguments[0]) is not np.ndarray:
            if type(first) is dict or isinstance(first, Mapping):
                if first.keys() != self._names:
                    _refuse_names(inputs, first)
                arrays = list(map(first.__getitem__, self._order))
            elif isinstance(first, (list, tuple)) and _is_sequence(inputs, first):
                arrays = list(first)
        if len(arrays) != len(inputs):
            raise InputError(
                f"the model has {len(inputs)} input(s), got {len(arrays)}. Expected "
                f"{describe(inputs)}."
            )
        # loops and `map`: comprehensions take longer than their elements for few inputs
        for place, (info, dtype, shape) in enumerate(self._wanted):
            value = arrays[place]
            if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                arrays[place] = self._check(info, dtype, value, stream)
        if len(self._batched) > 1:
            self._check_images(arrays)
        return arrays

    def _check_images(self, arrays: Sequence[Array | GpuTensor]) -> None:
        counts = {self._order[place]: arrays[place].shape[0] for place in self._batched}
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{count} in {name!r}" for name, count in counts.items())
            raise InputError(
                f"inputs have different numbers of images: {said}. Expected one number. Pass as "
                "many images in each."
            )

    def index_of(self, arrays: Sequence[Array | GpuTensor]) -> int:
        """The place of the program for bound arrays; raises ``InputError`` if none fits."""
        shapes = given = tuple([array.shape for array in arrays])
        if self._batched:
            pairs = zip(given, self._inputs, strict=True)
            shapes = tuple([(1, *s[1:]) if info.batched and s else s for s, info in pairs])
        try:
            return self._programs[shapes]
        except KeyError:
            raise InputError(self._refusal(given)) from None

    def _refusal(self, shapes: Sequence[tuple[int, ...]]) -> str:
        """Why no program takes inputs of these shapes."""
        what = f"input {self._inputs[0].name!r} has shape"
        if len(self._inputs) > 1:
            what = "the inputs have shapes"
        expected = ", ".join(map(self._expected, self._programs))
        return (
            f"{what} {self._said(shapes)}, and the model was not built for it. Expected one of "
            f"{expected}. Pass one of these, or build the model again with this one."
        )

    def _said(self, shapes: Sequence[tuple[int, ...]]) -> str:
        """The shape of the only input, or of each by its name."""
        names = [info.name for info in self._inputs]
        return str(dict(zip(names, shapes, strict=True)) if len(names) > 1 else shapes[0])

    def _expected(self, shapes: Sequence[tuple[int, ...]]) -> str:
        """The same for a program, with N for any number of images."""
        pairs = zip(self._inputs, shapes, strict=True)
        texts = [_shape_text(shape, info.batched) for info, shape in pairs]
        named = [f"{info.name!r}: {text}" for info, text in zip(self._inputs, texts, strict=True)]
        return f"{{{', '.join(named)}}}" if len(texts) > 1 else texts[0]

    def _check(
        self, info: Declared, dtype: np.dtype[Any], value: Any, stream: int | None
    ) -> Array | GpuTensor:
        """An array of the input's type, and of its shape unless there are several programs."""
        array = typed(info, dtype, value, stream, self._device)
        shape = array.shape
        if info.batched and len(shape) == len(info.shape):
            if not shape[0]:
                raise InputError(
                    f"input {info.name!r} has no images. Expected one or more. Leave out the call."
                )
            shape = (1, *shape[1:])
        if shape != info.shape and len(self._programs) == 1:
            raise InputError(
                f"input {info.name!r} has shape {array.shape}. Expected "
                f"{_shape_text(info.shape, info.batched)}. "
                f"{_remedy(info.name, shape, info.shape)}."
            )
        return array


def describe(inputs: Sequence[Declared]) -> str:
    """One line for error messages."""
    return "; ".join(map(str, inputs))


def _shape_text(shape: tuple[int, ...], batched: bool) -> str:
    """A shape, with N for any number of images."""
    return f"({', '.join(['N', *map(str, shape[1:])])})" if batched else str(shape)


def _is_sequence(inputs: Sequence[Declared], value: Sequence[Any]) -> bool:
    """Whether a list holds the inputs, rather than being one input written as nested lists."""
    if len(inputs) != 1 or (len(value) == 1 and on_gpu(value[0])):
        return True
    shape = inputs[0].shape
    try:
        return len(value) == 1 and (shape is None or np.ndim(value[0]) == len(shape))
    except ValueError:  # nested lists of different lengths
        return False


def _refuse_names(inputs: Sequence[Declared], values: Mapping[str, Any]) -> None:
    names = [info.name for info in inputs]
    for name in values:
        if name not in names:
            hint = nearest(name, names) or f"the inputs are {describe(inputs)}"
            raise InputError(f"the model has no input {shown(name)}; {hint.rstrip()}")
    if missing := [info for info in inputs if info.name not in values]:
        raise InputError(f"missing input(s): {describe(missing)}. Pass an array for each.")


def _as_array(value: Any) -> Array:
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return np.asarray(value)
    return np.from_dlpack(value)


def shared_array(value: Any) -> Any:
    """The memory of another library's tensor as an array; any other value unchanged."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return value
    try:
        return np.from_dlpack(value)
    except (TypeError, ValueError, BufferError, RuntimeError):
        return value


def typed(
    info: Declared, dtype: np.dtype[Any], value: Any, stream: int | None, device: int
) -> Array | GpuTensor:
    """A value as an array of the type; a GPU's tensor is checked for the shape, too."""
    if type(value) is not np.ndarray and on_gpu(value):
        return borrowed(value, info, f"input {info.name!r}", stream, device)
    try:
        array = value if type(value) is np.ndarray else _as_array(value)
    except (TypeError, ValueError, OverflowError, BufferError, RuntimeError) as error:
        raise InputError(f"input {info.name!r} is not an array: {error}") from None
    if array.dtype.kind in "OSU":
        raise InputError(
            f"input {info.name!r} must be a numeric array, got {type(value).__name__}. Pass a "
            f"numpy array of {info.dtype}."
        )
    if array.dtype != dtype:
        raise InputError(
            f"input {info.name!r} has type {array.dtype}. Expected {info.dtype}. Convert the "
            f"array with .astype({info.dtype!r})."
        )
    return array


def _remedy(name: str, given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """How to get the wanted shape without mixing up values."""
    if sorted(given) == sorted(wanted):
        remedy = "Put its axes in that order with .transpose (not .reshape)"
    else:
        remedy = "Reshape it" if prod(given) == prod(wanted) else "Pass an array of that shape"
    if len(given) != len(wanted) or 0 in given:
        # no model can be built for such an array
        return remedy
    return f"{remedy}, or build the model again with shapes={{{name!r}: {given}}}"
