"""Which operators can compute on the channel-blocked layout (N, C/c, H, W, c).

The surplus lanes of a last, partly filled block hold arbitrary finite values. Exponentials,
logarithms and division by a tensor could make an infinity or NaN of them, which zero weights
would spread into real channels. These operators are blocked only if the range of their operand
excludes that.
"""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.graph.ir import Arg, Node, Value
from tvmconv.graph.match import CONV
from tvmconv.graph.quantized.scales import AVERAGE, FLIP, TABLE
from tvmconv.graph.ranges import value_range
from tvmconv.graph.rewrite.activations import ACTIVATIONS, epilogue_step
from tvmconv.graph.rewrite.fold import scalar
from tvmconv.graph.rewrite.row_gathers import PICK
from tvmconv.graph.rewrite.statistics import STANDARDIZE
from tvmconv.graph.rewrite.tokens import FIRST, LAST, axes_of

_UNARY = (
    "abs",
    "negative",
    "erf",
    "square",
    "floor",
    "ceil",
    "round",
    "sign",
)
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
# far enough from the overflow of exp, and from zero, that products of several results are finite
_LARGEST_EXPONENT = 16.0
_SMALLEST_DIVISOR = 1e-3
# transforms of coordinates by which plain images are resized along their axes
_TRANSFORMS = ("align_corners", "asymmetric", "half_pixel")


def can_block(node: Node) -> bool:
    """Whether a node has a blocked form; the planner decides whether to use it."""
    rule = _RULES.get(node.op)
    if rule is None or not node.outputs or not all(v.is_map for v in node.outputs):
        return False
    return rule(node)


def _always(node: Node) -> bool:
    """Arithmetic in float32."""
    return bool(node.args[0].is_float_map and all(v.is_float_map for v in node.outputs))


def _moves(node: Node) -> bool:
    """Elements of any type, as they are."""
    return bool(node.args[0].is_map)


def _linear(node: Node) -> bool:
    """Quantization to INT8 or its inverse, with constant parameters per tensor or per channel."""
    data, *parameters = node.inputs
    channels = node.output.dims[1]
    if not data.is_map or any(p.data is None or p.data.size == 0 for p in parameters):
        return False
    single = all(p.data.size == 1 for p in parameters if p.data is not None)
    return single or (
        node.attrs["axis"] % 4 == 1 and all(p.dims in ((), (1,), (channels,)) for p in parameters)
    )


def _activation(node: Node) -> bool:
    return _always(node) and (epilogue_step(node) is not None or node.op in _UNARY)


def is_exact(node: Node) -> bool:
    """Whether a depth-to-space leaves no plane, row or column out, and adds none."""
    sizes = zip(node.args[0].dims[2:], node.attrs["block"], strict=True)
    whole = tuple(size * block for size, block in sizes)
    depth = node.attrs.get("depth")
    if adds_zeros(node) or (depth is not None and not depth.is_exact):
        return False
    return node.attrs["crop"] == (0, 0) and node.output.dims[2:] == whole


def adds_zeros(node: Node) -> bool:
    """Whether a depth-to-space adds planes, rows or columns of zeros."""
    depth = node.attrs.get("depth")
    return "filled" in node.attrs or (depth is not None and depth.filled < depth.stride)


def moves_blocks(node: Node, block: int) -> bool:
    """Whether a depth-to-space copies whole blocks of channels."""
    inner, stride = node.attrs["inner"], node.attrs["stride"]
    return stride % block == 0 and (inner % block == 0 or inner == node.output.dims[1])


def moves_channels(node: Node, block: int) -> bool:
    """Whether a node is a depth-to-space of FP32 that would copy a block channel by channel."""
    single = node.op == "depth_to_space" and node.output.is_float_map
    return single and not moves_blocks(node, block)


def is_broadcast(value: Value, shape: tuple[int, ...]) -> bool:
    """Whether a tensor, of rank 4 or constant, extends to a shape along axes of size 1."""
    if value.shape is None or value.dtype != "float32" or len(value.shape) > 4:
        return False
    if len(value.shape) < 4 and not value.is_const:
        return False
    padded = (1,) * (4 - len(value.shape)) + value.shape
    return all(size in (1, full) for size, full in zip(padded, shape, strict=True))


def _binary(node: Node) -> bool:
    return all(is_broadcast(value, node.output.dims) for value in node.inputs)


def _divide(node: Node) -> bool:
    divisor = scalar(node.args[1])
    if divisor is not None:
        return _binary(node) and divisor != 0
    return _binary(node) and value_range(node.args[1])[0] >= _SMALLEST_DIVISOR


def _exp(node: Node) -> bool:
    return _always(node) and value_range(node.args[0])[1] <= _LARGEST_EXPONENT


def _log(node: Node) -> bool:
    return _always(node) and value_range(node.args[0])[0] >= _SMALLEST_DIVISOR


def _max_pool(node: Node) -> bool:
    return _moves(node) and node.attrs["layout"] == "NCHW" and not node.attrs["ceil_mode"]


def _pool(node: Node) -> bool:
    return _always(node) and node.attrs["layout"] == "NCHW" and not node.attrs["ceil_mode"]


def _global(node: Node) -> bool:
    return _always(node) and node.attrs.get("axis") == (2, 3) and bool(node.attrs["keepdims"])


