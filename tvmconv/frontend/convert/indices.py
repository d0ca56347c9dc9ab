"""Indices of gathers and scatters: constant ones checked at import, others at run time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.operators.indices import (
    FROM_END,
    INDEX_SIZES,
    INNER,
    checked_elements,
    checked_rows,
    clamped_rows,
    index_lines,
    number_type,
)
from tvmconv.program.collect import CHECK
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


def along(e: RelaxWriter, node: OnnxNode, place: int, size: int, *, from_end: bool = True) -> Any:
    """The indices of an input, from 0 to less than ``size``, in the input's shape.

    Negative indices count from the end, or without ``from_end`` are not allowed.
    """
    name = node.inputs[place]
    shape = e.shape(name)
    array = e.array(name)
    if array is None and _is_known(e, name, 0, size):
        return e.value(name)
    if array is not None:
        return constant(_constant_rows(node, array[..., None], (size,), from_end))
    count = prod(shape)
    numbers = _numbers(e, node, name, (1, count, 1), (size,), from_end)
    return e.emit(op.reshape(numbers, shape), "index")


def rows(
    e: RelaxWriter, node: OnnxNode, place: int, sizes: Sequence[int], batches: int = 1
) -> RelaxExpr:
    """Numbers of the rows that the tuples along an input's last axis select, flat.

    The input holds as many tuples for each of ``batches``. Axes of these ``sizes`` are counted
    within a batch.
    """
    name = node.inputs[place]
    count = prod(e.shape(name)[:-1]) // batches
    array = e.array(name)
    if array is not None:
        numbers = _constant_rows(node, array.reshape(batches, count, -1), sizes, True)
        first = np.arange(batches, dtype=np.int64)[:, None] * prod(sizes)
        whole = (numbers + first).reshape(-1)
        return constant(whole.astype(number_type(batches * prod(sizes))))
    found = _numbers(e, node, name, (batches, count, len(sizes)), sizes, True)
    return e.emit(op.reshape(found, (batches * count,)), "rows")


def _numbers(
    e: RelaxWriter,
    node: OnnxNode,
    name: str,
    view: tuple[int, ...],
    sizes: Sequence[int],
    from_end: bool,
) -> RelaxExpr:
    if 0 in sizes and 0 not in view:
        raise node.error(f"its index {name!r} has elements, and the indexed axis of size 0 none")
    value = e.emit(op.reshape(e.value(name), view), "tuples")
    if _is_known(e, name, -min(sizes) if from_end else 0, min(sizes)):
        call = e.builder.call_te(
            lambda x: clamped_rows(x, sizes, from_end), value, primfunc_name_hint="row_numbers"
        )
        return e.emit(call, "numbers")
    text = _refusal(node, name, sizes, from_end)
    call = e.builder.call_te(
        lambda x: checked_rows(x, sizes, from_end),
        value,
        primfunc_name_hint="check_indices",
        primfunc_attrs={
            CHECK: text,
            INDEX_SIZES: list(sizes),
            FROM_END: from_end,
            "op_pattern": OPAQUE,
        },
    )
    return e.emit(relax.TupleGetItem(e.emit(call, "check"), 0), "numbers")


def _refusal(node: OnnxNode, name: str, sizes: Sequence[int], from_end: bool) -> str:
    """The message of an index that is found outside its axis in a run."""
    limits = ", ".join(f"{-n if from_end else 0} to {n - 1}" for n in dict.fromkeys(sizes))
    each = " for the axes" if len(set(sizes)) > 1 else ""
    return (
        f"node {node.name!r} ({node.op}): input {name!r} has a value out of range. "
        f"Expected {limits}{each}. Correct the data that it is computed from."
    )


def elements(e: RelaxWriter, node: OnnxNode, axis: int) -> RelaxExpr | None:
    """Elements that unknown indices select, which are checked in the same loops.

    None for indices that are known, or shorter than the data along another axis.
    """
    data, index = node.inputs[:2]
    shape, places = e.shape(data), e.shape(index)
    same = (*shape[:axis], places[axis], *shape[axis + 1 :]) == places
    known = e.array(index) is not None or _is_known(e, index, -shape[axis], shape[axis])
    if not same or known or 0 in shape or 0 in places:
        return None
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    call = e.builder.call_te(
        lambda x, i: checked_elements(x, i, inner),
        e.emit(op.reshape(e.value(data), (outer, shape[axis] * inner)), "rows"),
        e.emit(op.reshape(e.value(index), index_lines(outer, places[axis], inner)), "index"),
        primfunc_name_hint="gather_elements",
        primfunc_attrs={
            CHECK: _refusal(node, index, (shape[axis],), True),
            INNER: inner,
            "op_pattern": OPAQUE,
        },
    )
    chosen = e.emit(relax.TupleGetItem(e.emit(call, "check"), 0), "chosen")
    return op.reshape(chosen, places)


def _is_known(e: RelaxWriter, name: str, low: int, size: int) -> bool:
    found = e.ranges.of(name)
    return found is not None and low <= found[0] and found[1] < size


def _constant_rows(node: OnnxNode, index: Array, sizes: Sequence[int], from_end: bool) -> Array:
    """Numbers of rows in 64 bits, or in the type of a single index."""
    number = np.zeros(index.shape[:-1], np.int64)
    for axis, size in enumerate(sizes):
        part = index[..., axis].astype(np.int64)
        first = -size if from_end else 0
        if part.size and not (first <= part.min() and part.max() < size):
            raise node.error(f"an index is outside {first} to {size - 1}")
        number = number * size + np.where(part < 0, part + size, part)
    return number.astype(index.dtype) if len(sizes) == 1 else number
