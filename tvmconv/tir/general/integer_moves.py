"""Functions that only move elements of a type that CPUs move as integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import ir, s_tir, tirx

from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import block_nest, nest_of, nests_of, rebuilt_block

# types -> integers of the same bytes
_INTEGERS = {"float16": "int16", "bool": "uint8"}


def integer_moves(func: Any) -> Any:
    """A function of spatial blocks that moves float16 or truth values as integers.

    LLVM takes several instructions for each float16 that it moves by itself, and its vectors of
    truth values are not those in memory. Blocks that also compute are unchanged, as are functions
    with intermediate buffers.
    """
    root = func.body.block
    statements = tirx.stmt_list(root.body)
    views = _Views()
    moved = [_moved(part, views) for part in nests_of(func)]
    if root.alloc_buffers or not views.declared:
        return func
    known = [part for part in statements if isinstance(part, tirx.DeclBuffer)]
    body = tirx.stmt_seq(*known, *views.declared, *moved)
    return func.with_body(rebuilt_block(func.body, body=body))


class _Views:
    """Views of buffers as integers."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self.declared: list[Any] = []

    def of(self, buffer: Any) -> Any:
        if buffer not in self._known:
            kind = _INTEGERS[str(buffer.dtype)]
            shape, scope = list(buffer.shape), buffer.scope()
            view = tirx.decl_buffer(shape, kind, buffer.name, scope=scope, layout=None)
            self._known[buffer] = view
            self.declared.append(tirx.DeclBuffer(view, data=buffer.data))
        return self._known[buffer]


def _moved(statement: Any, views: _Views) -> Any:
    """The nest with integers; the nest itself where it computes, or has another type."""
    loops, realize = nest_of(statement)
    if not isinstance(realize, s_tir.SBlockRealize):
        return statement
    block, store = realize.block, realize.block.body
    plain = isinstance(store, tirx.BufferStore) and len(block.iter_vars) == len(loops)
    if not plain or str(store.buffer.dtype) not in _INTEGERS or store.buffer.strides:
        return statement
    pairs = zip(realize.iter_values, loops, strict=True)
    if not all(value.same_as(loop.loop_var) for value, loop in pairs):
        return statement
    value = _integer(store.value, str(store.buffer.dtype), views)
    if value is None:
        return statement
    body = tirx.BufferStore(views.of(store.buffer), value, store.indices)
    return block_nest(block, block.iter_vars, [loop.loop_var.name for loop in loops], body)


def _integer(value: Any, dtype: str, views: _Views) -> Any:
    """A load, a constant, or a choice of them, as an integer; None for other values."""
    if isinstance(value, ir.TensorLoad):
        if str(value.source.dtype) != dtype or value.source.strides:
            return None
        return tirx.BufferLoad(views.of(value.source), list(value.indices))
    if isinstance(value, tirx.FloatImm) and dtype == "float16":
        bits = np.array(float(value.value), "float16").view("int16")
        return tirx.IntImm("int16", int(bits))
    if isinstance(value, tirx.IntImm) and dtype == "bool":
        return tirx.IntImm("uint8", int(bool(int(value.value))))
    if isinstance(value, ir.Call) and is_select(value):
        parts = [_integer(part, dtype, views) for part in value.args[1:]]
        if any(part is None for part in parts):
            return None
        return tirx.if_then_else(value.args[0], *parts)
    return None
