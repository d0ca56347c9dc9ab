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
_PURE = 1


def register_operator(name: str) -> None:
    """Add an operator of TIR whose calls are pure, and vectorised by giving it vectors.

    TVM registers operators from Python by this internal function only.
    """
    _ffi_api.RegisterOp(name, "")
    register_op_attr(name, "TVectorizable", True)
    register_op_attr(name, "TCallEffectKind", _PURE)
    register_op_attr(name, "TScriptPrinterName", name)


# TVM knows this of its neighbours only: expressions with this one were computed lane by lane
register_op_attr("tirx.nearbyint", "TVectorizable", True)
