"""The padded copy of a plain image in channel blocks, which stems read by scalable vectors.

A vector of positions multiplies by lanes of its segments, one lane for each channel of a block. A
plane of a plain image has one channel. The copy joins up to four channels, with zeros for missing
ones, and adds the padding, so that loops over positions need no tests.
"""

from __future__ import annotations

from math import prod

from tvmconv.algorithms.operands import Operands
from tvmconv.algorithms.padding import image_tests, zero_unless
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# name of the block that copies
IMAGE = "image"


def left_edge(workload: Conv2dWorkload, machine: Machine) -> int:
    """Columns before the image: its padding, rounded up to whole squares of a transposition."""
    return _rounded(workload.pad_left, machine.lanes)


def image_shape(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """``(N, C/c, H, W, c)`` of the copy: the rows and columns that some window reads."""
    w, lanes = workload, machine.lanes
    height = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1
    read = (w.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1
    width = _rounded(left_edge(w, machine) - w.pad_left + read, lanes)
    return (w.data_shape[0], -(-w.in_channels // lanes), height, width, lanes)


def image_bytes(workload: Conv2dWorkload, machine: Machine) -> int:
    """Bytes of the copy of :func:`image_shape`."""
    return itemsize(workload.types.data) * prod(image_shape(workload, machine))


def padded_image(given: Operands) -> Tensor:
    """Block ``image``: the padded copy, from ``NCHW`` or ``NHWC``."""
    from tvmconv.tvm_api import te

    w, lanes = given.workload, given.machine.lanes
    shape, left = image_shape(w, given.machine), left_edge(w, given.machine)
    lowest, rightmost = shape[2] - 1 - w.pad_top, shape[3] - 1 - left

    def value(n: Expr, cb: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        row, column, channel = y - w.pad_top, x - left, cb * lanes + c
        place = (n, channel, row, column)
        if w.data_layout == "NHWC":
            place = (n, row, column, channel)
        tests = [*([column >= 0] if left else []), *image_tests(w, row, column, lowest, rightmost)]
        inside = zero_unless(tests, given.data[place])
        few = c < w.in_channels if w.in_channels < lanes else channel < w.in_channels
        return zero_unless([few] if w.in_channels % lanes else [], inside)

    return te.compute(shape, value, name=IMAGE)


def _rounded(extent: int, step: int) -> int:
    return -(-extent // step) * step
