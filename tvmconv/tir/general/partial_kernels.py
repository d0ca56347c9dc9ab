"""A kernel without some of its stages, so that the other stages can be timed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from tvmconv.tir.general.rewrite import function_pass, substitute


def LeaveOutBlocks(names: Collection[str]) -> Any:
    """A pass that removes the work of some blocks, so that the others can be timed.

    Pattern: a scheduled function in block form, whose last argument is the output.

    Rewrite: the named blocks and loops around them alone are removed. The rest accesses the same
    addresses as in the whole function. The output is meaningless.

    Why here: TVM and LLVM would remove stores to buffers that only removed blocks read. One element
    of each such buffer is therefore copied to the output.

    Blocks that a schedule derived from the named ones (``conv2d_update``) are removed as well.
    """
    return function_pass("LeaveOutBlocks", lambda func: _without_blocks(func, names))


def _without_blocks(func: Any, names: Collection[str]) -> Any:
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
            # integer kernels transform to int16 and accumulate in int32
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
        return tirx.stmt_seq(*parts)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, look))
    rules = [(s_tir.SBlockRealize, leave_out), (tirx.For, loop), (tirx.SeqStmt, sequence)]
    return func.with_body(tvm_ffi.structural_map(func.body, rules, order="post"))


def _is_empty(stmt: Any) -> bool:
    return isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.IntImm)
