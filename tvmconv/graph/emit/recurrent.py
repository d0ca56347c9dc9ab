"""Recurrent layers: their packed weights, and one call for all steps."""

from __future__ import annotations

from typing import Any

from tvmconv.core.errors import ModelError
from tvmconv.costs.cpu.recurrent import recurrent_tiles, sequence_groups
from tvmconv.graph.emit.emitter import CallRecord, Emitter, constant_of
from tvmconv.graph.ir import Node, Value
from tvmconv.graph.rewrite.fold import as_float32
from tvmconv.machines.record import Machine
from tvmconv.operators.recurrent import (
    RecurrentTile,
    pack_recurrent_weight,
    packed_at_run_time,
    recurrence,
)
from tvmconv.operators.recurrent_form import PREFIX, RecurrentForm
from tvmconv.tvm_api.types import RelaxExpr, Tensor


def is_recurrent(node: Node) -> bool:
    """Whether a node is a call of a recurrence."""
    return node.op == "call_dps_packed" and _text(node).startswith(PREFIX)


def emit_recurrent(emitter: Emitter, node: Node) -> None:
    """All steps of a recurrent layer."""
    form, machine = RecurrentForm.from_text(_text(node)), emitter.machine
    if not isinstance(machine, Machine):
        raise ModelError(
            f"node {node.layer!r} ({form.cell.upper()}): models for {machine.name} have no "
            "recurrent layers. Expected a model without LSTM, GRU and RNN. Build for a CPU."
        )
    product, weight, *others = node.inputs
    steps, batch = product.dims[:2]
    if form.batch_first:
        steps, batch = batch, steps
    flops = 2 * form.multiply_adds(steps, batch)
    groups = sequence_groups(form, steps, batch, machine)
    tiles = recurrent_tiles(form, batch // groups, machine)
    args = [emitter.as_plain(product), *(_packed(emitter, node, weight, tile) for tile in tiles)]
    args += [emitter.as_plain(value) for value in others]

    def expression(*tensors: Tensor) -> list[Tensor]:
        return recurrence(
            form,
            tiles,
            *tensors,
            lanes=machine.lanes,
            groups=groups,
            parallel=machine.cores > 1,
        )

    record = CallRecord(node.layer, form.cell, flops=flops)
    emitter.give(node, emitter.call(expression, args, record, opaque=True), record)


def _packed(emitter: Emitter, node: Node, weight: Value, tile: RecurrentTile) -> RelaxExpr:
    if weight.data is not None:
        return constant_of(pack_recurrent_weight(as_float32(weight.data), tile), "float32")
    record = CallRecord(node.layer, "pack_weight")
    return emitter.call(
        lambda x: packed_at_run_time(x, tile), [emitter.as_plain(weight)], record, opaque=True
    )


def _text(node: Node) -> str:
    called: Any = node.args[0]
    return str(called.global_symbol)
