"""Inputs whose dimensions may be open, as a model declares them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tvmconv.core.arguments import shown, whole
from tvmconv.core.errors import InputError, ModelError
from tvmconv.core.tensor import Shapes
from tvmconv.frontend.limits import MAX_DIMENSION
from tvmconv.frontend.tensors import element_type

if TYPE_CHECKING:
    import onnx

# exporters write these for any unknown size: paddle2onnx `?`, tf2onnx `unk__` and a number
_UNKNOWN = re.compile(r"\s*(\?|-1|None|unk__\d+)?\s*")


def is_unknown(name: str) -> bool:
    """Whether the name of a symbolic dimension means any unknown size."""
    return bool(_UNKNOWN.fullmatch(name))


@dataclass(frozen=True)
class OpenTensor:
    """An input of a model.

    Parameters
    ----------
    name
        The ONNX value's name.
    shape
        Its sizes. An open dimension has its name, or None without a name. None for an unknown rank.
    dtype
        Element type in numpy's or ml_dtypes' spelling.
    """

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: str
    # each batch size is a shape of its own
    batched: ClassVar[bool] = False

    @property
    def is_fixed(self) -> bool:
        """Whether all sizes are known."""
        return self.shape is not None and all(isinstance(size, int) for size in self.shape)

    @property
    def dimensions(self) -> Iterator[str]:
        """Names of its open dimensions."""
        return (size for size in self.shape or () if isinstance(size, str))

    def with_sizes(self, sizes: Mapping[str, int]) -> OpenTensor:
        """The input with sizes of named dimensions."""
        if self.shape is None:
            return self
        shape = (sizes.get(size, size) if isinstance(size, str) else size for size in self.shape)
        return replace(self, shape=tuple(shape))

    def said_shape(self) -> str:
        """``1, 3, 48, width``."""
        if self.shape is None:
            return "..."
        return ", ".join("?" if size is None else str(size) for size in self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{self.said_shape()}]"


def declared_inputs(graph: onnx.GraphProto, constants: Container[str]) -> tuple[OpenTensor, ...]:
    """The inputs of a graph that are not initializers."""
    return tuple(_declared(value) for value in graph.input if value.name not in constants)


def _declared(value: onnx.ValueInfoProto) -> OpenTensor:
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError(f"input {value.name!r} is not a tensor; only tensors are supported")
    tensor = value.type.tensor_type
    dtype = element_type(tensor.elem_type, f"input {value.name!r}")
    if not tensor.HasField("shape"):
        return OpenTensor(value.name, None, dtype)
    return OpenTensor(value.name, tuple(map(_size, tensor.shape.dim)), dtype)


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    # some exporters write 0 for an unknown size
    if dim.dim_value > 0:
        return int(dim.dim_value)
    return None if is_unknown(dim.dim_param) else str(dim.dim_param)


def fixed_sizes(inputs: Sequence[OpenTensor], shapes: Shapes) -> dict[str, int]:
    """The entries of ``shapes=`` that give one size for a named dimension."""
    names = {name for info in inputs for name in info.dimensions}
    return {
        name: whole(size, f"shapes[{name!r}]", 1, MAX_DIMENSION, ModelError)
        for name, size in shapes.items()
        if name in names and isinstance(size, int)
    }


def check_sizes(inputs: Sequence[OpenTensor], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise ``InputError`` if arrays of these shapes do not fit the inputs."""
    sizes: dict[str, int] = {}
    for info, shape in zip(inputs, shapes, strict=True):
        if info.shape is None:
            continue
        pairs = list(zip(info.shape, shape, strict=False))
        if len(info.shape) != len(shape) or not all(_fits(*pair) for pair in pairs):
            raise InputError(
                f"input {info.name!r} has shape {shape}. Expected ({info.said_shape()}). Pass an "
                "array of that shape."
            )
        for name, size in pairs:
            if isinstance(name, str) and sizes.setdefault(name, size) != size:
                raise InputError(
                    f"input {info.name!r} has shape {shape}, and dimension {name!r} is "
                    f"{sizes[name]} elsewhere. Expected one size. Pass arrays that agree in it."
                )


def _fits(declared: int | str | None, size: int) -> bool:
    return declared == size if isinstance(declared, int) else declared is None or size > 0


def complete_shapes(inputs: Sequence[OpenTensor], shapes: Shapes) -> tuple[tuple[int, ...], ...]:
    """The shape of each input, from shapes by input name and sizes by dimension name.

    Raises ``InputError`` if one is missing or unknown.
    """
    names = {info.name for info in inputs}
    known = names | {name for info in inputs for name in info.dimensions}
    if unknown := [name for name in shapes if name not in known]:
        raise InputError(
            f"the shapes name {unknown}. Expected names of {', '.join(map(str, inputs))}. Correct "
            "the names."
        )
    return tuple(_complete(info, shapes) for info in inputs)


def _complete(info: OpenTensor, shapes: Mapping[str, Any]) -> tuple[int, ...]:
    found = shapes.get(info.name)
    if found is None and info.shape is not None:
        found = [shapes.get(size) if isinstance(size, str) else size for size in info.shape]
    try:
        return tuple(whole(size, "", 0, MAX_DIMENSION) for size in found or ())
    except (TypeError, InputError):
        raise InputError(
            f"the shape of input {info.name!r} is {shown(found)}. Expected sizes for "
            f"({info.said_shape()}). Give all of them."
        ) from None
