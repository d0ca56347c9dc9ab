"""Stems of integer networks: dwords of neighboring positions of a channel plane.

A stem has too few input channels to fill a dword, but its rows are long. A dword packs neighboring
positions of one channel, as stored in NCHW, and meets as many taps of a kernel row. A row of seven
taps takes two INT8 dwords for each channel, in all six. Dwords of channels would take seven, with a
quarter of their lanes unused. Positions beyond the row's last tap meet zero weights.
"""

from __future__ import annotations

from math import gcd, prod

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.algorithms.integer.dwords import dword_size, is_negated
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import Operands, split_outputs
from tvmconv.algorithms.padding import image_tests, zero_unless
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# name of the block that copies rows
ROWS = "rows"
# maximum and minimum number of elements that are copied at once
_MOST, _LEAST = 32, 8


def dwords_of_row(workload: Conv2dWorkload, machine: Machine) -> int:
    """Dwords of the taps of one kernel row."""
    return -(-workload.kernel_w // dword_size(workload, machine))


def piece_of_row(workload: Conv2dWorkload) -> int:
    """Elements that are copied at once; whole pieces make up the image's rows if possible."""
    piece = gcd(workload.in_width, _MOST)
    return piece if piece >= _LEAST else 2 * _LEAST


def left_edge(workload: Conv2dWorkload) -> int:
    """Elements before a row of the image: its padding, rounded up to whole pieces."""
    piece = piece_of_row(workload)
    return -(-workload.pad_left // piece) * piece


def rows_shape(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """``(N, C, H, W)`` of the padded copy of the image.

    ``N`` includes padding along the depth. A row ends after its last dword's elements.
    """
    w = workload
    depth = (w.out_depth - 1) * w.stride_d + (w.kernel_d - 1) * w.dilation_d + 1
    height = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1
    read = dwords_of_row(w, machine) * dword_size(w, machine)
    width = left_edge(w) - w.pad_left + (w.out_width - 1) * w.stride_w + read
    piece = piece_of_row(w)
    return (w.batch * depth, w.in_channels, height, -(-width // piece) * piece)


def rows_bytes(workload: Conv2dWorkload, machine: Machine) -> int:
    """Bytes of the copy of :func:`rows_shape`."""
    element = itemsize(multiply_of(workload, machine).element)
    return element * prod(rows_shape(workload, machine))


def padded_rows(given: Operands) -> Tensor:
    """Block ``rows``: the padded copy, widened if the CPU multiplies 16-bit integers."""
    from tvmconv.tvm_api import te, tirx

    w, machine = given.workload, given.machine
    shape, element = rows_shape(w, machine), multiply_of(w, machine).element
    depth, left = shape[0] // w.batch, left_edge(w)
    lowest, rightmost = shape[2] - 1 - w.pad_top, shape[3] - 1 - left
    zero = tirx.const(0, w.types.data) if given.zero is None else given.zero[0]

    def value(n: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
        row, column = y - w.pad_top, x - left
        plane, tests = n, []
        if w.is_volume:
            tap = n % depth - w.pad_front
            tests = [tap >= 0, tap < w.in_depth] if w.pad_front or w.pad_back else []
            plane = n // depth * w.in_depth + tap
        tests = [*tests, *image_tests(w, row, column, lowest, rightmost)]
        wide = zero_unless(tests, given.data[plane, c, row, column], zero).astype(element)
        return -wide if is_negated(w, machine) else wide

    return te.compute(shape, value, name=ROWS)


def first_column(workload: Conv2dWorkload) -> int:
    """The column of the copy at which the first window begins."""
    return left_edge(workload) - workload.pad_left


def packed_shape(workload: Conv2dWorkload, machine: Machine, oc: int) -> tuple[int, ...]:
    """``(K/(oc*k), S/i, T*R, C, oc, k, i)`` with ``i`` taps of a row in a dword."""
    w, size = workload, dword_size(workload, machine)
    groups, lanes = -(-machine.blocks(w.out_channels) // oc), machine.channel_block
    steps = dwords_of_row(w, machine)
    return (groups, steps, w.weight_shape[2], w.in_channels, oc, lanes, size)


def packed_rows(
    weight: FloatArray, workload: Conv2dWorkload, machine: Machine, oc: int
) -> FloatArray:
    """OIHW to :func:`packed_shape`; zeros after a row's last tap and the last output."""
    groups, steps, rows, channels, _, lanes, size = packed_shape(workload, machine, oc)
    padded = np.zeros((*weight.shape[:3], steps * size), weight.dtype)
    padded[..., : weight.shape[3]] = weight
    split = split_outputs(padded, groups, oc, lanes)
    split = split.reshape(groups, oc, lanes, channels, rows, steps, size)
    return np.ascontiguousarray(split.transpose(0, 5, 4, 3, 1, 2, 6))
