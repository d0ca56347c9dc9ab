"""Makes tensors of static shape of the graph's declared inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Any

from tvmconv.core.arguments import nearest, shown
from tvmconv.core.errors import ModelError, ShapeError
from tvmconv.core.tensor import Shapes, TensorInfo
from tvmconv.frontend.limits import MAX_DIMENSION
from tvmconv.frontend.open_shapes import is_unknown
from tvmconv.frontend.tensors import check_shape, element_type

if TYPE_CHECKING:
    import onnx

# sizes that messages propose for an image (N, C, H, W); other axes have the last one
_USUAL = (1, 3, 224, 224)
_USUAL_LENGTH = 64


class OpenShapeError(ModelError):
    """Dimensions of inputs have no sizes."""


def freeze_inputs(
    graph: onnx.GraphProto, constants: Mapping[str, object], shapes: Shapes | None
) -> tuple[TensorInfo, ...]:
    """The graph's inputs with static shapes, without inputs that are also initializers.

    ``shapes`` holds full shapes by input name, or sizes by the name of a symbolic dimension. A
    symbolic dimension of several inputs must be given once, unless its name means any unknown
    size, such as `?`. ``ModelError`` names all missing dimensions and an example of ``shapes=``.
    """
    inputs = [value for value in graph.input if value.name not in constants]
    given, bound = _split(inputs, check_shapes(shapes))
    for value in inputs:
        if value.name in given:
            _bind(value, given[value.name], bound)
    sizes = {value.name: _sizes(value, given.get(value.name), bound) for value in inputs}
    # some exporters write 0 for an unknown size, so an empty input must be given as such
    fixed = {
        name: shape
        for name, shape in sizes.items()
        if shape is not None and (name in given or all(shape))
    }
    if missing := [value for value in inputs if value.name not in fixed]:
        raise OpenShapeError(_missing(missing, sizes))
    return tuple(_frozen(value, fixed[value.name]) for value in inputs)


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


def _split(
    inputs: list[onnx.ValueInfoProto], shapes: Shapes
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """The shapes of inputs, and the sizes of dimensions."""
    names = [value.name for value in inputs]
    dimensions = list(dict.fromkeys(name for value in inputs for name in _dimensions(value)))
    given: dict[str, tuple[int, ...]] = {}
    bound: dict[str, int] = {}
    unknown = []
    for name, shape in shapes.items():
        if name in dimensions and isinstance(shape, int):
            (bound[name],) = _given(name, (shape,))
        elif name in names:
            given[name] = _given(name, shape, _empty_axes(inputs[names.index(name)]))
        else:
            unknown.append(name)
    if unknown:
        known = [*names, *dimensions]
        hints = "".join(nearest(name, known) for name in sorted(unknown))
        named = f", and its named dimensions are {dimensions}" if dimensions else ""
        raise ModelError(
            f"shapes= (--shape, --dim) names {sorted(unknown)}; {hints}the model's inputs are "
            f"{names}{named}. Name one of these."
        )
    return given, bound


def _dimensions(value: onnx.ValueInfoProto) -> list[str]:
    """Names of the symbolic dimensions of an input."""
    dims = value.type.tensor_type.shape.dim
    named = (str(dim.dim_param) for dim in dims if dim.dim_value <= 0)
    return [name for name in named if not is_unknown(name)]


def _empty_axes(value: onnx.ValueInfoProto) -> list[int]:
    """Axes that the model declares as empty, or of an unknown size as some exporters do."""
    dims = enumerate(value.type.tensor_type.shape.dim)
    return [axis for axis, dim in dims if dim.HasField("dim_value") and not dim.dim_value]


def _given(name: str, shape: Any, empty_axes: Sequence[int] = ()) -> tuple[int, ...]:
    try:
        sizes = tuple(int(n) for n in shape)
        fine = all(
            int(axis not in empty_axes) <= n <= MAX_DIMENSION
            and type(m) is not bool
            and bool(n == m)
            for axis, (n, m) in enumerate(zip(sizes, shape, strict=True))
        )
    except (TypeError, ValueError, OverflowError):
        fine = False
    if not fine:
        raise ModelError(
            f"shapes[{name!r}]={shown(shape)} must be a sequence of positive integers, "
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
            f"rank {len(dims)}: {_declared(value)}. Give a size for each dimension."
        )
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        if dim.dim_value > 0 and dim.dim_value != size:
            images = axis == 0 and dim.dim_value == 1
            batched = ", build with --batch any, in Python batch='any'," if images else ","
            raise ModelError(
                f"shapes[{value.name!r}]={shape}: the model fixes dimension {axis} to "
                f"{dim.dim_value}, not {size}. Give {dim.dim_value}{batched} or export the model "
                "with that dimension symbolic."
            )
        if is_unknown(dim.dim_param):
            continue
        if bound.setdefault(dim.dim_param, size) != size:
            raise ModelError(
                f"shapes[{value.name!r}]={shape}: dimension {axis} is {dim.dim_param!r}, which "
                f"another input's shape sets to {bound[dim.dim_param]}; make them equal"
            )


def _sizes(
    value: onnx.ValueInfoProto, given: tuple[int, ...] | None, bound: Mapping[str, int]
) -> tuple[int, ...] | None:
    """The sizes of an input, with 0 for a missing one, or ``None`` for an unknown rank."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError(f"input {value.name!r} is not a tensor; only tensors are supported")
    declared = value.type.tensor_type
    element_type(declared.elem_type, f"input {value.name!r}")
    if given is not None:
        return given
    if not declared.HasField("shape"):
        return None
    return tuple(
        int(dim.dim_value if dim.dim_value > 0 else bound.get(dim.dim_param, 0))
        for dim in declared.shape.dim
    )


