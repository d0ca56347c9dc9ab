"""OpenBLAS of numpy: SGEMM on row-major matrices, both packed in the call.

A convolution is im2col and SGEMM. Other operators are numpy's functions.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .case import Case, Session
from .im2col_blas import NumpyGraph


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
    """Results go to memory that exists; threads come from ``OPENBLAS_NUM_THREADS``.

    The stages of convolutions are the copies of im2col, and the products.
    """
    graph = NumpyGraph(case)
    stages = {"im2col": graph.copy, "products": graph.run}
    return Session(
        graph.run,
        lambda: {name: graph.values[name] for name in case.outputs},
        info=version(),
        stages=stages if case.options.get("stages") and graph.copies else {},
    )
