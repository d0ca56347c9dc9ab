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
    "transform",
]
