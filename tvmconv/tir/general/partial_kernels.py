"""A kernel that stops after one of its stages, so that the stages can be timed apart."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tvmconv.tir.general.rewrite import function_pass, substitute


def LeaveOutBlocks(names: Collection[str]) -> Any:
    """A pass that leaves out the work of some blocks, so that the others can be timed.

    Pattern: a scheduled function, in block form, whose last argument is the output.

    Rewrite: the named blocks are removed, and loops that hold nothing else. What is left computes
    the same values in the same places as in the whole function; its output is meaningless.

    Why here: of a buffer that only the missing blocks would read, TVM and LLVM would remove the
    stores. One element of each such buffer is therefore copied into the output.

    Parameters
    ----------
    names
        Names of the expression's blocks; parts that a schedule made of them (``conv2d_update``)
        count as well.
    """

    def rewrite(func: Any) -> Any:
        return _without_blocks(func, names)

    return function_pass("LeaveOutBlocks", rewrite)


def _without_blocks(func: Any, names: Collection[str]) -> Any:
    import tvm_ffi
    from tvm import s_tir, tirx

    output = func.params[-1]
    written: list[Any] = []

    def missing(block: Any) -> bool:
        return any(block.name_hint == n or block.name_hint.startswith(f"{n}_") for n in names)

    def look(block: Any) -> None:
        if not missing(block):
            written.extend(region.source for region in block.writes)

    def leave_out(realize: Any) -> Any:
        block = realize.block
        if not missing(block):
            return realize
        for read in block.reads:
            if any(read.source.same_as(buffer) for buffer in written):
                return touch(read, realize)
        return tirx.Evaluate(0)

    def touch(read: Any, realize: Any) -> Any:
        axes = zip(realize.block.iter_vars, realize.iter_values, strict=True)
        values = {axis.var: value for axis, value in axes}
        indices = [substitute(part.min, values) for part in read.region]
        element = tirx.BufferLoad(read.source, indices)
        if read.source.dtype != output.dtype:
            # of integers: transformed values have 16 bits, sums 32
            element = tirx.Cast(str(output.dtype), element)
        return tirx.BufferStore(output, element, [0] * len(output.ty.shape))

    def is_touch(stmt: Any) -> bool:
        return isinstance(stmt, tirx.BufferStore) and stmt.buffer.same_as(output)

    def loop(stmt: Any) -> Any:
        if _is_empty(stmt.body):
            return stmt.body
        if is_touch(stmt.body):
            return substitute(stmt.body, {stmt.loop_var: 0})
        return stmt

    def sequence(stmt: Any) -> Any:
        parts = [part for part in stmt.seq if not _is_empty(part)]
        touches = [part for part in parts if is_touch(part)]
        parts = [part for part in parts if not is_touch(part)] + touches[:1]
        if len(parts) == len(stmt.seq):
            return stmt
        if not parts:
            return tirx.Evaluate(0)
        return parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, look))
    rules = [(s_tir.SBlockRealize, leave_out), (tirx.For, loop), (tirx.SeqStmt, sequence)]
    return func.with_body(tvm_ffi.structural_map(func.body, rules, order="post"))


def _is_empty(stmt: Any) -> bool:
    from tvm import tirx

    return isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.IntImm)
