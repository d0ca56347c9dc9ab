"""Which lane of a warp holds which value of the operands of ``mma.sync``, and in which register.

Of the shapes ``m16n8k8`` (TF32) and ``m16n8k16`` (half), by the figures of NVIDIA's PTX ISA 9.0,
section "Matrix Fragments for mma.m16n8k8" and the one after it. A register is a word: a value of
TF32, or two neighbours of the reduction as halves. In words both shapes are one: 16 rows by 8
columns by 8 words.

Sums do not depend on the order of what they add: word ``k`` of ours is the instruction's
``k // 2 + 4 * (k % 2)``, so that the two words of a lane are neighbours in memory.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tvmconv.tvm_api.types import Index

ROWS, COLUMNS, WORDS, LANES = 16, 8, 8, 32
# registers of a lane for weights, columns and sums
WEIGHTS, COLUMN_WORDS, SUMS = 4, 2, 4
# lanes that share a row of the weights, or a column
QUAD = 4

_I = TypeVar("_I", Index, "npt.NDArray[np.int64]")


def of_weights(row: _I, word: _I) -> tuple[_I, _I]:
    """Lane and register of the first operand, ``row`` below 16 and ``word`` below 8."""
    return row % 8 * QUAD + word // 2, word % 2 * 2 + row // 8


def of_columns(word: _I, column: _I) -> tuple[_I, _I]:
    """Lane and register of the second operand, ``column`` below 8."""
    return column * QUAD + word // 2, word % 2


def of_sums(row: _I, column: _I) -> tuple[_I, _I]:
    """Lane and register of the sums."""
    return row % 8 * QUAD + column // 2, row // 8 * 2 + column % 2
