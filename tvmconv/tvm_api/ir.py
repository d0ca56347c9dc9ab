"""What loop IR and Relax share: modules, calls, variables, passes (``tvm.ir``)."""

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
    transform,
)

__all__ = [
    "Call",
    "Constant",
    "GenericConst",
    "GlobalVar",
    "IRModule",
    "Op",
    "Range",
    "TensorLoad",
    "Var",
    "register_operator",
    "transform",
]
# CallEffectKind of C++ has no names in Python
_PURE, _UPDATES = 1, 3


def register_operator(name: str, *, updates: bool = False) -> None:
    """Add an operator of TIR whose calls are pure, and vectorised by giving it vectors.

    Those that update what lies in memory or registers are not pure, and no vectors.
    TVM registers operators from Python by this internal function only.
    """
    _ffi_api.RegisterOp(name, "")
    register_op_attr(name, "TVectorizable", not updates)
    register_op_attr(name, "TCallEffectKind", _UPDATES if updates else _PURE)
    register_op_attr(name, "TScriptPrinterName", name)


# TVM knows this of its neighbours only: expressions with this one were computed lane by lane
register_op_attr("tirx.nearbyint", "TVectorizable", True)
