"""TopK; TVM's own is a function of its runtime, which saved models do not have."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tvmconv.core.errors import ModelError
from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.emit.plain_moves import rows_of_columns
from tvmconv.graph.ir import Node
from tvmconv.operators import all_pairs
from tvmconv.operators.best_of_lanes import (
    best_of_columns,
    best_of_short_rows,
    fits_columns,
    fits_rows,
)
from tvmconv.operators.sort import top_k


def emit_top_k(emitter: Emitter, node: Node, record: CallRecord) -> None:
    """The best elements of rows. Columns are transposed to rows first."""
    attrs, shape = node.attrs, node.inputs[0].dims
    k, largest, index_type = attrs["k"], bool(attrs["largest"]), str(attrs["dtype"])
    data, axis = emitter.as_plain(node.inputs[0]), attrs["axis"] % len(shape)
    if not emitter.machine.runs_along_axes:
        check_length(emitter, node)
        both = emitter.call(
            lambda x: all_pairs.top_k(x, k, axis, largest, index_type), [data], record, opaque=True
        )
        parts = emitter.parts(both, len(node.outputs), record)
        emitter.plain.update(zip(node.outputs, parts, strict=True))
        return
    outer, size, columns = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    dtype, lanes = str(node.inputs[0].dtype), emitter.lanes
    as_they_are = fits_columns(size, columns, k, dtype, lanes)
    if as_they_are:
        view = emitter.reshape(data, (outer, size, columns))
        form: Callable[..., list[Any]] = best_of_columns
    else:
        view = rows_of_columns(emitter, node, data, (outer, size, columns))
        view = emitter.reshape(view, (outer * columns, size))
        short = fits_rows(size, outer * columns, k, dtype, lanes)
        form = best_of_short_rows if short else top_k_of_rows
    both = emitter.call(
        lambda x: form(x, k, largest, index_type, lanes), [view], record, opaque=True
    )
    parts = emitter.parts(both, len(node.outputs), record)
    for value, part in zip(node.outputs, parts, strict=True):
        if not as_they_are:
            part = rows_of_columns(emitter, node, part, (outer, columns, k))
        emitter.plain[value] = emitter.reshape(part, value.dims)


def top_k_of_rows(data: Any, k: int, largest: bool, index_type: str, lanes: int) -> list[Any]:
    """The best elements of each row."""
    return top_k(data, k, 1, largest, index_type, lanes)


def check_length(emitter: Emitter, node: Node) -> None:
    """Refuse a long axis on a device that compares each value with all others."""
    length = node.inputs[0].dims[node.attrs["axis"]]
    if length > all_pairs.LONGEST:
        raise ModelError(
            f"{node.op} of layer {node.layer!r} runs along {length} values; for "
            f"{emitter.machine.name} they may be {all_pairs.LONGEST}. Shorten the axis, or build "
            "for a CPU."
        )
