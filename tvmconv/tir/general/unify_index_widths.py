"""Widens sums of a 32-bit and a 64-bit integer."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvmconv.tir.general.rewrite import function_pass, map_nodes, nodes_of


def UnifyIndexWidths() -> Any:
    """A pass that widens the narrower operand of a sum of a 32-bit and a 64-bit integer.

    Pattern: such a sum in a function with 64-bit loops, for example one that reads 64-bit indices.

    Rewrite: both operands are cast to 64 bits.

    Why here: LoopPartition starts its new loops at a 32-bit zero even if they are 64 bits wide. The
    passes after it reject the resulting sums.
    """
    return function_pass("UnifyIndexWidths", _unify_widths)


def _unify_widths(func: Any) -> Any:
    if all(str(loop.loop_var.ty.dtype) != "int64" for loop in nodes_of(func.body, tirx.For)):
        return func

    def repair(node: Any) -> Any:
        left, right = str(node.a.ty.dtype), str(node.b.ty.dtype)
        if {left, right} != {"int32", "int64"}:
            return node
        return tirx.Cast("int64", node.a) + tirx.Cast("int64", node.b)

    return map_nodes(func, (tirx.Add, repair))
