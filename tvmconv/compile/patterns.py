"""Limits of TVM's fusion around tvmconv's functions."""

from __future__ import annotations

from tvmconv.kernels.rules import SCHEDULED
from tvmconv.tvm_api.op_pattern import OPAQUE, OUT_ELEMENTWISE_FUSABLE
from tvmconv.tvm_api.types import IRModule, PrimFunc, SBlock

# cheap operators may be fused after these, but not inlined into their many reads
_READS_OFTEN = ("max_pool", "avg_pool", "to_blocked", "from_blocked", "shuffle")
_COMPLETE = ("dense", "softmax", "log_softmax", "global_pool", "lrn")


def mark_patterns(mod: IRModule) -> IRModule:
    """Mark the functions that FuseOps must not change.

    A scheduled function would lose its schedule. An operator with many reads per result (pooling)
    or several blocks (softmax) would repeat the operators that are fused into it. Functions with
    ``op_pattern`` keep it.
    """
    from tvmconv.tvm_api import ir, tirx

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


def _operators(func: PrimFunc) -> set[str]:
    """The ``tvmconv.operator`` marks of a function's blocks."""
    from tvmconv.tvm_api import ffi, s_tir

    found: set[str] = set()

    def look(block: SBlock) -> None:
        name = block.annotations.get("tvmconv.operator")
        if name is not None:
            found.add(str(name))

    ffi.structural_walk(func.body, (s_tir.SBlock, look))
    return found
