"""F(4x4, 3x3) with a library's product: Algorithm 1 of Wang et al. (2020).

Each value of a transformed tile is stored to a matrix of its own, and numpy's OpenBLAS packs and
multiplies the 36 matrices. Filters are transformed before the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

from . import c_code, openblas
from .case import Array, Case, Session, Unsupported
from .direct_loops import single_convolution, sizes_of

_SOURCE = Path(__file__).with_name("c") / "winograd.c"
# the filter transform, whose input and output transforms are in the C file
_FILTER = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
_TAPS, _OUTPUTS, _PRODUCTS = 3, 4, 36


def version() -> str:
    """Versions of OpenBLAS and of the C compiler."""
    return f"{openblas.version()}, {c_code.version()}"


def prepare(case: Case, threads: int) -> Session:
    """NCHW to NCHW; threads come from ``OMP_NUM_THREADS`` and ``OPENBLAS_NUM_THREADS``."""
    node, data, weight, bias = single_convolution(case)
    sizes = sizes_of(case, node)
    ones = [sizes[name] for name in ("SH", "SW", "DH", "DW")]
    if weight.shape[2:] != (_TAPS, _TAPS) or ones != [1, 1, 1, 1]:
        raise Unsupported("3x3 kernels of stride and dilation 1 only")
    sizes["TH"], sizes["TW"] = (-(-sizes[name] // _OUTPUTS) for name in ("OH", "OW"))
    functions = c_code.library(case.folder, _SOURCE, sizes)
    shape = (_PRODUCTS, weight.shape[1], sizes["N"] * sizes["TH"] * sizes["TW"])
    tiles: Array = np.empty(shape, np.float32)
    products: Array = np.empty((_PRODUCTS, len(weight), shape[2]), np.float32)
    output: Array = np.empty(case.shapes[node.output], np.float32)
    filters = np.einsum("pu,kcuv,qv->pqkc", _FILTER, weight.astype(np.float64), _FILTER)
    filters = np.ascontiguousarray(filters.reshape(_PRODUCTS, *weight.shape[:2]), np.float32)
    scatter = partial(functions.scatter, c_code.pointer(data), c_code.pointer(tiles))
    gather = partial(functions.gather, *map(c_code.pointer, (products, bias, output)))

    def multiply() -> None:
        scatter()
        np.matmul(filters, tiles, out=products)

    def run() -> None:
        multiply()
        gather()

    stages: dict[str, Callable[[], object]] = {}
    if case.options.get("stages"):
        stages = {"input transform": scatter, "products": multiply, "output transform": run}
    return Session(
        run,
        lambda: {node.output: output},
        info=f"F(4x4, 3x3), {_PRODUCTS} products",
        facts={"multiplies": _PRODUCTS * prod(shape[1:]) * len(weight)},
        stages=stages,
    )
