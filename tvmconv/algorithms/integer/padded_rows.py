"""INT8 convolution over one long row of positions, for vectors of any length.

An image is copied once, with its padding. All rows of the copy form one row, so that neighboring
outputs read neighboring dwords for every kernel element, also across the ends of rows::

    output q  reads  q + r * pitch + s        of the copy, for kernel element (r, s)

Rows of the output have the length of the copy's, ``pitch``. Their last columns are surplus: 2 of 58
for 3x3 on rows of 56. A strided layer has a copy of each phase of rows and columns, in which
neighboring outputs read neighbors again.

Dwords of four positions are 16 bytes, a segment of a scalable vector. Outputs are padded to whole
segments, and the copy has what these read, so that no load needs a test.

Most tiles are rounded in registers. Other layers, such as layers whose residual has no surplus
columns, store their accumulators, and NEON code computes the output (:func:`rounds_in_tiles`).
Positions ``4 p + i`` are stored in four rows, one for each ``i``, because a vector of accumulators
has one of them in each segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvmconv.algorithms.base import reduction_axes
from tvmconv.algorithms.direct.channels import first_block, input_span
from tvmconv.algorithms.integer.dwords import Factors
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import Operands
from tvmconv.algorithms.padding import zero_unless
from tvmconv.core.datatypes import itemsize
from tvmconv.core.epilogue_op import QUANTISE
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# name of the block that copies the image
COPY = "copy"
# Steps of epilogues that tiles compute. A residual has no surplus columns.
_STEPS = ("bias", QUANTISE, "relu", "clip")
# positions of a segment
GROUP = 4


def obstacle(workload: Conv2dWorkload, machine: Machine) -> str:
    """Why a layer has no scalable INT8 code, as a clause; empty if it has."""
    multiply = multiply_of(workload, machine)
    if not (machine.vector.scalable and multiply.of_segments):
        return f"{machine.described} multiplies it by {multiply.name} in vectors of fixed length"
    if workload.data_layout != "NCHWc" or workload.is_depthwise or workload.is_volume:
        return "it is depthwise, or has planes of a volume or plain input"
    lanes, groups = machine.channel_block, workload.groups
    of_group = [c // groups for c in (workload.in_channels, workload.out_channels)]
    if groups > 1 and any(count % lanes for count in of_group):
        return f"its groups begin inside of a block of {lanes} channels"
    return ""


def multiplies_bytes(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether a layer has scalable INT8 code."""
    return not obstacle(workload, machine)


def rounds_in_tiles(workload: Conv2dWorkload) -> bool:
    """Whether accumulators become 8-bit results in registers; else they pass through memory."""
    kind, is_direct = workload.types.quantisation.requantise, PaddedRows(workload).is_direct
    if kind != "float" or not workload.types.is_requantised:
        return False
    if workload.out_width == 1 and not is_direct:
        # TVM would store outputs of such rows one by one
        return False
    able = (*_STEPS, "add") if is_direct else _STEPS
    return all(step.kind in able for step in workload.epilogue)


