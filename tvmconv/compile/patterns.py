"""What TVM's fusion may put around a function."""

from __future__ import annotations

from typing import Any

from tvmconv.kernels.rules import SCHEDULED

# relax.op_pattern_kind
OUT_ELEMENTWISE_FUSABLE = 4
OPAQUE = 8

# Cheap work may follow these, nothing may be inlined into their many reads.
_READS_OFTEN = ("max_pool", "avg_pool", "to_blocked", "from_blocked", "shuffle")
_COMPLETE = ("dense", "softmax", "log_softmax", "global_pool", "lrn")


def mark_patterns(mod: Any) -> Any:
    """Tell FuseOps which functions it must leave alone.

    A scheduled function would lose its schedule, and an operator with many reads per result
    (pooling) or several blocks (softmax) would repeat what is fused into it. Functions that
    already carry ``op_pattern`` keep it.
    """
    from tvm import ir, tirx

    functions = {}
    for var, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and not (func.attrs and "op_pattern" in func.attrs):
            names = _operators(func)
            if (func.attrs and func.attrs.get(SCHEDULED)) or names & set(_COMPLETE):
                func = func.with_attr("op_pattern", OPAQUE)
            elif names & set(_READS_OFTEN):
                func = func.with_attr("op_pattern", OUT_ELEMENTWISE_FUSABLE)
        functions[var] = func
    return ir.IRModule(functions, attrs=mod.attrs)


def _operators(func: Any) -> set[str]:
    """The ``tvmconv.operator`` marks of a function's blocks."""
    import tvm_ffi
    from tvm import s_tir

    found: set[str] = set()

    def look(block: Any) -> None:
        name = block.annotations.get("tvmconv.operator")
        if name is not None:
            found.add(str(name))

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, look))
    return found