def _frozen(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> TensorInfo:
    where = f"input {value.name!r}"
    dtype = element_type(value.type.tensor_type.elem_type, where)
    check_shape(shape, dtype, where)
    return TensorInfo(value.name, shape, dtype)


def _missing(inputs: list[onnx.ValueInfoProto], sizes: Mapping[str, tuple[int, ...] | None]) -> str:
    """The text of an error that names all missing dimensions and proposes sizes for them."""
    problems: list[str] = []
    examples: dict[str, tuple[int, ...]] = {}
    dimensions: dict[str, int] = {}
    for value in inputs:
        known = sizes[value.name]
        if known is None:
            problems.append(f"input {value.name!r} has no declared shape")
            examples[value.name] = _USUAL
            continue
        axes = [axis for axis, size in enumerate(known) if not size]
        axis_names = ", ".join(map(str, axes))
        problems.append(
            f"input {value.name!r}: dimension(s) {axis_names} of {_declared(value)} are not fixed"
        )
        usual = _USUAL if len(known) == len(_USUAL) else (1, *[_USUAL_LENGTH] * (len(known) - 1))
        examples[value.name] = tuple(
            size or dimensions.get(dim.dim_param, proposed)
            for size, proposed, dim in zip(
                known, usual, value.type.tensor_type.shape.dim, strict=True
            )
        )
        for name in _dimensions(value):
            axis = [dim.dim_param for dim in value.type.tensor_type.shape.dim].index(name)
            if not known[axis]:
                dimensions.setdefault(name, examples[value.name][axis])
    shapes = [f"{name}:{'x'.join(map(str, shape))}" for name, shape in examples.items()]
    options = " ".join(f"--shape {quote(shape)}" for shape in shapes)
    single = " ".join(f"--dim {quote(f'{name}={size}')}" for name, size in dimensions.items())
    single = f", or {single}" if single else ""
    return (
        f"{'; '.join(problems)}. Give them with the sizes that you need, for example {options}"
        f"{single}, in Python shapes={examples}."
    )


def _declared(value: onnx.ValueInfoProto) -> str:
    dims = [
        str(dim.dim_value)
        if dim.dim_value > 0
        else (f"dim{axis}" if is_unknown(dim.dim_param) else str(dim.dim_param))
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
        raise ShapeError(
            error.problem,
            f"give a shape that the network supports instead of {dict(shapes)}, or correct the "
            "model and export it again",
        ) from None
