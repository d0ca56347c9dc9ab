"""The computation of a recurrent layer: its cell, activations, operands and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

# gates of a cell, in the order of ONNX's weights
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
# start of the text that carries a form through Relax
PREFIX = "recurrent:"
# operands of the kernel after the product of the input and the recurrent weights, in this order
BIAS, PEEPHOLES, LENGTHS, HIDDEN, CELL = "bias", "peepholes", "lengths", "hidden", "cell"
# results, in this order: all hidden states, and the last states
STATES = "states"


@dataclass(frozen=True)
class Activation:
    """An activation function of ONNX's recurrent operators, by its name in lower case."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class RecurrentForm:
    """A recurrent layer whose input was multiplied by its weights.

    ``cell`` is a key of :data:`GATES`. ``hidden`` is the number of hidden units. ``backward`` has
    one flag a direction. ``activations`` has one tuple a direction, in ONNX's order. Arguments of
    activations are limited to ``-clip`` to ``clip``. With ``batch_first``, tensors are in ONNX's
    layout 1. ``coupled`` is LSTM's ``input_forget``, and ``reset_after`` GRU's
    ``linear_before_reset``.

    ``operands`` and ``results`` name the present ones:

    - ``bias``: GRU's bias of the recurrent product that the reset gate multiplies;
    - ``peepholes``: as ONNX's P;
    - ``lengths``: steps of each sequence, INT32;
    - ``hidden``, ``cell``: first or last states;
    - ``states``: all hidden states.
    """

    cell: str
    hidden: int
    backward: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = (STATES,)
    clip: float = inf
    batch_first: bool = False
    coupled: bool = False
    reset_after: bool = False

    @property
    def gates(self) -> int:
        """The gates of the cell."""
        return GATES[self.cell]

    @property
    def directions(self) -> int:
        """One, or two for a bidirectional layer."""
        return len(self.backward)

    def state_shape(self, batch: int) -> tuple[int, ...]:
        """The shape of a first or last state."""
        if self.batch_first:
            return (batch, self.directions, self.hidden)
        return (self.directions, batch, self.hidden)

    def result_shapes(self, steps: int, batch: int) -> list[tuple[int, ...]]:
        """The shapes of the results."""
        order = (batch, steps, self.directions) if self.batch_first else (
            steps, self.directions, batch)  # fmt: skip
        every = (*order, self.hidden)
        return [every if name == STATES else self.state_shape(batch) for name in self.results]

    def multiply_adds(self, steps: int, batch: int) -> int:
        """FMAs of the recurrent products of all steps."""
        return steps * batch * self.directions * self.gates * self.hidden**2

    def to_text(self) -> str:
        """A text from which :meth:`from_text` makes the form again."""
        return PREFIX + json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> RecurrentForm:
        """Inverse of :meth:`to_text`."""
        data: Mapping[str, Any] = json.loads(text.removeprefix(PREFIX))
        activations = tuple(
            tuple(Activation(**each) for each in direction) for direction in data["activations"]
        )
        lists = {name: tuple(data[name]) for name in ("backward", "operands", "results")}
        return cls(**{**data, **lists, "activations": activations})
