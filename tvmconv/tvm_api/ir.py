"""Modules, calls, variables and passes of both loop IR and Relax (``tvm.ir``)."""

from tvm.ir import (
    Call,
    Constant,
    GenericConst,
    GlobalVar,
    IRModule,
    Op,
    Range,
    TensorLoad,
    Var,
    _ffi_api,
    register_op_attr,
    save_json,
    transform,
)

# CallEffectKind of C++ has no names in Python
_PURE, _UPDATES = 1, 3


def register_operator(name: str, *, updates: bool = False) -> None:
    """Add an operator of TIR with pure calls, which are vectorized by vector operands.

    Calls of an operator that updates memory or registers are neither pure nor vectorized. TVM has
    only this internal function to register operators from Python.
    """
    _ffi_api.RegisterOp(name, "")
    register_op_attr(name, "TVectorizable", not updates)
    register_op_attr(name, "TCallEffectKind", _UPDATES if updates else _PURE)
    register_op_attr(name, "TScriptPrinterName", name)


# TVM marks only similar operators, and would compute expressions with this one lane by lane
register_op_attr("tirx.nearbyint", "TVectorizable", True)
