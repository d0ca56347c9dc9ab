"""ArgMax and ArgMin on plain tensors."""

from __future__ import annotations

from math import prod

from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.emit.plain_moves import rows_of_columns
from tvmconv.graph.ir import Node
from tvmconv.machines.record import processor
from tvmconv.operators.extreme_columns import column_lanes, extreme_columns
from tvmconv.operators.extreme_position import TYPES, extreme_position
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr, Tensor

POSITIONS = ("argmax", "argmin")
# shorter rows have their extreme and its position compared together
_SHORT_ROW = 8
# so few neighbors leave most of a vector empty
_FEW_COLUMNS = 3


def emit_position(emitter: Emitter, node: Node, record: CallRecord) -> RelaxExpr:
    """Positions by vectors along rows or columns, or by TVM's reduction."""
    source, axis, largest = node.inputs[0], node.attrs["axis"], node.op == "argmax"
    known = source.dtype in TYPES and node.output.dtype == "int64"
    if not known or axis is None or not emitter.machine.runs_along_axes:
        return _reduced(emitter, node, record)
    outer, size, columns = prod(source.dims[:axis]), source.dims[axis], prod(source.dims[axis:][1:])
    bytes_ = processor(emitter.machine).vector_bytes
    few = columns <= _FEW_COLUMNS

    def by_columns(x: Tensor) -> Tensor:
        return extreme_columns(x, columns, largest, bytes_)

    if not few and size > 1 and size * columns >= column_lanes(source.dtype, bytes_):
        view = emitter.reshape(emitter.as_plain(source), (outer, size * columns))
        places = emitter.call(by_columns, [view], record, opaque=True)
    elif few and size >= _SHORT_ROW:
        view = emitter.as_plain(source)
        if columns > 1:
            view = rows_of_columns(emitter, node, view, (outer, size, columns))
        view = emitter.reshape(view, (outer * columns, size))
        places = emitter.call(
            lambda x: extreme_position(x, largest, bytes_), [view], record, opaque=True
        )
    else:
        return _reduced(emitter, node, record)
    return emitter.reshape(places, node.output.dims)


def repeats_position(node: Node) -> bool:
    """Whether a node limits a position to 0 and more, as positions are."""
    if node.op != "maximum" or len(node.args) != 2:
        return False
    producer, limit = node.args[0].producer, node.const(1)
    return bool(producer and producer.op in POSITIONS and limit is not None and (limit == 0).all())


def _reduced(emitter: Emitter, node: Node, record: CallRecord) -> RelaxExpr:
    found = emitter.bind(emitter.original(node), record)
    # TVM's reductions find nothing, -1, where all elements are the type's smallest or largest
    first = relax.const(0, node.output.dtype)
    return emitter.bind(relax.op.maximum(found, first), record)
