"""BLIS of its Python package: SGEMM on row-major matrices, both packed in the call."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version as installed

import numpy as np

from .case import Array, Case, Session, Unsupported


def version() -> str:
    """Version of the package, which is built from BLIS with kernels for several CPUs."""
    import_module("blis.py")
    return installed("blis")


def prepare(case: Case, threads: int) -> Session:
    """The result goes to memory that exists."""
    from blis.py import gemm

    a, b = case.product()
    if threads > 1:
        raise Unsupported("the package's BLIS is built without threads")
    result: Array = np.zeros((a.shape[0], b.shape[1]), np.float32)
    return Session(
        lambda: gemm(a, b, out=result, beta=0.0),
        lambda: {case.nodes[0].output: result},
    )
