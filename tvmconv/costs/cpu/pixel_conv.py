"""Register tiles and cycles of convolutions by vectors of pixels."""

from __future__ import annotations

from functools import lru_cache
from math import inf, prod

from tvmconv.algorithms.direct.direct import flattened
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.microkernel import Microkernel
from tvmconv.costs.cpu.products import product_cycles
from tvmconv.machines.record import Machine
from tvmconv.operators.pixel_conv import PixelTile, is_padded
from tvmconv.operators.tap_products import has_tap_products

# maximum accumulators of a row of a tile: these hide the latency of FMAs, and more gain nothing
_MOST_VECTORS = 16


@lru_cache(maxsize=1024)
def pixel_tile(
    workload: Conv2dWorkload,
    machine: Machine,
    phases: tuple[int, int] = (1, 1),
    *,
    divides: bool = False,
) -> PixelTile | None:
    """The tile with the fewest cycles within the registers; None if no tile fits.

    ``workload`` is flattened. ``phases`` are rows and columns of the squares of pixels to which
    outputs are interleaved. A tile holds whole rows of some squares. With ``divides``, tiles have
    to divide the outputs of a group.
    """
    each = workload.out_channels // workload.groups
    vectors = -(-workload.out_width // machine.lanes)
    registers = machine.vector_registers
    padded = is_padded(workload, machine.lanes)
    tiles = [
        PixelTile(outputs, count, machine.lanes)
        for outputs in range(1, min(each, registers) + 1)
        for count in range(1, min(vectors, _MOST_VECTORS) + 1)
        if outputs * count + count + 1 <= registers
        and (padded or vectors % count == 0)
        and _holds_rows(outputs, each, phases)
        and not (divides and each % outputs)
    ]
    return min(
        tiles, key=lambda tile: (_sums(workload, machine, tile), -tile.vectors), default=None
    )


def _holds_rows(outputs: int, each: int, phases: tuple[int, int]) -> bool:
    """Whether so many outputs are whole rows of a square, or whole squares."""
    rows, steps = phases
    if phases == (1, 1):
        return True
    whole = outputs % (rows * steps) == 0 or (rows * steps) % outputs == 0
    return whole and outputs % steps == 0 and each % outputs == 0


def pixel_cycles(
    workload: Conv2dWorkload,
    machine: Machine,
    phases: tuple[int, int] = (1, 1),
    *,
    divides: bool = False,
) -> float:
    """Cycles of one call on the machine's cores: sums, the padded copy, stores and weights.

    Infinite where no tile fits. ``divides`` is as in :func:`pixel_tile`.
    """
    w = flattened(workload) if phases == (1, 1) else workload
    tile = pixel_tile(w, machine, phases, divides=divides)
    if tile is None:
        return inf
    sums, results = _sums(w, machine, tile), w.batch * w.out_channels * w.out_height * w.out_width
    stored = itemsize(w.types.output) * results / machine.rates.behind_l2
    if phases != (1, 1):
        stored += constants.INTERLEAVED * results
    else:
        # as in direct convolution. 1x1 layers of 3 groups took 0.5 of predictions that added
        # stores to sums, and channel blocks with their layout changes 0.75
        stored = max(0.0, stored - sums)
    copied = 0.0
    if is_padded(w, machine.lanes):
        vectors = w.batch * w.in_channels * w.in_height * -(-w.in_width // machine.lanes)
        plain = 1.0 if _image_bytes(w) <= machine.l1d_bytes // 2 else constants.FAR_COPY
        copied = 2 * vectors * (constants.STRIDED_COPY if w.stride_w > 1 else plain)
    cores = min(machine.cores, w.batch * w.groups)
    # weights come from memory, as in direct convolution
    weights = itemsize(w.types.weight) * prod(w.weight_shape) / machine.rates.memory
    return (sums + copied + stored) / cores + weights / machine.cores


def _sums(w: Conv2dWorkload, machine: Machine, tile: PixelTile) -> float:
    vectors, taps = -(-w.out_width // machine.lanes), w.kernel_h * w.kernel_w
    steps = w.in_channels // w.groups * taps
    kernel = Microkernel(machine, tile.outputs, tile.vectors)
    # kernels of several columns read vectors that begin anywhere
    extra = (constants.MISALIGNED - 1) * tile.vectors * (w.kernel_w > 1)
    loads = machine.load_cycles(tile.vectors + extra, tile.outputs)
    single = w.kernel_h * w.kernel_w == 1
    folded = constants.WEIGHT_BROADCAST if single else 1
    stored = constants.PIXELS_STORED if single else 1
    waiting = max(0.0, loads - kernel.step_cycles(folded))
    tiles = w.batch * w.groups * -(-(w.out_channels // w.groups) // tile.outputs)
    count = tiles * w.out_height * -(-vectors // tile.vectors)
    return count * (kernel.cycles(steps, folded, stored) + steps * waiting) + tiles * _read(
        w, machine
    )


def _read(w: Conv2dWorkload, machine: Machine) -> float:
    """Cycles in which each tile of outputs reads the image of one group from beyond L1."""
    size = _image_bytes(w)
    if size <= machine.l1d_bytes // 2:
        return 0.0
    return size / (machine.rates.l2 if size <= machine.l2_bytes else machine.rates.behind_l2)


def _image_bytes(w: Conv2dWorkload) -> int:
    """Size of the image of one group."""
    return itemsize(w.types.data) * w.in_channels // w.groups * w.in_height * w.in_width


def scattered_cycles(shape: tuple[int, ...], machine: Machine) -> float:
    """Cycles of a depth-to-space of channel blocks that copies element by element.

    ``shape`` is of the result.
    """
    return constants.SCATTERED * prod(shape) / machine.cores


def interleaved_product_cycles(
    workload: Conv2dWorkload, machine: Machine, phases: tuple[int, int]
) -> float:
    """Cycles of a layer of single pixels as a product of matrices, then interleaved.

    Infinite without phases, and for other layers. The product has vectors of pixels of any rows,
    while :func:`pixel_cycles` begins a vector with each row.
    """
    w = workload
    unit = (w.kernel_h, w.kernel_w, w.stride_h, w.stride_w) == (1, 1, 1, 1)
    if phases == (1, 1) or not unit or w.has_padding or w.groups > 1:
        return inf
    pixels = w.out_height * w.out_width
    pairs = phases[1] <= 2
    moved = constants.PRODUCT_OF_PAIRS if pairs else constants.PRODUCT_OF_SQUARES
    product = product_cycles(machine, w.out_channels, pixels, w.in_channels)
    return w.batch * (product + moved * w.out_channels * pixels) / machine.cores


def window_cycles(workload: Conv2dWorkload, machine: Machine) -> float:
    """Cycles of a convolution as a product of its weights and windows, on one core.

    Infinite for groups.
    """
    w = workload
    if w.groups > 1:
        return inf
    taps, rows = w.in_channels * w.kernel_h * w.kernel_w, w.out_height
    moved = rows * -(-w.out_width // machine.lanes)
    moves = constants.STRIDED_COPY if w.stride_w > 1 else 1.0
    copied = constants.COPIED_VECTOR * moves * taps * moved
    columns = w.out_height * w.out_width
    return w.batch * (product_cycles(machine, w.out_channels, columns, taps) + copied)


def tap_product_cycles(workload: Conv2dWorkload, machine: Machine) -> float:
    """Cycles of a layer as a product of all taps with all pixels, whose sums are then added.

    Infinite for other layers than :func:`~tvmconv.operators.tap_products.has_tap_products`.
    """
    w = workload
    if not has_tap_products(w):
        return inf
    images, rows = w.batch * w.in_depth, w.kernel_d * w.kernel_h
    outputs, pixels = w.out_channels // w.groups, w.in_height * w.in_width
    taps = outputs * rows * w.kernel_w
    product = w.groups * product_cycles(machine, taps, pixels, w.in_channels // w.groups)
    vectors = -(-w.in_width // machine.lanes)
    # each row of products is added to one row of outputs, if that is inside of the image
    added = images * w.in_height * rows * (constants.TAP_ROW + w.kernel_w * vectors)
    finished = w.out_planes * w.out_height * (rows + w.kernel_w * (constants.TAP_ROW + vectors))
    sums = constants.TAP_VECTOR * w.out_channels * (added + finished)
    # products are written and read
    moved, rates = 2.0 * itemsize(w.types.output) * images * w.groups * taps * pixels, machine.rates
    far = moved > machine.last_cache_bytes
    moves = moved / (rates.memory if far else rates.behind_l2) if moved > machine.l2_bytes else 0.0
    return (images * product + sums + moves) / machine.cores


def outdoes(pixels: float, blocks: float, *, only_taps: bool) -> bool:
    """Whether a layer by vectors of pixels is faster than on channel blocks, by cycles of both.

    ``only_taps`` is whether the layer has no other form than a product of taps.
    """
    return pixels < blocks * (constants.TAP_SHARE if only_taps else 1.0)
