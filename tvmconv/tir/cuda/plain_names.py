"""Gives variables and buffers names that are identifiers of CUDA C++.

Buffers have the names of a model's tensors, which contain any characters. TVM prints them as they
are.
"""

from __future__ import annotations

import re
from typing import Any

import tvm_ffi
from tvm import ir

from tvmconv.tir.general.rewrite import nodes_of

_OTHERS = re.compile(r"[^A-Za-z0-9_]")


def plain_names(func: Any) -> Any:
    """A function in which the name of every variable and buffer is an identifier.

    Names may become equal; TVM numbers these when it prints them.
    """
    variables = {var: _plain(var.name) for var in nodes_of(func, ir.Var)}
    new = {var: ir.Var(name, var.ty) for var, name in variables.items() if name != var.name}
    if not new:
        return func
    return tvm_ffi.structural_map(func, (ir.Var, lambda var: new.get(var, var)))


def _plain(name: str) -> str:
    """The name with ``_`` for other characters, and before a digit at its beginning."""
    plain = _OTHERS.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain
