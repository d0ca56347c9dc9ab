"""Loads vectors by two 64-bit loads, for cores whose 128-bit loads block FMAs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.general.llvm_functions import importing
from tvmconv.tir.general.rewrite import function_pass, local_buffer
from tvmconv.tir.general.stack_buffers import on_stack
from tvmconv.tir.neon.inorder_assembly import Sum, assembly
from tvmconv.tir.neon.inorder_functions import IMPORTED, loaded

_VECTOR, _BYTES = "float32x4", 4
# range of `ldr` from one register in elements, and the unit of its offset
_REACH, _STEP = 8188, 2
# a vector is complete so many FMAs before its first use
_AHEAD = 1
# Minimum number of FMAs for each load. With fewer, vectors are complete too late: stems took 1.1
# and fully connected layers of one row 2.4 times as long as with whole loads. With a given order of
# instructions vectors are complete in time, and whole loads take twice the cycles.
_SERVED, _ORDERED_SERVED = 3, 2


def InorderHalfLoads(ordered: bool) -> Any:
    """A pass that splits the vector loads of FMAs into two 64-bit loads.

    Pattern: neighboring statements that each add a product to a local vector of four FP32 values.
    One factor is a vector loaded from a flat buffer, the other a lane of a vector
    (:func:`~tvmconv.tir.neon.multiply_by_lane.MultiplyByLane`).

    Rewrite: each vector is loaded once. Its lower half is loaded to the vector register, its upper
    half to an integer register, from which it is inserted. With ``ordered`` one piece of assembly
    contains all FMAs and loads (:mod:`~tvmconv.tir.neon.inorder_assembly`), if they fit the
    registers.

    Why here: on Cortex-A53 no FMA issues for two cycles while 128 bits are loaded to a vector
    register. A 64-bit load to an integer register dual-issues with an FMA. A 64-bit load to a
    vector register dual-issues with an insertion (developer guide of ncnn,
    arm-a53-a55-dual-issue.md; benchmarks in github.com/daniestevez/qsdr). On Cortex-A55 all three
    dual-issue with FMAs, and LLVM's order is best. LLVM would merge both loads (see
    :mod:`tvmconv.tir.neon.inorder_functions`), and does not schedule these pairs together.
    """
    return function_pass("neon.InorderHalfLoads", lambda func: _halved(func, ordered))


def _halved(func: Any, ordered: bool) -> Any:
    found = False
    texts: dict[str, str] = {}

    def look(sequence: Any) -> Any:
        nonlocal found
        statements: list[Any] = []
        for is_sum, run in groupby(sequence.seq, lambda stmt: bool(loads_of(stmt))):
            sums = list(run)
            chain = chain_of(sums, ordered) if is_sum else None
            found = found or chain is not None
            made = chain.ordered(sums, texts) if chain is not None and ordered else None
            statements += sums if chain is None else made or chain.statements(sums)
        return tirx.stmt_seq(*statements)

    body = tvm_ffi.structural_map(func.body, (tirx.SeqStmt, look))
    if not found:
        return func
    return importing(func.with_body(body), "\n".join([IMPORTED, *texts.values()]))


def chain_of(sums: Sequence[Any], ordered: bool) -> _VectorRun | None:
    """The loads of neighboring FMAs, or None if whole loads are better."""
    chain, served = _VectorRun.of(sums), _ORDERED_SERVED if ordered else _SERVED
    return chain if chain is not None and len(sums) >= served * len(chain.uses) else None


@dataclass
class _Reach:
    """Loads of one buffer whose indices differ by constants, by that difference."""

    first: Any
    places: dict[int, Any] = field(default_factory=dict)


@dataclass
class _VectorRun:
    """The vectors of a run of FMAs, in the order of their first use.

    ``uses`` has for each vector the index of its first FMA. ``keys`` has its address: the index of
    one of ``reaches``, and the distance from the first load there.
    """

    reaches: list[_Reach]
    keys: dict[tuple[int, int], int]
    uses: list[int]

    @classmethod
    def of(cls, sums: Sequence[Any]) -> _VectorRun | None:
        """The chain of a run; None if an FMA is stored to a buffer that others load."""
        chain = cls([], {}, [])
        stored = [store.buffer for store in sums]
        for number, store in enumerate(sums):
            for load in loads_of(store):
                if any(load.source.same_as(buffer) for buffer in stored):
                    return None
                key = chain.key(load)
                if key not in chain.keys:
                    chain.keys[key] = len(chain.uses)
                    chain.uses.append(number)
        return chain

    def key(self, load: Any) -> tuple[int, int]:
        """The address of a vector as an index of ``reaches`` and a distance."""
        place, analyzer = load.indices[0].base, sym.Analyzer()
        for number, reach in enumerate(self.reaches):
            if not reach.first.source.same_as(load.source):
                continue
            distance = analyzer.simplify(place - reach.first.indices[0].base)
            if not isinstance(distance, tirx.IntImm) or int(distance) % _STEP:
                continue
            ends = [*reach.places, int(distance)]
            if max(ends) - min(ends) < _REACH:
                reach.places.setdefault(int(distance), load)
                return number, int(distance)
        self.reaches.append(_Reach(load, {0: load}))
        return len(self.reaches) - 1, 0

    def statements(self, sums: Sequence[Any]) -> list[Any]:
        """The FMAs, each after the loads that it needs."""
        vectors = local_buffer((len(self.uses),), _VECTOR, "halves")
        number = [tirx.IntImm("int32", value) for value in range(len(self.uses))]
        due: dict[int, list[Any]] = {}
        for vector, (use, key) in enumerate(zip(self.uses, self.keys, strict=True)):
            store = tirx.BufferStore(vectors, loaded(*self._address(*key)), [number[vector]])
            due.setdefault(max(0, use - _AHEAD), []).append(store)
        made: list[Any] = [on_stack(vectors)]
        for index, store in enumerate(sums):
            made += [*due.get(index, ()), self._sum(store, vectors, number)]
        return made

    def ordered(self, sums: Sequence[Any], texts: dict[str, str]) -> list[Any] | None:
        """The FMAs as one call of a function that is added to ``texts``, or None."""
        buffer, found = sums[0].buffer, []
        for store in sums:
            (index,) = store.indices
            if not store.buffer.same_as(buffer) or not isinstance(index, tirx.IntImm):
                return None
            a, b = store.value.b.a, store.value.b.b
            lanes, factor = (a, b) if isinstance(a, tirx.Shuffle) else (b, a)
            if isinstance(factor, tirx.Shuffle):
                return None
            number, spread = (self.keys[self.key(v)] for v in (factor, lanes.vectors[0]))
            found.append(Sum(int(index), number, spread, int(lanes.indices[0])))
        firsts = [min(reach.places) for reach in self.reaches]
        places = [(reach, _BYTES * (at - firsts[reach])) for reach, at in self.keys]
        made = assembly(found, places, len(self.reaches))
        if made is None:
            return None
        name, text = made
        texts[name] = text
        bases = [self._address(number, first)[0] for number, first in enumerate(firsts)]
        zero = tirx.IntImm("int32", 0)
        sums_at = tirx.address_of(tirx.BufferLoad(buffer, [zero]))
        return [tirx.Evaluate(tirx.call_extern("int32", name, sums_at, *bases))]

    def _address(self, reach: int, distance: int) -> tuple[Any, Any]:
        """The pointer that loads of a reach share, and the byte offset from it."""
        places = self.reaches[reach].places
        load = places[min(places)]
        first = tirx.BufferLoad(load.source, [load.indices[0].base])
        return tirx.address_of(first), tirx.IntImm("int32", _BYTES * (distance - min(places)))

    def _sum(self, store: Any, vectors: Any, number: Sequence[Any]) -> Any:
        """An FMA of vectors that were loaded before."""

        def taken(factor: Any) -> Any:
            spread = isinstance(factor, tirx.Shuffle)
            place = number[self.keys[self.key(factor.vectors[0] if spread else factor)]]
            vector = tirx.BufferLoad(vectors, [place])
            return tirx.Shuffle([vector], factor.indices) if spread else vector

        total, product = store.value.a, store.value.b
        value = total + tirx.Mul(taken(product.a), taken(product.b))
        return tirx.BufferStore(store.buffer, value, store.indices)


def _product(store: Any) -> Any:
    """The product of a vector and a lane that a statement adds to a local sum, or None."""
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return None
    total, product = store.value.a, store.value.b
    is_sum = isinstance(total, ir.expr.TensorLoad) and total.source.same_as(store.buffer)
    if not is_sum or store.buffer.scope() != "local" or not isinstance(product, tirx.Mul):
        return None
    lanes = any(isinstance(factor, tirx.Shuffle) for factor in (product.a, product.b))
    return product if lanes and str(product.ty.dtype) == _VECTOR else None


def loads_of(store: Any) -> list[Any]:
    """The vectors that an FMA multiplies, whole or by lane; empty for other statements."""
    product = _product(store)
    found = list(_whole(product)) if product is not None else []
    return found if len(found) == 2 else []


def _whole(product: Any) -> Iterator[Any]:
    for factor in (product.a, product.b):
        if isinstance(factor, tirx.Shuffle) and len(factor.vectors) == 1:
            factor = factor.vectors[0]
        loaded = isinstance(factor, ir.expr.TensorLoad) and str(factor.ty.dtype) == _VECTOR
        if loaded and len(factor.indices) == 1 and isinstance(factor.indices[0], tirx.Ramp):
            yield factor
