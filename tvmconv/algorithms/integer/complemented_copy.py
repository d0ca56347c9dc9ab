"""Copies padded data together with its complements.

Kernels with larger windows copy their data for the padding. The copy also stores the complements of
:mod:`tvmconv.algorithms.integer.saturation`. A step then reads a dword with or without complement
at no cost, as in :mod:`tvmconv.algorithms.integer.packed_pixels`.
"""

from __future__ import annotations

from math import prod

from tvmconv.algorithms.integer.dwords import copied, copied_shape
from tvmconv.algorithms.integer.saturation import DWORD, MASKS
from tvmconv.algorithms.operands import Operands
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# name of the block
COMPLEMENTS = "complements"


def copied_dwords(workload: Conv2dWorkload, machine: Machine) -> int:
    """Dwords of the copy of one image, without complements."""
    return prod(copied_shape(workload, machine)[1:]) // DWORD


def complemented_copy(given: Operands) -> Tensor:
    """Block ``complements``: ``(N, masks, C/c, H, W, c/4)`` of int32, from block ``widen``.

    The first mask is 0.
    """
    from tvmconv.operators.products import word
    from tvmconv.tvm_api import te

    plain = copied(given, given.workload.types.data)
    batch, *image, channels = copied_shape(given.workload, given.machine)

    def value(n: Expr, mask: Expr, cb: Expr, y: Expr, x: Expr, part: Expr) -> Expr:
        read = word(*(plain[n, cb, y, x, part * DWORD + i] for i in range(DWORD)))
        # the last mask is the sum of the two before
        return read ^ (mask % 2 * MASKS[1] + mask // 2 * MASKS[2])

    return te.compute((batch, len(MASKS), *image, channels // DWORD), value, name=COMPLEMENTS)
