"""Loops over slices of a GEMM: their products, and how the terms of an index depend on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import factors_of, nodes_of, substitute, uses, variables

_BARRIER = "tirx.tvm_storage_sync"


@dataclass(frozen=True)
class LoopTerms:
    """A sum in the body of a loop.

    ``moving`` are terms with the loop's variable, ``inner`` other terms with variables of inner
    loops. ``fixed`` are loop-invariant terms, and ``constant`` is the sum of integers.
    """

    moving: tuple[Any, ...]
    inner: tuple[Any, ...]
    fixed: tuple[Any, ...]
    constant: tuple[Any, ...]


def loop_terms(total: Any, var: Any, inner: Sequence[Any]) -> LoopTerms:
    """The terms of a simplified sum.

    ``inner`` are the variables of loops inside the loop of ``var``.
    """
    found: dict[str, list[Any]] = {"moving": [], "inner": [], "fixed": [], "constant": []}
    for term in _terms(total):
        used = variables(term)
        if uses(term, var):
            kind = "moving"
        elif any(uses(term, each) for each in inner):
            kind = "inner"
        else:
            kind = "fixed" if used else "constant"
        found[kind].append(term)
    return LoopTerms(**{kind: tuple(terms) for kind, terms in found.items()})


def slice_products(loop: Any) -> int:
    """MACs of a thread in an iteration of a loop over slices; 0 for other loops.

    A loop over slices has a constant extent and a barrier, because threads share the slices.
    """
    calls: list[Any] = []
    stores: list[Any] = []
    tvm_ffi.structural_walk(loop.body, [(ir.Call, calls.append), (tirx.BufferStore, stores.append)])
    shares = any(getattr(call.op, "name", "") == _BARRIER for call in calls)
    if not shares or not isinstance(loop.extent, tirx.IntImm):
        return 0
    return sum(isinstance(s.value, tirx.Add) and bool(factors_of(s.value.b)) for s in stores)


def total_of(terms: Sequence[Any]) -> Any:
    """The sum of terms; zero without terms."""
    total: Any = tirx.IntImm("int32", 0)
    for term in terms:
        total = total + term
    return total


@dataclass(frozen=True)
class ReductionParts:
    """Groups of neighboring blocks that compute the same part of a reduction.

    ``block`` is the variable of the block index; None if all blocks compute the same part. A group
    has ``size`` blocks, and there are ``count`` groups.
    """

    block: Any = None
    size: int = 1
    count: int = 1

    def known(self, number: int, within: Any) -> dict[Any, Any]:
        """Substitutes the block index by its group and its index within the group."""
        return {} if self.block is None else {self.block: number * self.size + within}


def parts_of(moving: Any, blocks: Mapping[Any, int], analyzer: Any) -> ReductionParts | None:
    """Group blocks by the part of a reduction that they compute.

    ``moving`` is a sum of terms with a loop's variable. ``blocks`` has the number of blocks by the
    variable of the block index. The analyzer knows the ranges of other variables. The result is the
    largest groups whose blocks have the same sum; None if several block indices occur.
    """
    used = [var for var in blocks if uses(moving, var)]
    if len(used) != 1:
        return None if used else ReductionParts()
    (block,) = used
    divisors = nodes_of(moving, tirx.FloorDiv)
    sizes = {int(each.b) for each in divisors if isinstance(each.b, tirx.IntImm)}
    for size in sorted(sizes, reverse=True):
        count = -(-blocks[block] // size)
        group, within = ir.Var("group", block.ty), ir.Var("within", block.ty)
        analyzer.bind(group, ir.Range(0, count))
        analyzer.bind(within, ir.Range(0, size))
        if not uses(analyzer.simplify(substitute(moving, {block: group * size + within})), within):
            return ReductionParts(block, size, count)
    return ReductionParts(block, 1, blocks[block])


def _terms(total: Any) -> list[Any]:
    if isinstance(total, tirx.Add):
        return [*_terms(total.a), *_terms(total.b)]
    if isinstance(total, tirx.Sub) and isinstance(total.b, tirx.IntImm):
        return [*_terms(total.a), tirx.IntImm("int32", -int(total.b))]
    return [total]
