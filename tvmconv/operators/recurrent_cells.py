"""Activations and states of recurrent layers, one vector of hidden units at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvmconv.operators.math import between, constant
from tvmconv.operators.recurrent_activations import activated
from tvmconv.operators.recurrent_form import (
    BIAS,
    CELL,
    HIDDEN,
    LENGTHS,
    PEEPHOLES,
    STATES,
    RecurrentForm,
)
from tvmconv.operators.vector_loops import pieces
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Expr


@dataclass(frozen=True)
class Memory:
    """A thread's buffers, all by flat index.

    ``hidden`` and ``cell`` are the states. ``gates`` are the sums of the recurrent products, all
    gates of a sequence next to each other. ``reset`` is GRU's hidden state times the reset gate, if
    another product follows.
    """

    hidden: Any
    gates: Any
    cell: Any = None
    reset: Any = None


class Cells:
    """Writes the loops over the units of one sequence.

    ``product`` is the input's part of the gates. ``operands`` and ``results`` are tensors by the
    names of the form. A vector has ``lanes`` units.
    """

    def __init__(
        self,
        form: RecurrentForm,
        product: Any,
        operands: Mapping[str, Any],
        results: Mapping[str, Any],
        memory: Memory,
        steps: int,
        lanes: int,
    ) -> None:
        self.memory = memory
        self._form, self._steps, self._lanes = form, steps, lanes
        self._product = T.buffer_proxy(product)
        self._operands = {name: T.buffer_proxy(each) for name, each in operands.items()}
        self._results = {name: T.buffer_proxy(each) for name, each in results.items()}

    def begin(self, direction: Any, first: Any, row: Any) -> None:
        """The states before the first step."""

        def start(unit: Any) -> None:
            for name, state in self._states():
                value = constant(0.0)
                if name in self._operands:
                    value = self._operands[name][(*self._state(direction, first + row), unit)]
                state[self._unit(row, unit)] = value

        self._units(start)

    def end(self, direction: Any, first: Any, row: Any) -> None:
        """Store the states after the last step; zeros of a sequence without steps."""

        def store(unit: Any) -> None:
            for name, state in self._states():
                if name in self._results:
                    place = (*self._state(direction, first + row), unit)
                    value = state[self._unit(row, unit)]
                    if LENGTHS in self._operands:
                        empty = self._length(first + row) <= 0
                        value = tirx.Select(empty, constant(0.0), value)
                    self._results[name][place] = value

        if {HIDDEN, CELL} & set(self._results):
            self._units(store)

    def reset(self, direction: Any, first: Any, row: Any, step: Any, kind: int) -> None:
        """GRU's hidden state times the reset gate."""

        def each(time: Any) -> None:
            gate = _Gates(self, direction, first, row, time, kind)

            def store(unit: Any) -> None:
                place = self._unit(row, unit)
                self.memory.reset[place] = gate(1, 0, unit) * self.memory.hidden[place]

            self._units(store)

        self._if_active(direction, first + row, step, each, lambda: None)

    def advance(self, direction: Any, first: Any, row: Any, step: Any, kind: int) -> None:
        """The states after a step. A sequence that has ended keeps them and leaves zeros."""
        cell = {"rnn": self._rnn, "gru": self._gru, "lstm": self._lstm}[self._form.cell]

        def write(time: Any, unit: Any, value: Any) -> None:
            if STATES in self._results:
                place = (*self._place(time, first + row), direction, unit)
                if not self._form.batch_first:
                    place = (time, direction, first + row, unit)
                self._results[STATES][place] = value

        def active(time: Any) -> None:
            gate = _Gates(self, direction, first, row, time, kind)

            def unit_of(unit: Any) -> None:
                cell(gate, unit)
                write(time, unit, self.memory.hidden[self._unit(row, unit)])

            self._units(unit_of)

        def ended() -> None:
            if STATES in self._results:
                self._units(lambda unit: write(step, unit, constant(0.0)))

        self._if_active(direction, first + row, step, active, ended)

    def _rnn(self, gate: _Gates, unit: Any) -> None:
        self.memory.hidden[self._unit(gate.row, unit)] = gate(0, 0, unit)

    def _gru(self, gate: _Gates, unit: Any) -> None:
        place, hidden = self._unit(gate.row, unit), self.memory.hidden
        own = gate.sums(2, unit)
        if self._form.reset_after:
            if BIAS in self._operands:
                own = own + self._operands[BIAS][gate.direction, unit]
            own = gate(1, 0, unit) * own
        # the sums are in memory: a value that is read twice is computed once
        candidate, update = gate.place(2, unit), gate.place(0, unit)
        self.memory.gates[candidate] = gate.activated(gate.input(2, unit) + own, 1)
        self.memory.gates[update] = gate(0, 0, unit)
        new, z = self.memory.gates[candidate], self.memory.gates[update]
        hidden[place] = (constant(1.0) - z) * new + z * hidden[place]

    def _lstm(self, gate: _Gates, unit: Any) -> None:
        memory, form = self.memory, self._form
        place = self._unit(gate.row, unit)
        enters = gate.place(0, unit)
        memory.gates[enters] = gate(0, 0, unit, self._peephole(gate, 0, unit))
        kept = constant(1.0) - memory.gates[enters]
        if not form.coupled:
            kept = gate(2, 0, unit, self._peephole(gate, 2, unit))
        memory.cell[place] = kept * memory.cell[place] + memory.gates[enters] * gate(3, 1, unit)
        leaves = gate(1, 0, unit, self._peephole(gate, 1, unit))
        memory.hidden[place] = leaves * gate.activation(2, memory.cell[place])

    def _peephole(self, gate: _Gates, index: int, unit: Any) -> Expr | None:
        if PEEPHOLES not in self._operands:
            return None
        weight = self._operands[PEEPHOLES][gate.direction, index * self._form.hidden + unit]
        return weight * self.memory.cell[self._unit(gate.row, unit)]

    def _units(self, write: Callable[[Any], None]) -> None:
        """Vectors of all hidden units."""

        def store(start: Any, width: int) -> None:
            if width == 1:
                write(start)
                return
            with T.vectorized(0, width) as lane:
                write(start + lane)

        pieces(self._form.hidden, self._lanes, store, overlap=False)

    def _if_active(
        self,
        direction: Any,
        sequence: Any,
        step: Any,
        active: Callable[[Any], None],
        ended: Callable[[], None],
    ) -> None:
        """Call ``active`` with the place in time, or ``ended`` after the end of a sequence."""
        if LENGTHS not in self._operands:
            active(self._time(direction, step, self._steps))
            return
        length = self._length(sequence)
        with T.If(step < length):
            with T.Then():
                active(self._time(direction, step, length))
            with T.Else():
                ended()

    def _length(self, sequence: Any) -> Any:
        """Steps of a sequence; no length reaches beyond the tensors."""
        return tirx.min(self._operands[LENGTHS][sequence], self._steps)

    def _time(self, direction: Any, step: Any, length: Any) -> Any:
        backward = self._form.backward
        if len(backward) == 1:
            return length - 1 - step if backward[0] else step
        return step + direction * (length - 1 - 2 * step)

    def _states(self) -> list[tuple[str, Any]]:
        states = [(HIDDEN, self.memory.hidden), (CELL, self.memory.cell)]
        return [(name, state) for name, state in states if state is not None]

    def _state(self, direction: Any, sequence: Any) -> tuple[Any, Any]:
        return (sequence, direction) if self._form.batch_first else (direction, sequence)

    def _place(self, time: Any, sequence: Any) -> tuple[Any, Any]:
        return (sequence, time) if self._form.batch_first else (time, sequence)

    def _unit(self, row: Any, unit: Any) -> Any:
        return row * self._form.hidden + unit


