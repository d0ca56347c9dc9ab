"""The rules for operators other than convolutions, in the order in which they are tried."""

from __future__ import annotations

from tvmconv.tir.cuda.workspace_parameters import with_workspace
from tvmconv.tvm_api.types import PrimFunc

RULES = ("reduction", "kernels")


def finished(func: PrimFunc) -> PrimFunc:
    """Place results that kernels exchange in the arena."""
    return with_workspace(func)