@dataclass(frozen=True)
class PaddedRows:
    """The copy of a layer's image, and the positions of its outputs."""

    workload: Conv2dWorkload

    @property
    def phases(self) -> tuple[int, int]:
        """Copies along rows and columns: one for each position of a stride that windows read."""
        w = self.workload
        return w.stride_h if w.kernel_h > 1 else 1, w.stride_w if w.kernel_w > 1 else 1

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from an output's first position to its last one, in copies."""
        w, (down, right) = self.workload, self.phases
        rows, columns = (w.kernel_h - 1) * w.dilation_h, (w.kernel_w - 1) * w.dilation_w
        return rows // down, columns // right

    @property
    def pitch(self) -> int:
        """Positions of a row of the copy."""
        return self.workload.out_width + self.reach[1]

    @property
    def positions(self) -> int:
        """Positions of a computed image, a multiple of :data:`GROUP`."""
        w = self.workload
        return -(-((w.out_height - 1) * self.pitch + w.out_width) // GROUP) * GROUP

    @property
    def rows(self) -> int:
        """Rows of the copy."""
        down, right = self.reach
        return -(-(self.positions + right) // self.pitch) + down

    @property
    def is_direct(self) -> bool:
        """Whether the image itself has the form of the copy, and outputs have no surplus columns.

        That are 1x1 layers without stride and padding whose pixels are a multiple of four.
        """
        w = self.workload
        plain = not w.has_padding and (w.stride_h, w.stride_w) == (1, 1)
        pixels = w.out_height * w.out_width
        return plain and (w.kernel_h, w.kernel_w) == (1, 1) and pixels % GROUP == 0

    def copy_shape(self, machine: Machine) -> tuple[int, ...]:
        """``(N, C/c, phases, rows, pitch, c)`` of the copy."""
        w, lanes = self.workload, machine.channel_block
        blocks = machine.blocks(w.in_channels)
        return (w.batch, blocks, prod(self.phases), self.rows, self.pitch, lanes)

    def output_shape(self, machine: Machine) -> tuple[int, ...]:
        """``(N, K/c, positions, c)`` of the computed positions."""
        w = self.workload
        return (w.batch, machine.blocks(w.out_channels), self.positions, machine.channel_block)

    def sums_shape(self, machine: Machine) -> tuple[int, ...]:
        """``(N, K/c, 4, positions/4, c)`` of accumulators in memory."""
        planes, blocks, positions, lanes = self.output_shape(machine)
        return (planes, blocks, GROUP, positions // GROUP, lanes)

    def workspace_bytes(self, machine: Machine) -> int:
        """Bytes of the copy, and of outputs with their surplus columns or of accumulators."""
        copied = 0 if self.is_direct else prod(self.copy_shape(machine))
        outputs = prod(self.output_shape(machine))
        if not rounds_in_tiles(self.workload):
            return copied + outputs * itemsize(self.workload.types.accumulator)
        return 0 if self.is_direct else copied + outputs


def compute(given: Operands, name: str, oc: int) -> list[Tensor]:
    """Blocks ``copy``, ``conv2d``, ``output`` and ``unflatten`` of a layer; see the module.

    A layer for which :attr:`PaddedRows.is_direct` holds has no ``copy``. ``unflatten`` is of layers
    that are rounded in tiles. ``name`` is the algorithm, and ``oc`` the output blocks of a group of
    packed weights.
    """
    from tvmconv.tvm_api import te

    w, machine = given.workload, given.machine
    rows, factors, pitch = PaddedRows(w), Factors(given), PaddedRows(w).pitch
    down, right = rows.phases
    image = None if rows.is_direct else _copy(given, rows)
    cb = te.reduce_axis((0, input_span(w, machine)), "cb")
    r, s, c = reduction_axes(r=w.kernel_h, s=w.kernel_w, c=1)
    row, column = r * w.dilation_h, s * w.dilation_w

    def multiply(n: Expr, kb: Expr, q: Expr, k: Expr) -> Expr:
        block = first_block(w, machine, kb) + cb
        if image is None:
            value = factors.value(given.data, (n, block, q // pitch, q % pitch, c))
        else:
            read = q + row // down * pitch + column // right
            phase = row % down * right + column % right
            value = factors.value(image, (n, block, phase, read // pitch, read % pitch, c))
        weight = factors.weight(kb // oc, r, s, cb, c, kb % oc, k)
        return given.summed(factors.product(value, weight), [r, s, cb, c], (n, kb, 0, 0, k))

    attributes = {"tvmconv.algorithm": name}
    if not rounds_in_tiles(w):

        def accumulate(n: Expr, kb: Expr, i: Expr, four: Expr, k: Expr) -> Expr:
            return multiply(n, kb, four * GROUP + i, k)

        def read(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            q = h * pitch + x
            return sums[n, kb, q % GROUP, q // GROUP, k]

        sums = te.compute(rows.sums_shape(machine), accumulate, name="conv2d", attrs=attributes)
        return given.arguments(given.output(read, begun=True))
    shape = rows.output_shape(machine)
    total = te.compute(shape, multiply, name="conv2d", attrs=attributes)

    def finish(n: Expr, kb: Expr, q: Expr, k: Expr) -> Expr:
        place = (n, kb, q // pitch, q % pitch, k)
        return given.finished(total[n, kb, q, k], place, begun=True)

    output = te.compute(shape, finish, name="output")
    return given.arguments(given.unflattened(lambda *place: output[place], pitch))


def _copy(given: Operands, rows: PaddedRows) -> Tensor:
    """Block ``copy``: phases of the image with its padding."""
    from tvmconv.tvm_api import te

    w, right = given.workload, rows.phases[1]
    zero = None if given.zero is None else given.zero[0]

    def value(n: Expr, cb: Expr, phase: Expr, i: Expr, j: Expr, c: Expr) -> Expr:
        y = i * w.stride_h + phase // right - w.pad_top
        x = j * w.stride_w + phase % right - w.pad_left
        tests = [y >= 0, y < w.in_height, x >= 0, x < w.in_width]
        return zero_unless(tests, given.data[n, cb, y, x, c], zero)

    return te.compute(rows.copy_shape(given.machine), value, name=COPY)
