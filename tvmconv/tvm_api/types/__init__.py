"""Static types of TVM's objects, which TVM does not ship (its package has no ``py.typed``).

They declare the members that tvmconv uses. mypy then rejects a misspelled primitive, or a block in
place of a loop. Nothing is created at run time, and importing this package does not load TVM. A
test compares every member with the installed TVM.

Fields in C++ have the type ``Any`` if they depend on the class of a node. Code tests that class by
``isinstance`` before it uses them.
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
