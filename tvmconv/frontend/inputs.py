"""Makes tensors of static shape of the graph's declared inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tvmconv.core.arguments import nearest, shown
from tvmconv.core.errors import ModelError, ShapeError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.limits import MAX_DIMENSION
from tvmconv.frontend.tensors import check_shape, element_type

if TYPE_CHECKING:
    import onnx

Shapes = Mapping[str, Sequence[int]]
# exporters write these for any unknown size: paddle2onnx `?`, tf2onnx `unk__` and a number
_UNKNOWN = re.compile(r"\s*(\?|-1|None|unk__\d+)?\s*")


def freeze_inputs(
    graph: onnx.GraphProto, constants: Mapping[str, object], shapes: Shapes | None
) -> tuple[TensorInfo, ...]:
    """The graph's inputs with static shapes, without inputs that are also initializers.

    ``shapes`` holds full shapes by input name. A symbolic dimension of several inputs must be given
    once, unless its name stands for any unknown size, such as `?`. ``ModelError`` names the input,
    the dimension and a sufficient ``shapes=``.
    """
    inputs = [value for value in graph.input if value.name not in constants]
    given = {name: _given(name, shape) for name, shape in check_shapes(shapes).items()}
    if unknown := set(given) - {value.name for value in inputs}:
        names = [value.name for value in inputs]
        hints = "".join(nearest(name, names) for name in sorted(unknown))
        raise ModelError(f"shapes= names {sorted(unknown)}; {hints}the model's inputs are {names}")
    bound: dict[str, int] = {}
    for value in inputs:
        if value.name in given:
            _bind(value, given[value.name], bound)
    return tuple(_freeze(value, given.get(value.name), bound) for value in inputs)


def check_shapes(shapes: Any) -> Shapes:
    """The argument ``shapes`` as a mapping; raises :class:`ModelError` for other values."""
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping) or not all(isinstance(name, str) for name in shapes):
        raise ModelError(
            f"shapes={shown(shapes)} must map names of inputs to shapes, such as "
            "{'input': (1, 3, 224, 224)}"
        )
    return shapes


def _given(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(int(n) for n in shape)
        fine = all(
            0 <= n <= MAX_DIMENSION and type(m) is not bool and bool(n == m)
            for n, m in zip(sizes, shape, strict=True)
        )
    except (TypeError, ValueError, OverflowError):
        fine = False
    if not fine:
        raise ModelError(
            f"shapes[{name!r}]={shown(shape)} must be a sequence of integers of 0 or more, "
            "such as (1, 3, 224, 224)"
        )
    return sizes


def _bind(value: onnx.ValueInfoProto, shape: tuple[int, ...], bound: dict[str, int]) -> None:
    """Check a given shape against the declared one and learn its symbolic dimensions."""
    declared = value.type.tensor_type
    if not declared.HasField("shape"):
        return
    dims = declared.shape.dim
    if len(dims) != len(shape):
        raise ModelError(
            f"shapes[{value.name!r}]={shape} has rank {len(shape)}, but input {value.name!r} has "
            f"rank {len(dims)}: {_declared(value)}"
        )
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        if dim.dim_value > 0 and dim.dim_value != size:
            raise ModelError(
                f"shapes[{value.name!r}]={shape}: the model fixes dimension {axis} to "
                f"{dim.dim_value}, not {size}. Give {dim.dim_value}, or export the model with "
                "that dimension symbolic."
            )
        if _UNKNOWN.fullmatch(dim.dim_param):
            continue
        if bound.setdefault(dim.dim_param, size) != size:
            raise ModelError(
                f"shapes[{value.name!r}]={shape}: dimension {axis} is {dim.dim_param!r}, which "
                f"another input's shape sets to {bound[dim.dim_param]}; make them equal"
            )


def _freeze(
    value: onnx.ValueInfoProto, given: tuple[int, ...] | None, bound: Mapping[str, int]
) -> TensorInfo:
    where = f"input {value.name!r}"
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError(f"{where} is not a tensor; only tensors are supported")
    declared = value.type.tensor_type
    dtype = element_type(declared.elem_type, where)
    if given is not None:
        shape = given
    elif not declared.HasField("shape"):
        raise ModelError(
            f"{where} has no declared shape. Give it, for example "
            f"--shape {value.name}:1x3x224x224, in Python "
            f"shapes={{{value.name!r}: (1, 3, 224, 224)}}."
        )
    else:
        sizes = [
            dim.dim_value if dim.dim_value > 0 else bound.get(dim.dim_param, 0)
            for dim in declared.shape.dim
        ]
        # some exporters write 0 for an unknown size; an empty input must be given as such
        missing = [axis for axis, size in enumerate(sizes) if not size]
        if missing:
            sides = _declared(value)
            option = sides.strip("(,)").replace(", ", "x")
            raise ModelError(
                f"{where}: dimension(s) {', '.join(map(str, missing))} of {sides} are not fixed. "
                f"Give the whole shape, --shape {value.name}:{option}, in "
                f"Python shapes={{{value.name!r}: {sides}}}, with a number for each name."
            )
        shape = tuple(int(size) for size in sizes)
    check_shape(shape, dtype, where)
    return TensorInfo(value.name, shape, dtype)


def _declared(value: onnx.ValueInfoProto) -> str:
    dims = [
        str(dim.dim_value)
        if dim.dim_value > 0
        else (f"dim{axis}" if _UNKNOWN.fullmatch(dim.dim_param) else str(dim.dim_param))
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
    ]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


@contextmanager
def fitted(shapes: Shapes | None) -> Iterator[None]:
    """Mention the given shapes in errors about contradicting shapes."""
    try:
        yield
    except ShapeError as error:
        if not shapes:
            raise
        given = {name: tuple(map(int, shape)) for name, shape in shapes.items()}
        raise ShapeError(
            error.problem,
            f"give a shape that the network supports instead of {given}, or correct the model and "
            "export it again",
        ) from None
