"""Checks of indices on devices whose programs do not check them."""

from __future__ import annotations

from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.ir import Node
from tvmconv.operators.indices import INDEX_SIZES, clamped_rows


def checked_sizes(emitter: Emitter, node: Node) -> tuple[int, ...] | None:
    """The sizes of the axes whose indices a node checks, on a device that only clamps indices."""
    if node.op != "call_tir" or emitter.machine.runs_along_axes:
        return None
    attrs = emitter.builder.get()[node.args[0]].attrs or {}
    return tuple(int(size) for size in attrs[INDEX_SIZES]) if INDEX_SIZES in attrs else None


def emit_clamped(emitter: Emitter, node: Node, sizes: tuple[int, ...], record: CallRecord) -> None:
    """Indices clamped to their axes, without flags."""
    operand = emitter.as_plain(node.inputs[0])
    rows = emitter.call(lambda x: clamped_rows(x, sizes), [operand], record)
    emitter.plain[node.outputs[0]] = rows