class _Gates:
    """The gates of one sequence at one time."""

    def __init__(
        self, cells: Cells, direction: Any, first: Any, row: Any, time: Any, kind: int
    ) -> None:
        self._cells, self._first, self._time = cells, first, time
        self._activations = cells._form.activations[kind]
        self.direction, self.row = direction, row

    def __call__(self, gate: int, function: int, unit: Any, more: Expr | None = None) -> Expr:
        """The activation of a gate by the activation function of that number."""
        value = self.input(gate, unit) + self.sums(gate, unit)
        return self.activated(value if more is None else value + more, function)

    def activated(self, value: Expr, function: int) -> Expr:
        """The activation of a limited value."""
        clip = self._cells._form.clip
        return self.activation(function, between(value, -clip, clip))

    def activation(self, function: int, value: Expr) -> Expr:
        """The activation function of that number."""
        return activated(value, self._activations[function])

    def input(self, gate: int, unit: Any) -> Expr:
        """The input's part."""
        form = self._cells._form
        column = (self.direction * form.gates + gate) * form.hidden + unit
        place = self._cells._place(self._time, self._first + self.row)
        value: Expr = self._cells._product[(*place, column)]
        return value

    def sums(self, gate: int, unit: Any) -> Expr:
        """The recurrent product's part."""
        value: Expr = self._cells.memory.gates[self.place(gate, unit)]
        return value

    def place(self, gate: int, unit: Any) -> Any:
        """The index of a gate's sum."""
        form = self._cells._form
        return (self.row * form.gates + gate) * form.hidden + unit
