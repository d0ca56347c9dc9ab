"""Loop nests over as few axes as their accesses allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from tvmconv.tir.general.conditions import is_zero
from tvmconv.tir.general.rewrite import (
    block_nest,
    is_static,
    nest_of,
    rebuilt_block,
    substitute,
    uses,
)


@dataclass(frozen=True)
class _BlockAccess:
    """A load or store: its dimensions of more than one element, and the index into each."""

    buffer: Any
    indices: tuple[Any, ...]
    sizes: tuple[int, ...]

    def places(self, var: Any) -> list[int]:
        """The dimensions whose indices use a variable."""
        return [place for place, index in enumerate(self.indices) if uses(index, var)]


@dataclass(frozen=True)
class _Nest:
    """A block with its loops: axes of more than one iteration, and accesses in program order."""

    block: Any
    axes: tuple[Any, ...]
    accesses: tuple[_BlockAccess, ...]
    outside: frozenset[Any]

    def pairs(self) -> list[tuple[Any, Any]]:
        """Neighboring axes."""
        return list(pairwise(self.axes))


def collapse_axes(func: Any) -> Any:
    """Fuse neighboring axes of a function's blocks wherever all accesses allow it.

    Two axes become one if every access of the block is contiguous across them, or uses neither.
    Axes of one iteration are dropped. Parameters are accessed through views of fewer dimensions,
    and intermediate buffers have fewer dimensions. A function is unchanged if it is not a sequence
    of perfect nests over buffers of constant shapes without strides.

    ``Schedule.fuse`` would leave the old indices as quotients and remainders of the fused loop. If
    a row is not a multiple of a vector, TVM does not see that they are contiguous, and the code is
    scalar.
    """
    if not is_static(func):
        return func
    root = func.body.block
    statements = tirx.stmt_list(root.body)
    # views of parameters, of an earlier call
    known = [part for part in statements if isinstance(part, tirx.DeclBuffer)]
    parts = [part for part in statements if not isinstance(part, tirx.DeclBuffer)]
    nests = [nest for nest in map(_nest, parts) if nest is not None]
    if len(nests) < len(parts):
        return func
    merges = _merges(nests, set(root.alloc_buffers))
    views = _Views(list(root.alloc_buffers))
    bodies = [_rebuilt(nest, merged, views) for nest, merged in zip(nests, merges, strict=True)]
    body = tirx.stmt_seq(*known, *views.declared, *bodies)
    return func.with_body(rebuilt_block(func.body, body=body, alloc_buffers=views.allocated))


def _nest(statement: Any) -> _Nest | None:
    loops, statement = nest_of(statement)
    if not isinstance(statement, s_tir.SBlockRealize):
        return None
    block = statement.block
    fixed = all(isinstance(axis.dom.extent, tirx.IntImm) for axis in block.iter_vars)
    plain = fixed and all(
        # with a single iteration, the value is a loop or zero
        int(axis.dom.extent) == 1 or any(_same(value, loop.loop_var) for loop in loops)
        for axis, value in zip(block.iter_vars, statement.iter_values, strict=True)
    )
    if not plain or block.match_buffers or block.alloc_buffers:
        return None
    accesses, outside = _accesses(block)
    if any(a.buffer.strides or not is_zero(a.buffer.elem_offset) for a in accesses):
        return None
    reductions = [axis for axis in block.iter_vars if axis.iter_type == tirx.IterVar.CommReduce]
    # a reduction of one iteration stays one
    kept = [] if any(int(axis.dom.extent) > 1 for axis in reductions) else reductions[:1]
    axes = [axis for axis in block.iter_vars if int(axis.dom.extent) > 1 or axis in kept]
    return _Nest(block, tuple(axes), tuple(accesses), frozenset(outside))


def _same(a: Any, b: Any) -> bool:
    return bool(a.same_as(b))


def _access(buffer: Any, indices: Any) -> _BlockAccess:
    sizes = [int(size) for size in buffer.shape]
    places = [place for place, size in enumerate(sizes) if size > 1]
    return _BlockAccess(
        buffer, tuple(indices[place] for place in places), tuple(sizes[place] for place in places)
    )


def _accesses(block: Any) -> tuple[list[_BlockAccess], set[Any]]:
    """Every load and store of a block, and the variables that are used outside of indices."""
    found: list[_BlockAccess] = []
    outside: set[Any] = set()

    def enter(node: Any) -> Any:
        if isinstance(node, ir.Var):
            outside.add(node)
            return None
        store = isinstance(node, tirx.BufferStore)
        found.append(_access(node.buffer if store else node.source, node.indices))
        for index in node.indices:
            # a load inside of an index is an access of its own
            tvm_ffi.structural_walk(index, (ir.TensorLoad, enter), order="pre")
        if store:
            walk(node.value)
        return tvm_ffi.structural.WalkResult.SKIP

    def walk(node: Any) -> None:
        kinds = (tirx.BufferStore, ir.TensorLoad, ir.Var)
        tvm_ffi.structural_walk(node, (kinds, enter), order="pre")

    for part in (block.init, block.body):
        if part is not None:
            walk(part)
    return found, outside


def _merges(nests: Sequence[_Nest], own: set[Any]) -> list[list[bool]]:
    """For each nest and each pair of neighboring axes, whether they become one.

    A buffer in between has one shape: two dimensions are joined in all accesses or in none.
    """
    merges = [[_mergeable(nest, *pair) for pair in nest.pairs()] for nest in nests]
    while True:
        agreed: dict[Any, set[int]] = {}
        known = [(n, m, a) for n, m in zip(nests, merges, strict=True) for a in n.accesses]
        for nest, merged, access in known:
            joined = _joined(nest, merged, access)
            agreed[access.buffer] = agreed.get(access.buffer, joined) & joined
        changed = False
        for nest, merged, access in known:
            for number, (axis, other) in enumerate(nest.pairs()):
                if _in_one_dimension(access, axis, other):
                    continue
                if merged[number] and access.buffer in own:
                    separate = set(access.places(axis.var)) - agreed[access.buffer]
                    merged[number] = not separate
                    changed = changed or bool(separate)
        if not changed:
            return merges


def _joined(nest: _Nest, merged: Sequence[bool], access: _BlockAccess) -> set[int]:
    """Dimensions of an access that are joined with the next one."""
    pairs = [pair for pair, one in zip(nest.pairs(), merged, strict=True) if one]
    return {
        place
        for first, second in pairs
        if not _in_one_dimension(access, first, second)
        for place in access.places(first.var)
    }


def _mergeable(nest: _Nest, first: Any, second: Any) -> bool:
    if int(first.iter_type) != int(second.iter_type):
        return False
    if first.var in nest.outside or second.var in nest.outside:
        return False
    return all(_contiguous(access, first, second) for access in nest.accesses)


def _contiguous(access: _BlockAccess, first: Any, second: Any) -> bool:
    """Whether an access uses neither axis, or steps over both as over one."""
    outer, inner = access.places(first.var), access.places(second.var)
    if not outer and not inner:
        return True
    if _in_one_dimension(access, first, second):
        index = access.indices[inner[0]]
        step, whole = (_step(index, axis.var) for axis in (second, first))
        return step is not None and whole == step * int(second.dom.extent)
    if len(outer) != 1 or inner != [outer[0] + 1]:
        return False
    index = access.indices[inner[0]]
    whole = access.sizes[inner[0]] == int(second.dom.extent)
    rest = _without(access.indices[outer[0]], first.var)
    return whole and _same(index, second.var) and not uses(rest, first.var)


def _in_one_dimension(access: _BlockAccess, first: Any, second: Any) -> bool:
    """Whether an access has both axes in its last index, and in no other."""
    last = [len(access.indices) - 1]
    return access.places(first.var) == last and access.places(second.var) == last


def _step(index: Any, var: Any) -> int | None:
    """Elements by which an index grows with a variable; None if they are not constant."""
    found = sym.Analyzer().simplify(substitute(index, {var: var + 1}) - index)
    return int(found) if isinstance(found, tirx.IntImm) else None


def _without(index: Any, var: Any) -> Any:
    """An index less a variable of it."""
    return sym.Analyzer().simplify(index - var)


class _Views:
    """Buffers of fewer dimensions, one for each way to join the dimensions of a buffer."""

    def __init__(self, own: list[Any]) -> None:
        self._own = own
        self._known: dict[tuple[Any, tuple[int, ...]], Any] = {}
        self.declared: list[Any] = []
        self.allocated: list[Any] = []

    def of(self, buffer: Any, shape: tuple[int, ...]) -> Any:
        """The view of a parameter, or what an own buffer becomes."""
        if (buffer, shape) in self._known:
            return self._known[buffer, shape]
        view = buffer
        if tuple(map(int, buffer.shape)) != shape:
            index = str(buffer.shape[0].ty.dtype)
            sizes = [tirx.IntImm(index, size) for size in shape]
            kind = {"scope": buffer.scope(), "layout": None}
            view = tirx.decl_buffer(sizes, str(buffer.dtype), buffer.name, **kind)
        if buffer in self._own:
            self.allocated.append(view)
        elif view is not buffer:
            self.declared.append(tirx.DeclBuffer(view, data=buffer.data))
        self._known[buffer, shape] = view
        return view


def _rebuilt(nest: _Nest, merged: Sequence[bool], views: _Views) -> Any:
    """The loops of a nest over its joined axes."""
    groups = [[nest.axes[0]]] if nest.axes else []
    for (_, axis), one in zip(nest.pairs(), merged, strict=True):
        if one:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    first = [group[0].var for group in groups]
    # an index may also use axes that stay by themselves
    joined_axes = [group[0].var for group in groups if len(group) > 1]
    wholes = {group[-1].var: group[0].var for group in groups if len(group) > 1}
    # the outermost axis of a group becomes all of it, the others are zero
    zeros = {axis.var: 0 for axis in nest.block.iter_vars if axis.var not in first}

    def moved(buffer: Any, indices: Any) -> tuple[Any, list[Any]]:
        access = _access(buffer, indices)
        joined = _joined(nest, merged, access)
        shape: list[int] = []
        found: list[Any] = []
        for place, (index, size) in enumerate(zip(access.indices, access.sizes, strict=True)):
            if place - 1 not in joined:
                shape.append(size)
                found.append(_whole(index, wholes))
                continue
            shape[-1] *= size
            used = [var for var in joined_axes if uses(found[-1], var)]
            rest = _without(found[-1], used[0])
            found[-1] = used[0] + rest * size
        if not found:
            return views.of(buffer, (1,) * min(len(indices), 1)), list(indices[:1])
        return views.of(buffer, tuple(shape)), found

    def load(node: Any) -> Any:
        return tirx.BufferLoad(*moved(node.source, node.indices))

    def store(node: Any) -> Any:
        buffer, indices = moved(node.buffer, node.indices)
        return tirx.BufferStore(buffer, node.value, indices)

    def renamed(node: Any) -> Any:
        # an expression that was inlined twice defines its variables twice
        var = ir.Var(node.var.name, node.var.ty)
        return tirx.Let(var, node.value, substitute(node.body, {node.var: var}))

    def rewritten(part: Any) -> Any:
        if part is None:
            return None
        rules = [(ir.TensorLoad, load), (tirx.BufferStore, store), (tirx.Let, renamed)]
        return substitute(tvm_ffi.structural_map(part, rules, order="post"), zeros)

    axes = [_joined_axis(group) for group in groups]
    old = nest.block
    init, body = rewritten(old.init), rewritten(old.body)
    return block_nest(old, axes, [f"i{number}" for number in range(len(axes))], body, init)


def _whole(index: Any, wholes: dict[Any, Any]) -> Any:
    """An index in which the last axis of a group of axes becomes all of it."""
    moved: dict[Any, Any] = {}
    for last, first in wholes.items():
        if uses(index, last) and uses(index, first):
            moved |= {first: 0, last: first}
    return substitute(index, moved) if moved else index


def _joined_axis(group: Sequence[Any]) -> Any:
    var, kind = group[0].var, int(group[0].iter_type)
    extent = prod(int(axis.dom.extent) for axis in group)
    zero, end = (tirx.IntImm(str(var.ty.dtype), value) for value in (0, extent))
    return tirx.IterVar(ir.Range(zero, end), var, kind)
