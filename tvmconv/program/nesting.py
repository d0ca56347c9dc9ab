"""How a Relax function calls nested programs.

An If is ``call_dps_packed("if_0", ...)`` and runs the function ``if_0_then`` or ``if_0_else`` of
the same module. A Loop or Scan is ``call_dps_packed("loop_0", ...)`` and runs ``loop_0_body``,
whose attribute :data:`LOOP` holds the loop's form. Arguments are in the order of the operands of
:class:`~tvmconv.program.program.Branch` and :class:`~tvmconv.program.program.Loop`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tvmconv.program.program import LoopForm

# attribute of a body's function
LOOP = "tvmconv.loop"
IF = "if"
THEN, ELSE, BODY = "then", "else", "body"


def nested_symbols(call: Any) -> tuple[str, ...]:
    """Names of the functions that a call runs as nested programs; none for other calls."""
    if getattr(getattr(call, "op", None), "name", "") != "relax.call_dps_packed":
        return ()
    if operator_of(call) not in (IF, "loop"):
        return ()
    symbol = str(call.args[0].global_symbol)
    parts = (THEN, ELSE) if operator_of(call) == IF else (BODY,)
    return tuple(f"{symbol}_{part}" for part in parts)


def operator_of(call: Any) -> str:
    """The operator of such a call: ``if`` or ``loop``."""
    return str(call.args[0].global_symbol).partition("_")[0]


def function_names(mod: Any, name: str = "main") -> Iterator[str]:
    """A function and its nested functions, each after the function that runs it."""
    yield name
    for block in mod[name].body.blocks:
        for binding in block.bindings:
            for nested in nested_symbols(binding.value):
                yield from function_names(mod, nested)


def form_attribute(form: LoopForm) -> dict[str, str]:
    """The attribute of a body's function."""
    return {LOOP: json.dumps(asdict(form))}


def form_of(function: Any) -> LoopForm | None:
    """The form of a loop from its body's function; None for other functions."""
    text = (function.attrs or {}).get(LOOP)
    return None if text is None else LoopForm.from_json(json.loads(str(text)))
