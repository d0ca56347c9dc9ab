"""Operators on the plain layout that only move elements between channels and space."""

from __future__ import annotations

from tvmconv.graph.blockable import is_exact
from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.ir import Node
from tvmconv.graph.rewrite.tokens import axes_of
from tvmconv.operators.interleave import DepthPhases
from tvmconv.operators.row_groups import PIECE
from tvmconv.tir.annotations import TRANSPOSE_LANES, TRANSPOSE_NEIGHBORS
from tvmconv.tvm_api import relax, te, tirx
from tvmconv.tvm_api.types import Expr, RelaxExpr, Tensor

# the shortest side of a square that is transposed in registers
_SQUARE = 4


def row_transposition(size: int) -> str:
    """How rows of ``size`` elements become vectors of one element of each: an annotation."""
    return TRANSPOSE_LANES if size >= PIECE else TRANSPOSE_NEIGHBORS


def shuffle_plain(emitter: Emitter, node: Node, record: CallRecord) -> None:
    """Exchange groups of channels with the channels of a group."""
    groups = node.attrs["groups"]
    size = node.output.dims[1] // groups

    def expression(x: Tensor) -> Tensor:
        return te.compute(
            x.shape,
            lambda n, k, h, w: x[n, k % groups * size + k // groups, h, w],
            name="channel_shuffle",
        )

    data = emitter.as_plain(node.args[0])
    emitter.plain[node.output] = emitter.call(expression, [data], record)


def transposes_rows(node: Node) -> bool:
    """Whether a transposition gets squares of vectors, which it has only as a function of its own.

    Merged with other operators, it would gather its operand element by element.
    """
    if node.op != "permute_dims" or node.output.shape is None or node.output.dtype == "bool":
        return False
    dims = node.args[0].dims
    axes = axes_of(node) or tuple(reversed(range(len(dims))))
    long = [axis for axis in axes if dims[axis] > 1]
    return bool(long) and long[-1] != max(long) and min(dims[long[-1]], dims[max(long)]) >= _SQUARE


def depth_to_space_plain(emitter: Emitter, node: Node, record: CallRecord) -> None:
    """Interleave groups of channels into space: :mod:`tvmconv.operators.interleave`."""
    attrs, dims = node.attrs, node.output.dims
    (bh, bw), inner, stride, crop = (attrs[k] for k in ("block", "inner", "stride", "crop"))
    images, _, rows, columns = node.args[0].dims
    depth: DepthPhases | None = attrs.get("depth")
    planes, (fh, fw) = depth.filled if depth else 1, attrs.get("filled", (bh, bw))
    # an axis for each part of an index: a transposition by vectors, without divisions
    groups, phases = dims[1] // inner, planes * fh * fw * stride
    view = emitter.reshape(emitter.as_plain(node.args[0]), (images, groups, phases, rows, columns))

    def parts(x: Tensor) -> Tensor:
        return te.compute(
            (images, planes, groups, inner, rows, fh, columns, fw),
            lambda n, p, g, o, h, a, w, b: x[n, g, ((p * fh + a) * fw + b) * stride + o, h, w],
            name="depth_to_space",
        )

    split = emitter.call(parts, [view], record, opaque=True)
    if not is_exact(node):
        whole = (images * planes, dims[1], rows * fh, columns * fw)
        image = emitter.reshape(split, whole, node.layer)

        def placed(x: Tensor) -> Tensor:
            def element(n: Expr, k: Expr, h: Expr, w: Expr) -> Expr:
                spots = [(h + crop[0], bh, fh), (w + crop[1], bw, fw)]
                if depth is not None:
                    spots.append((depth.uncropped(n), depth.stride, depth.filled))
                given = [spot % size < count for spot, size, count in spots if count < size]
                y, z, *rest = (
                    spot if count == size else spot // size * count + spot % size
                    for spot, size, count in spots
                )
                value = x[rest[0] if rest else n, k, y, z]
                if not given:
                    return value
                return tirx.if_then_else(tirx.all(*given), value, tirx.const(0, x.dtype))

            return te.compute(dims, element, name="crop")

        split = emitter.call(placed, [image], CallRecord(node.layer, "crop"))
    emitter.plain[node.output] = emitter.reshape(split, dims, node.layer)


def rows_of_columns(
    emitter: Emitter, node: Node, data: RelaxExpr, shape: tuple[int, int, int]
) -> RelaxExpr:
    """A tensor of that shape with its last two axes exchanged."""
    if 1 in shape[1:]:
        return emitter.reshape(data, (shape[0], shape[2], shape[1]))
    view = emitter.reshape(data, shape)
    return emitter.bind(relax.op.permute_dims(view, (0, 2, 1)), CallRecord(node.layer, "transpose"))
