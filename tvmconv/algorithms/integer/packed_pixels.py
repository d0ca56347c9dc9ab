"""Tiles of pixels of pixelwise layers, packed as words beside complements of them.

A kernel that runs over a tile of pixels for one output block after the other reads it from the
first-level cache, in the order in which it lies, and takes a word with or without a complement, or
with its bytes in another order, at no cost. Pixels of a stride are neighbours then.
"""

from __future__ import annotations

from tvmconv.algorithms.integer.saturation import MASKS, ORDERS, WORD
from tvmconv.algorithms.operands import Operands
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# name of the block that packs
PACK = "pack"


def is_packable(workload: Conv2dWorkload) -> bool:
    """Whether each pixel of the output reads one of the input."""
    return workload.kernel_h == workload.kernel_w == 1 and not workload.has_padding


def orders_packed(workload: Conv2dWorkload) -> int:
    """In how many orders of words' bytes complements may lie beside data, 0 where none may.

    Tiles of pixels are packed in any; a copy with padding has that of the data alone.
    """
    return len(ORDERS) if is_packable(workload) else int(workload.has_padding)


def packs_tiles(workload: Conv2dWorkload, config: Config) -> bool:
    """Whether a kernel with knob ``packed`` packs tiles of pixels."""
    return is_packable(workload) and config.int("packed") > 0


def pixels_of(workload: Conv2dWorkload) -> int:
    """Pixels of one image of the output."""
    return workload.out_height * workload.out_width


def words_of_block(machine: Machine) -> int:
    """Words of a pixel's channel block."""
    return machine.channel_block // WORD


def packed_words(workload: Conv2dWorkload, machine: Machine, pixels: int, orders: int) -> int:
    """Words of one tile of so many pixels, with its complements, in some of their orders."""
    blocks = machine.blocks(workload.in_channels)
    return orders * len(MASKS) * blocks * pixels * words_of_block(machine)


def first_pixel(workload: Conv2dWorkload, tile: Index, pixels: int) -> Expr:
    """Where a packed tile begins: the last one has as many pixels as the others."""
    from tvmconv.tvm_api import tirx

    return tirx.min(tile * pixels, tirx.const(pixels_of(workload) - pixels, "int32"))


def packed_pixels(given: Operands, pixels: int, orders: int) -> Tensor:
    """Block ``pack``: ``(N, tiles, words)`` of int32.

    A tile's words lie as ``(orders, masks, C/c, pixels, c/4)``; the first of the masks is none.
    """
    from tvmconv.operators.products import word
    from tvmconv.tvm_api import te

    w, machine = given.workload, given.machine
    lanes, words = machine.channel_block, words_of_block(machine)
    blocks, plane = machine.blocks(w.in_channels), w.in_height * w.in_width
    strided = (w.stride_h, w.stride_w) != (1, 1)

    def value(n: Expr, tile: Expr, place: Expr) -> Expr:
        part, block = place % words, place // (words * pixels) % blocks
        variant = place // (words * pixels * blocks)
        mask = variant % len(MASKS)
        pixel = first_pixel(w, tile, pixels) + place // words % pixels
        if strided:
            row, column = pixel // w.out_width, pixel % w.out_width
            pixel = row * (w.stride_h * w.in_width) + column * w.stride_w
        # an index behind the last one of a dimension is one of the next
        read = word(given.data[n, 0, 0, 0, (block * plane + pixel) * lanes + part * WORD])
        if orders > 1:
            read = _ordered(read, variant // len(MASKS))
        # the last mask is the sum of those before
        return read ^ (mask % 2 * MASKS[1] + mask // 2 * MASKS[2])

    tiles = -(-pixels_of(w) // pixels)
    return te.compute((w.batch, tiles, packed_words(w, machine, pixels, orders)), value, name=PACK)


def _ordered(read: Expr, order: Expr) -> Expr:
    """A word with its bytes in one of :data:`ORDERS`, whose index schedules make a constant."""
    from tvmconv.tvm_api import tirx

    found = read
    for index, places in enumerate(ORDERS[1:], 1):
        value = read & _kept(places, 0)
        for distance in {source - place for place, source in enumerate(places)} - {0}:
            bits = 8 * abs(distance)
            moved = read << bits if distance < 0 else read >> bits
            value = value | (moved & _kept(places, distance))
        found = tirx.Select(order == index, value, found)
    return found


def _kept(places: tuple[int, ...], distance: int) -> Expr:
    """A mask of the bytes that come from so many places above."""
    from tvmconv.tvm_api import tirx

    mask = sum(0xFF << 8 * to for to, source in enumerate(places) if source - to == distance)
    return tirx.const(mask - (mask >> 31 << 32), "int32")
