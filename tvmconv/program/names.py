"""Placed steps -> calls of a finished :class:`~tvmconv.program.program.Program`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvmconv.program.places import NestedSteps, Step
from tvmconv.program.program import Branch, Call, Loop, Program


@dataclass(frozen=True)
class Names:
    """Symbols by the variable of a function, and algorithms by a kernel's name."""

    symbols: Mapping[Any, str]
    algorithms: Mapping[str, str]

    def program(self, placed: NestedSteps, runs: int = 1) -> Program:
        """A program without constants; the one around it runs it at most ``runs`` times."""
        return Program(
            inputs=placed.inputs,
            outputs=placed.outputs,
            calls=tuple(self._call(step, runs) for step in placed.steps),
            constants=(),
            constant_bytes=0,
            arena_bytes=placed.arena.bytes,
            arena_bound=placed.arena.bound,
        )

    def _call(self, step: Step, runs: int) -> Call:
        operands = tuple(buffer.as_operand() for buffer in step.buffers)
        size = sum(operand.bytes for operand in operands)
        symbol = self.symbols.get(step.function, "")
        # a profile has the time of all runs, so these numbers count all runs, too
        record = replace(
            step.record, kernel=symbol, flops=runs * step.record.flops, bytes=runs * size
        )
        algorithm = self.algorithms.get(step.record.kernel, "")
        return Call(record, operands, algorithm, self._nested(step, runs))

    def _nested(self, step: Step, runs: int) -> Branch | Loop | None:
        if step.form is not None:
            return Loop(step.form, self.program(step.nested[0], runs * step.form.trips))
        if step.nested:
            then, other = (self.program(part, runs) for part in step.nested)
            return Branch(then, other)
        return None
