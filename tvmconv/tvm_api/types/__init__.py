"""Static types of TVM's objects, which TVM does not ship (its package has no ``py.typed``).

They hold what tvmconv uses, so that mypy refuses a misspelt primitive, a block where a loop is
meant, or an expression where a tensor is. Nothing here is TVM's, nothing is created at run time,
and importing this loads no part of TVM; a test compares every member with the installed TVM.

What a class of TVM keeps in C++ has the type ``Any`` where it depends on the class of a node:
code that tests ``isinstance`` with a class of TVM goes on with all of that class' fields.
"""

from __future__ import annotations

from tvmconv.tvm_api.types.expressions import Expr, Index, Scalar, Tensor
from tvmconv.tvm_api.types.functions import (
    For,
    Function,
    GlobalVar,
    IRModule,
    Pass,
    PrimFunc,
    SBlock,
    Stmt,
)
from tvmconv.tvm_api.types.relax import Binding, BindingBlock, BlockBuilder, RelaxExpr, RelaxVar
from tvmconv.tvm_api.types.runtime import DeviceTensor, Module, Target
from tvmconv.tvm_api.types.schedule import BlockRV, IndexMap, LoopRV, Schedule

__all__ = [
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "BlockRV",
    "DeviceTensor",
    "Expr",
    "For",
    "Function",
    "GlobalVar",
    "IRModule",
    "Index",
    "IndexMap",
    "LoopRV",
    "Module",
    "Pass",
    "PrimFunc",
    "RelaxExpr",
    "RelaxVar",
    "SBlock",
    "Scalar",
    "Schedule",
    "Stmt",
    "Target",
    "Tensor",
]
