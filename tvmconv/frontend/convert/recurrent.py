"""LSTM, GRU and RNN: the input's product of all steps, and a call of the recurrence.

The call's name is the text of a :class:`~tvmconv.operators.recurrent_form.RecurrentForm`.
"""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.recurrent import OPERANDS, recurrent_form
from tvmconv.operators.recurrent_form import BIAS, LENGTHS, RecurrentForm
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts(
    "GRU", "LSTM", "RNN",
    attrs="activation_alpha activation_beta activations clip direction hidden_size input_forget "
    "layout linear_before_reset",
    inputs=3,
)  # fmt: skip
def _recurrent(e: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    """One matrix product with the biases, then the steps."""
    form = recurrent_form(e.graph, node)
    product = e.emit(op.matmul(e.value(node.inputs[0]), _weight(e, node)), "input")
    operands = {}
    if node.input(OPERANDS[BIAS]):
        bias, operands[BIAS] = _biases(e, node, form)
        product = e.emit(op.add(product, bias), "input")
    for name in form.operands:
        if name != BIAS:
            operands[name] = e.value(node.inputs[OPERANDS[name]])
    if LENGTHS in operands and (known := e.array(node.inputs[OPERANDS[LENGTHS]])) is not None:
        operands[LENGTHS] = constant(known.astype(np.int32))
    arguments = [product, e.value(node.inputs[2]), *(operands[name] for name in form.operands)]
    infos = [e.graph.types[name] for name in node.outputs if name]
    types = [relax.TensorType(info.shape, info.dtype) for info in infos]
    call = e.emit(relax.call_dps_packed(form.to_text(), relax.Tuple(arguments), types))
    if len(types) == 1:
        # an absent output has no reader
        return [call] * len(node.outputs)
    parts = iter(range(len(types)))
    return [relax.TupleGetItem(call, next(parts)) if name else call for name in node.outputs]


def _weight(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """W of all directions and gates as one matrix ``(inputs, outputs)``."""
    name = node.inputs[1]
    directions, gates, inputs = e.shape(name)
    if (known := e.array(name)) is not None:
        return constant(np.ascontiguousarray(known.reshape(-1, inputs).T))
    rows = e.emit(op.reshape(e.value(name), (directions * gates, inputs)), "weight")
    return e.emit(op.permute_dims(rows), "weight")


def _biases(e: RelaxWriter, node: OnnxNode, form: RecurrentForm) -> tuple[RelaxExpr, RelaxExpr]:
    """The bias of the product, and the bias of GRU's recurrent product before the reset."""
    directions, gates, hidden = form.directions, form.gates, form.hidden
    name = node.inputs[OPERANDS[BIAS]]
    shape = (directions, 2, gates, hidden)
    # the last gate's recurrent bias is not added to the product if the reset gate multiplies it
    added = gates - 1 if form.reset_after else gates
    if (known := e.array(name)) is not None:
        sums, recurrent = known.reshape(shape)[:, 0].copy(), known.reshape(shape)[:, 1]
        sums[:, :added] += recurrent[:, :added]
        return constant(sums.reshape(-1)), constant(np.ascontiguousarray(recurrent[:, -1]))
    whole = e.emit(op.reshape(e.value(name), shape), "bias")
    own, other = (
        e.emit(op.squeeze(op.strided_slice(whole, [1], [i], [i + 1]), [1]), "bias") for i in (0, 1)
    )
    last = e.emit(op.squeeze(op.strided_slice(other, [1], [gates - 1], [gates]), [1]), "bias")
    if form.reset_after:
        mask = np.ones((gates, 1), np.float32)
        mask[-1] = 0
        other = e.emit(op.multiply(other, constant(mask)), "bias")
    whole = e.emit(op.add(own, other), "bias")
    return e.emit(op.reshape(whole, (directions * gates * hidden,)), "bias"), last
