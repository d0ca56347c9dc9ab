"""Branches that no loop variable decides, moved out of their loops."""

from __future__ import annotations

from typing import Any

from tvm import ir, s_tir, tirx

from tvmconv.tir.general.rewrite import nodes_of


def HoistedBranches() -> Any:
    """TVM's pass HoistIfThenElse, for functions with branches only.

    Pattern: an ``IfThenElse`` statement inside a loop.

    Rewrite: the loop inside of the branches, if the condition does not depend on the loop.

    Why here: TVM's pass computes for every loop which variables each expression uses, also
    without a branch. On an unrolled kernel with a long epilogue that took 5 % of the build.
    """
    hoist = s_tir.transform.HoistIfThenElse()

    def apply(mod: Any, _context: Any) -> Any:
        branches = any(nodes_of(func.body, tirx.IfThenElse) for func in mod.functions.values())
        return hoist(mod) if branches else mod

    return ir.transform.module_pass(apply, opt_level=0, name="tvmconv.HoistedBranches")
