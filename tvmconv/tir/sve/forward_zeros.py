"""Removes zeros that are stored only to be added to.

A part of :func:`tvmconv.tir.sve.vectorize_pixels.VectorizePixels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.conditions import is_zero
from tvmconv.tir.general.rewrite import repeated


def forwarded(statements: Sequence[Any]) -> list[Any]:
    """The statements, without stores of zeros to which the next statement adds.

    Sums in memory begin with such stores. LLVM forwards stores of fixed-length vectors to loads,
    but does not forward predicated stores.
    """
    found: list[Any] = []
    for statement in statements:
        before = found[-1] if found else None
        if isinstance(before, tirx.BufferStore) and isinstance(statement, tirx.BufferStore):
            added = _added(before, statement)
            if added is not None:
                found[-1] = tirx.BufferStore(statement.buffer, added, list(statement.indices))
                continue
        found.append(statement)
    return found


def _added(before: Any, store: Any) -> Any:
    """The value that is added to the stored zeros; None for other statements."""

    def same(node: Any) -> bool:
        is_store = isinstance(node, tirx.BufferStore)
        buffer = node.buffer if is_store else node.source
        return bool(
            buffer.same_as(store.buffer)
            and tvm_ffi.structural_equal(list(node.indices), list(store.indices))
        )

    value = repeated(before.value)
    if not is_zero(value) or not same(before) or not isinstance(store.value, tirx.Add):
        return None
    read = store.value.a
    return store.value.b if isinstance(read, ir.expr.TensorLoad) and same(read) else None