def _concat(node: Node) -> bool:
    axis = node.attrs.get("axis")
    return axis in (1, 2, 3, -3, -2, -1) and all(v.is_map for v in node.inputs)


def _split(node: Node) -> bool:
    return _moves(node) and node.attrs["axis"] in (1, 2, 3, -3, -2, -1)


def slice_ranges(node: Node) -> list[tuple[int, int, int]] | None:
    """(begin, count, step) of each axis of a ``strided_slice``, if constant."""
    lists = [arg for arg in node.args[1:] if isinstance(arg, list)]
    numbers = [[scalar(item) for item in arg] for arg in lists]
    if len(numbers) < 3 or any(n is None for part in numbers for n in part):
        return None
    axes, begins, _, *rest = ([int(n) for n in part if n is not None] for part in numbers)
    steps = rest[0] if rest else [1] * len(axes)
    shape, result = node.args[0].dims, node.output.dims
    ranges = [(0, size, 1) for size in shape]
    for axis, begin, step in zip(axes, begins, steps, strict=True):
        size = shape[axis]
        first = begin + size if begin < 0 else begin
        limit = size if step > 0 else size - 1
        ranges[axis] = (max(0, min(first, limit)), result[axis], step)
    return ranges


def split_ranges(node: Node, part: Value) -> list[tuple[int, int, int]]:
    """(begin, count, step) of each axis, of one result of a ``split``."""
    axis = int(node.attrs["axis"]) % len(part.dims)
    ranges = [(0, size, 1) for size in part.dims]
    before = node.outputs[: node.outputs.index(part)]
    ranges[axis] = (sum(v.dims[axis] for v in before), part.dims[axis], 1)
    return ranges


def _slice(node: Node) -> bool:
    ranges = slice_ranges(node) if _moves(node) else None
    return ranges is not None and ranges[0] == (0, node.args[0].dims[0], 1) and ranges[1][2] == 1


def _pad(node: Node) -> bool:
    width = node.attrs["pad_width"]
    plain = node.attrs.get("pad_mode") == "constant" and len(width) == 8
    return _moves(node) and plain and not any(width[:4])


def _permute(node: Node) -> bool:
    """Permutations that keep the axis of the channels."""
    return _moves(node) and tuple(node.attrs.get("axes") or ())[1:2] == (1,)


def is_channels_first(node: Node, block: int) -> bool:
    """Whether a node transposes float32 (N, H, W, C) of whole blocks to (N, C, H, W)."""
    return _is_transposition(node, FIRST) and node.output.dims[1] % block == 0


def is_channels_last(node: Node) -> bool:
    """Whether a node transposes float32 (N, C, H, W) to (N, H, W, C)."""
    return _is_transposition(node, LAST)


def _is_transposition(node: Node, axes: tuple[int, ...]) -> bool:
    if node.op != "permute_dims" or axes_of(node) != axes:
        return False
    return node.args[0].is_float_map and 0 not in node.output.dims


def is_resized_by_axes(node: Node) -> bool:
    """Whether plain images are resized along one axis after the other."""
    attrs = node.attrs
    if node.op != "image.resize2d" or attrs["layout"] != "NCHW":
        return False
    if {value.dtype for value in (node.args[0], node.output)} != {"float32"}:
        return False
    transform = attrs["coordinate_transformation_mode"]
    if attrs["method"] == "nearest_neighbor":
        return (transform, attrs["rounding_method"]) == ("asymmetric", "floor")
    return attrs["method"] == "linear" and transform in _TRANSFORMS


def _resize(node: Node) -> bool:
    attrs = node.attrs
    simple = attrs["layout"] == "NCHW" and not attrs["cubic_exclude"]
    known = _moves(node) if attrs["method"] == "nearest_neighbor" else _always(node)
    return known and simple and attrs["coordinate_transformation_mode"] != "tf_crop_and_resize"


def _prelu(node: Node) -> bool:
    slope: Arg = node.args[1]
    return _always(node) and slope.is_const and node.attrs["axis"] == 1


def _standardize(node: Node) -> bool:
    """Over the channels of each pixel, over the batch, or over groups of channels."""
    if not _always(node) or node.attrs["kind"] != "rows":
        return _always(node)
    batch, channels = node.outputs[0].dims[:2]
    groups, rest = divmod(node.attrs["rows"], batch)
    return rest == 0 and 0 < groups <= channels and channels % groups == 0


_RULES: dict[str, Callable[[Node], bool]] = {
    CONV: _moves,
    STANDARDIZE: _standardize,
    PICK: _moves,
    "quantize": _linear,
    "dequantize": _linear,
    FLIP: _moves,
    TABLE: _moves,
    AVERAGE: _moves,
    "nn.max_pool2d": _max_pool,
    "nn.avg_pool2d": _pool,
    "depth_pool": _always,
    "mean": _global,
    "max": _global,
    "concat": _concat,
    "split": _split,
    "strided_slice": _slice,
    "nn.pad": _pad,
    "permute_dims": _permute,
    "image.resize2d": _resize,
    "nn.prelu": _prelu,
    "channel_shuffle": _moves,
    "depth_to_space": _moves,
    "lrn": _always,
    "divide": _divide,
    "exp": _exp,
    "log": _log,
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys((*_UNARY, *ACTIVATIONS), _activation),
}
