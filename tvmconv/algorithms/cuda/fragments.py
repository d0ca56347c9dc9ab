"""Lanes and registers of a warp that hold the operands of ``mma.sync``.

The layouts are of the shapes ``m16n8k8`` (TF32) and ``m16n8k16`` (FP16). See NVIDIA's PTX ISA 9.0,
section "Matrix Fragments for mma.m16n8k8" and the next section. A register is a dword: one TF32
value, or two FP16 neighbors of the reduction. In dwords both shapes have 16 rows, 8 columns and 8
reduction steps.

Sums do not depend on the order of their terms. Dword ``k`` here is the instruction's
``k // 2 + 4 * (k % 2)``, so that the two dwords of a lane are neighbors in memory.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tvmconv.tvm_api.types import Index

ROWS, COLUMNS, DWORDS, LANES = 16, 8, 8, 32
# registers of a lane for weights, columns and accumulators
WEIGHTS, COLUMN_DWORDS, SUMS = 4, 2, 4
# lanes that share a row of the weights, or a column
QUAD = 4

_I = TypeVar("_I", Index, "npt.NDArray[np.int64]")


def of_weights(row: _I, dword: _I) -> tuple[_I, _I]:
    """Lane and register of the first operand, ``row`` below 16 and ``dword`` below 8."""
    return row % 8 * QUAD + dword // 2, dword % 2 * 2 + row // 8


def of_columns(dword: _I, column: _I) -> tuple[_I, _I]:
    """Lane and register of the second operand, ``column`` below 8."""
    return column * QUAD + dword // 2, dword % 2


def of_sums(row: _I, column: _I) -> tuple[_I, _I]:
    """Lane and register of the accumulators."""
    return row % 8 * QUAD + column // 2, row // 8 * 2 + column % 2
