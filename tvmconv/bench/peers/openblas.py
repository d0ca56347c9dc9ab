"""OpenBLAS, as numpy brings it: SGEMM on row-major matrices, both packed in the call."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .case import Array, Case, Session


@lru_cache(maxsize=1)
def version() -> str:
    """Version of the OpenBLAS that numpy is linked with."""
    config = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"] if isinstance(config, dict) else {}
    name = str(blas.get("name", "an unknown BLAS"))
    if "openblas" not in name.lower():
        raise ImportError(f"numpy is linked with {name}, not with OpenBLAS")
    return f"{name} {blas.get('version', '')}"


def prepare(case: Case, threads: int) -> Session:
    """The result goes to memory that exists; threads come from ``OPENBLAS_NUM_THREADS``."""
    a, b = case.product()
    result: Array = np.empty((a.shape[0], b.shape[1]), np.float32)
    return Session(
        lambda: np.matmul(a, b, out=result),
        lambda: {case.nodes[0].output: result},
        info=version(),
    )
