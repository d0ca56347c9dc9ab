"""Helpers of all passes: how to make a pass, and small rewrites of statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm_ffi import dtype as parse

from tvmconv.operators.products import instruction_of

# locality arguments of LLVM's prefetch
TO_L1, TO_L2 = 3, 2


@dataclass(frozen=True, eq=False)
class BlockAxis:
    """An axis of a block: its variable, from 0 to the extent."""

    var: Any
    extent: int


def function_pass(name: str, rewrite: Callable[[Any], Any]) -> Any:
    """A TVM pass ``tvmconv.<name>`` that rewrites each ``tirx.PrimFunc`` of a module by itself."""

    def apply(func: Any, _mod: Any, _context: Any) -> Any:
        return rewrite(func)

    return tirx.transform.prim_func_pass(apply, opt_level=0, name=f"tvmconv.{name}")


def transformed(func: Any, *passes: Any) -> Any:
    """A ``tirx.PrimFunc`` after some passes."""
    return ir.transform.Sequential(passes)(ir.IRModule({"main": func}))["main"]


def map_nodes(func: Any, rules: Any) -> Any:
    """A function with some nodes replaced, inner nodes first; ``func`` itself if none changes.

    ``rules`` are a pair of node classes and a function, or a list of such pairs.
    """
    body = tvm_ffi.structural_map(func.body, rules)
    return func if body.same_as(func.body) else func.with_body(body)


def nodes_of(root: Any, kinds: Any) -> list[Any]:
    """All nodes of one class, or of several, below a node, inner nodes first."""
    found: list[Any] = []
    tvm_ffi.structural_walk(root, (kinds, found.append))
    return found


def replace_marked(func: Any, rules: Mapping[str, Callable[[Any, Any], Any]]) -> Any:
    """Rewrite the loops that carry given annotations, and remove these annotations.

    A rule is a function of a loop, which already lacks the annotations, and of the annotation's
    value. It returns the statement that replaces the loop. Inner loops are rewritten first. Only
    the first rule applies to a loop with several annotations.
    """

    def look(loop: Any) -> Any:
        marks = [mark for mark in rules if mark in loop.annotations]
        if not marks:
            return loop
        kept = {key: value for key, value in loop.annotations.items() if key not in marks}
        return rules[marks[0]](rebuilt(loop, annotations=kept), loop.annotations[marks[0]])

    return map_nodes(func, (tirx.For, look))


def rebuilt(loop: Any, **parts: Any) -> Any:
    """A loop with some of its parts (``extent``, ``kind``, ``body``, ``annotations``) replaced."""
    names = ("extent", "kind", "body", "annotations")
    given = {name: parts.get(name, getattr(loop, name)) for name in names}
    return tirx.For(loop.loop_var, loop.min, **given)


def nest_of(statement: Any) -> tuple[list[Any], Any]:
    """The loops of a perfect nest, outermost first, and the statement inside of them."""
    loops = []
    while isinstance(statement, tirx.For):
        loops.append(statement)
        statement = statement.body
    return loops, statement


def nests_of(func: Any) -> list[Any]:
    """The statements of a function's root block, without declarations of buffers."""
    parts = tirx.stmt_list(func.body.block.body)
    return [part for part in parts if not isinstance(part, tirx.DeclBuffer)]


def with_nests(func: Any, nests: Mapping[int, Any]) -> Any:
    """A function with some of :func:`nests_of` replaced, by their places."""
    parts = tirx.stmt_list(func.body.block.body)
    declared = [part for part in parts if isinstance(part, tirx.DeclBuffer)]
    body = [nests.get(place, part) for place, part in enumerate(nests_of(func))]
    return func.with_body(rebuilt_block(func.body, body=tirx.stmt_seq(*declared, *body)))


def rebuilt_block(realize: Any, **parts: Any) -> Any:
    """A block in its place, with some of its parts (``body``, ``alloc_buffers``) replaced."""
    block = block_with(realize.block, **parts)
    return s_tir.SBlockRealize(realize.iter_values, realize.predicate, block)


def block_with(block: Any, **parts: Any) -> Any:
    """A block with some of its parts replaced."""
    names = (
        *("iter_vars", "reads", "writes", "name_hint", "body", "init"),
        *("alloc_buffers", "match_buffers", "annotations"),
    )
    return s_tir.SBlock(**{name: parts.get(name, getattr(block, name)) for name in names})


