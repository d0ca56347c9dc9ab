"""Operators that read at computed places."""

from __future__ import annotations

from math import prod

from tvmconv.frontend.convert.indices import along, elements, rows
from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.operators.indices import picked_elements, reversed_sequences
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts("Gather", attrs="axis", inputs=2)
def gather(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Pick along an axis; negative indices count from the end."""
    shape = e.shape(node.inputs[0])
    axis = int(node.attrs.get("axis", 0)) % len(shape)
    index = along(e, node, 1, shape[axis])
    # "fast" would warn; TVM clips what is inside already
    return op.take(e.value(node.inputs[0]), index, axis, mode="clip")


@converts("GatherElements", attrs="axis", inputs=2)
def gather_elements(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Pick an element along an axis for each index."""
    shape = e.shape(node.inputs[0])
    axis = checked_axis(e, node)
    if (chosen := elements(e, node, axis)) is not None:
        return chosen
    index = along(e, node, 1, shape[axis])
    return e.builder.call_te(
        lambda x, i: picked_elements(x, i, axis),
        e.value(node.inputs[0]),
        index,
        primfunc_name_hint="gather_elements",
    )


def checked_axis(e: RelaxWriter, node: OnnxNode) -> int:
    """The axis, for indices that are not longer than the data along another axis."""
    data, index = (e.shape(name) for name in node.inputs[:2])
    if not data:
        raise node.misfit("its data is a number without axes")
    axis = int(node.attrs.get("axis", 0)) % len(data)
    if len(data) != len(index) or any(
        m > n for i, (n, m) in enumerate(zip(data, index, strict=True)) if i != axis
    ):
        raise node.misfit(f"indices of shape {index} do not fit data of shape {data}")
    return axis


@converts("GatherND", attrs="batch_dims", inputs=2)
def gather_nd(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Rows that tuples of indices select, in each batch."""
    data, index = (e.shape(name) for name in node.inputs[:2])
    batch_dims = int(node.attrs.get("batch_dims", 0))
    end = batch_dims + (index[-1] if index else 0)
    if data[:batch_dims] != index[:batch_dims] or not batch_dims < end <= len(data):
        raise node.misfit(
            f"data of shape {data}, indices of shape {index} and batch_dims={batch_dims} do not fit"
        )
    sizes, batches, width = data[batch_dims:end], prod(data[:batch_dims]), prod(data[end:])
    numbers = rows(e, node, 1, sizes, batches)
    shape = (batches * prod(sizes), width)
    table = e.emit(op.reshape(e.value(node.inputs[0]), shape), "table")
    picked = e.emit(op.take(table, numbers, 0, mode="clip"), "picked")
    return op.reshape(picked, e.shape(node.outputs[0]))


@converts("ReverseSequence", attrs="batch_axis time_axis", inputs=2)
def reverse_sequence(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The first elements of each sequence in reverse, as many as its length."""
    shape = e.shape(node.inputs[0])
    batch, time = int(node.attrs.get("batch_axis", 1)), int(node.attrs.get("time_axis", 0))
    if {batch, time} != {0, 1} or len(shape) < 2:
        raise node.error(f"batch_axis={batch} and time_axis={time} are not 0 and 1")
    if e.shape(node.inputs[1]) != (shape[batch],):
        raise node.misfit(f"{e.shape(node.inputs[1])} lengths do not fit {shape[batch]} sequences")
    lengths = along(e, node, 1, shape[time] + 1, from_end=False)
    return e.builder.call_te(
        lambda x, n: reversed_sequences(x, n, batch, time),
        e.value(node.inputs[0]),
        lengths,
        primfunc_name_hint="reverse_sequence",
    )
