"""Statements that accumulate INT8 matrix products, as a pass finds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.operators.products import instruction_of
from tvmconv.tir.general.rewrite import repeated
from tvmconv.tir.neon.matrix_operands import LANES

_SMMLA = "smmla"
# a vector of accumulators: its buffer and its index there
Key = tuple[Any, int]
Pair = tuple[Key, Key]


@dataclass(frozen=True)
class Update:
    """A store that adds a product to a vector of accumulators.

    ``data`` loads one item of data, and ``weight`` the vector of first elements of the weights'
    rows.
    """

    store: Any
    data: Any
    weight: Any

    @property
    def key(self) -> Key:
        """The vector of accumulators."""
        return self.store.buffer, int(self.store.indices[0])

    @property
    def place(self) -> tuple[int, int]:
        """The data's index as a variable part, by its hash, and a constant part."""
        index = self.data.indices[0]
        if isinstance(index, tirx.IntImm):
            return 0, int(index)
        if isinstance(index, tirx.Add) and isinstance(index.b, tirx.IntImm):
            return tvm_ffi.structural_hash(index.a), int(index.b)
        return tvm_ffi.structural_hash(index), 0


def runs_of(statement: Any) -> list[list[Update]]:
    """The updates in a statement, one list for each sequence of statements."""
    found: list[list[Update]] = []

    def look(sequence: Any) -> None:
        run = [update for part in sequence.seq if (update := update_of(part)) is not None]
        if run:
            found.append(run)

    tvm_ffi.structural_walk(statement, (tirx.SeqStmt, look))
    return found


def update_of(statement: Any) -> Update | None:
    """The update that a store performs; None for any other statement."""
    if not isinstance(statement, tirx.BufferStore) or not isinstance(statement.value, tirx.Add):
        return None
    total, product = statement.value.a, statement.value.b
    key = place_of(statement.buffer, statement.indices)
    same = isinstance(total, ir.TensorLoad) and key is not None and key_of(total) == key
    for data, weight in products_of(product) if same else ():
        return Update(statement, data, weight)
    return None


def products_of(call: Any) -> Iterator[tuple[Any, Any]]:
    """The loads of the operands of an ``smmla`` operator; none for other calls."""
    if instruction_of(getattr(getattr(call, "op", None), "name", "")) != _SMMLA:
        return
    data, weight = call.args
    data = repeated(data)
    yield data.args[0], weight.args[0]


def key_of(load: Any) -> Key | None:
    """The vector of accumulators that is loaded; None for other loads."""
    return place_of(load.source, load.indices)


def place_of(buffer: Any, indices: Any) -> Key | None:
    """The vector of accumulators at an index; None for other buffers."""
    (index,) = indices if len(indices) == 1 else (None,)
    vector = str(buffer.dtype) == f"int32x{LANES}"
    return (buffer, int(index)) if vector and isinstance(index, tirx.IntImm) else None
