"""BLIS, as the Python package brings it: SGEMM on row-major matrices, both packed in the call."""

from __future__ import annotations

from importlib.metadata import version as installed

import numpy as np

from .case import Array, Case, Session, Unsupported


def version() -> str:
    """Version of the package, which is built from BLIS with kernels for several processors."""
    import blis.py  # noqa: F401

    return installed("blis")


def prepare(case: Case, threads: int) -> Session:
    """The result goes to memory that exists."""
    from blis.py import gemm

    if len(case.nodes) != 1 or case.nodes[0].op != "MatMul":
        raise Unsupported("one plain matrix product only")
    if threads > 1:
        raise Unsupported("the package's BLIS is built without threads")
    a, b = (case.inputs[name] for name in case.nodes[0].inputs)
    result: Array = np.zeros((a.shape[0], b.shape[1]), np.float32)
    return Session(
        lambda: gemm(a, b, out=result, beta=0.0),
        lambda: {case.nodes[0].output: result},
    )
