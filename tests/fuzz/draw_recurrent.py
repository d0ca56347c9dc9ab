"""Draws LSTM, GRU and RNN, and LSTMs with quantized weights.

Layout 1 is left out: onnxruntime has none, and onnx's reference ignores most attributes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.draft import Draft, Value

_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
_FUNCTIONS = {"GRU": 2, "LSTM": 3, "RNN": 1}
# functions that do not grow from step to step; functions with a factor get one
_ACTIVATIONS = ("Elu", "HardSigmoid", "LeakyRelu", "Sigmoid", "Softsign", "Tanh")
_HIDDEN = (1, 3, 4, 7, 8, 16, 17, 20, 33)


def recurrent(d: Draft) -> None:
    """A layer with any of its operands."""
    op, hidden = d.pick(sorted(_GATES)), d.pick(_HIDDEN)
    direction = d.pick(("forward", "reverse", "bidirectional"))
    directions = 2 if direction == "bidirectional" else 1
    x = d.value(["float32"], 3, 3)
    steps, batch, inputs = x.shape
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if d.chance(0.4):
        count = directions * _FUNCTIONS[op]
        attributes["activations"] = [d.pick(_ACTIVATIONS) for _ in range(count)]
    if d.chance(0.3):
        attributes["clip"] = d.pick((0.25, 1.0, 3.0))
    if op == "GRU" and d.chance(0.5):
        attributes["linear_before_reset"] = 1
    if op == "LSTM" and d.chance(0.3):
        attributes["input_forget"] = 1
    rows = _GATES[op] * hidden
    state = (directions, batch, hidden)
    operands: list[Value | None] = [
        x,
        _weight(d, (directions, rows, inputs)),
        _weight(d, (directions, rows, hidden)),
        _weight(d, (directions, 2 * rows)) if d.chance(0.7) else None,
        None,
        d.operand(state, "float32") if d.chance(0.4) else None,
    ]
    if d.chance(0.3):
        lengths = d.numbers.integers(0, steps, batch, np.int32, endpoint=True)
        operands[4] = d.constant(lengths)
    if op == "LSTM":
        operands.append(d.operand(state, "float32") if d.chance(0.4) else None)
        operands.append(_weight(d, (directions, 3 * hidden)) if d.chance(0.3) else None)
    d.call(op, operands, 3 if op == "LSTM" else 2, **attributes)


def quantized(d: Draft) -> None:
    """An LSTM of com.microsoft whose rounding of activations in onnxruntime changes nothing.

    The input's scale is 1, and the recurrent weights are zero.
    """
    hidden, dtype = d.pick(_HIDDEN), d.pick(("int8", "uint8"))
    steps, batch, inputs = d.pick((1, 2, 5)), d.pick((1, 3)), d.pick((2, 5, 9))
    data = d.numbers.integers(0, 255, (steps, batch, inputs), endpoint=True).astype(np.float32)
    data.flat[:2] = 0, 255
    shape = d.pick(((1,), (1, 4 * hidden)))
    scale = d.constant(d.numbers.uniform(1e-5, 2e-5, shape).astype(np.float32))
    zero = d.constant(np.full(shape, 3, dtype))
    operands = [
        d.constant(data),
        d.constant(d.array((1, inputs, 4 * hidden), dtype)),
        d.constant(np.full((1, hidden, 4 * hidden), 3, dtype)),
        _weight(d, (1, 8 * hidden)),
        *[Value("", (), "float32")] * 4,
        *(scale, zero, scale, zero),
    ]
    result = (steps, 1, batch, hidden)
    d.foreign("DynamicQuantizeLSTM", operands, result, "float32", hidden_size=hidden)


def _weight(d: Draft, shape: tuple[int, ...]) -> Value:
    """Weights with which a state does not grow."""
    return d.constant(d.numbers.uniform(-0.4, 0.4, shape).astype(np.float32))


STEPS = (recurrent, recurrent, recurrent, quantized)