def block_nest(
    old: Any, axes: Sequence[Any], names: Sequence[str], body: Any, init: Any = None
) -> Any:
    """A nest of one loop for each axis, around a block with the old one's name and annotations.

    ``names`` are the names of the loops, ``body`` and ``init`` the statements of the new block.
    """
    buffers: dict[Any, Any] = {}

    def keep(access: Any) -> None:
        buffer = access.buffer if isinstance(access, tirx.BufferStore) else access.source
        buffers[buffer] = buffer

    for part in (init, body):
        if part is not None:
            tvm_ffi.structural_walk(part, ((tirx.BufferStore, ir.TensorLoad), keep))
    draft = s_tir.SBlock(axes, [], [], old.name_hint, body, init)
    reads, writes = s_tir.analysis.get_sblock_access_region(draft, buffers)[:2]
    block = s_tir.SBlock(
        axes, reads, writes, old.name_hint, body, init, annotations=old.annotations
    )
    variables = [ir.Var(name, axis.var.ty) for name, axis in zip(names, axes, strict=True)]
    nest = s_tir.SBlockRealize(variables, True, block)
    for variable, axis in reversed(list(zip(variables, axes, strict=True))):
        nest = tirx.For(variable, axis.dom.min, axis.dom.extent, tirx.ForKind.SERIAL, nest)
    return nest


def substitute(node: Any, values: Mapping[Any, Any]) -> Any:
    """A statement or expression with variables replaced, by expressions or by constants."""
    table = {
        var: tirx.IntImm(str(var.ty.dtype), value) if isinstance(value, int) else value
        for var, value in values.items()
    }
    return tvm_ffi.structural_map(node, (ir.Var, lambda var: table.get(var, var)))


def variables(expression: Any) -> list[Any]:
    """The variables of an expression, with repetitions."""
    return nodes_of(expression, ir.Var)


def outside_of_loads(value: Any) -> set[Any]:
    """The variables of an expression outside of the indices of loads."""
    found: set[Any] = set()

    def enter(node: Any) -> Any:
        if isinstance(node, ir.TensorLoad):
            return tvm_ffi.structural.WalkResult.SKIP
        found.add(node)
        return None

    tvm_ffi.structural_walk(value, ((ir.TensorLoad, ir.Var), enter), order="pre")
    return found


def uses(expression: Any, var: Any) -> bool:
    """Whether a variable occurs in an expression."""
    return any(found.same_as(var) for found in variables(expression))


def local_buffer(shape: Sequence[int], dtype: str, name: str, scope: str = "local") -> Any:
    """A new buffer in row-major order, as schedules make them; the caller allocates it."""
    return tirx.decl_buffer(shape, dtype, name, scope=scope, layout=None)


def repeated(value: Any) -> Any:
    """The scalar that a vector repeats; other values are unchanged."""
    return value.value if isinstance(value, tirx.Broadcast) else value


def byte_size(buffer: Any) -> int:
    """Bytes of a buffer of constant shape."""
    return prod(int(extent) for extent in buffer.shape) * item_bytes(str(buffer.dtype))


def is_static(func: Any) -> bool:
    """Whether all tensors that a function gets have constant shapes."""
    shapes = (param.shape for param in func.params if hasattr(param, "shape"))
    return all(isinstance(size, tirx.IntImm) for shape in shapes for size in shape)


def item_bytes(dtype: str) -> int:
    """Bytes of one element, rounded up."""
    described = parse(dtype)
    return int(described.bits * described.lanes + 7) // 8


def prefetch(load: Any, locality: int, *, write: bool = False) -> Any:
    """The statement that prefetches the cache line of a ``BufferLoad``."""
    call = tirx.call_intrin("void", "tirx.prefetch", tirx.address_of(load), int(write), locality, 1)
    return tirx.Evaluate(call)


def factors_of(product: Any) -> tuple[Any, ...]:
    """The factors of a multiplication or of a dot product; empty for other expressions."""
    if isinstance(product, tirx.Mul):
        return product.a, product.b
    is_dot = instruction_of(getattr(getattr(product, "op", None), "name", ""))
    return tuple(product.args) if is_dot else ()


def is_constant(value: Any) -> bool:
    """Whether a value, or every lane of a vector, is one floating-point constant."""
    inner = repeated(value)
    return isinstance(inner, tirx.FloatImm)
