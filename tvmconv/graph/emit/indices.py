"""Functions of the converters on devices that do not run their loops: GPUs."""

from __future__ import annotations

from typing import Any

from tvmconv.core.errors import ModelError
from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.ir import Node
from tvmconv.operators.indices import (
    FROM_END,
    INDEX_SIZES,
    INNER,
    clamped_elements,
    clamped_rows,
)
from tvmconv.operators.vector_loops import LOOPS

CALLS = ("call_tir", "call_tir_inplace")


def emit_without_loops(emitter: Emitter, node: Node, record: CallRecord) -> bool:
    """Emit a node whose loops the device does not run; False for other nodes.

    Indices are clamped, without flags. Raises ``ModelError`` for other functions.
    """
    if node.op not in CALLS or emitter.machine.runs_along_axes:
        return False
    attrs: Any = emitter.builder.get()[node.args[0]].attrs or {}
    if LOOPS in attrs:
        raise ModelError(
            f"layer {node.layer!r} ({record.operator}): {emitter.machine.name} does not support "
            "it. Expected a CPU. Build for a CPU, or cut the model before the layer."
        )
    if INNER in attrs:
        operands, inner = [emitter.as_plain(value) for value in node.inputs[:2]], int(attrs[INNER])
        chosen = emitter.call(lambda x, i: clamped_elements(x, i, inner), operands, record)
        emitter.plain[node.outputs[0]] = chosen
        return True
    if INDEX_SIZES not in attrs:
        return False
    sizes, from_end = tuple(int(size) for size in attrs[INDEX_SIZES]), bool(attrs[FROM_END])
    operand = emitter.as_plain(node.inputs[0])
    rows = emitter.call(lambda x: clamped_rows(x, sizes, from_end), [operand], record)
    emitter.plain[node.outputs[0]] = rows
    return True
