"""Packs tiles of positions of pointwise layers as dwords, together with their complements.

A kernel that multiplies a tile of positions by one output block after the other reads the packed
tile from L1, contiguously. It reads a dword with or without complement, or with permuted bytes, at
no cost. Packing also makes strided positions contiguous.
"""

from __future__ import annotations

from tvmconv.algorithms.integer.saturation import DWORD, MASKS, ORDERS
from tvmconv.algorithms.operands import Operands
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# name of the block that packs
PACK = "pack"


def is_packable(workload: Conv2dWorkload) -> bool:
    """Whether each output position reads one input position."""
    return workload.kernel_h == workload.kernel_w == 1 and not workload.has_padding


def orders_packed(workload: Conv2dWorkload) -> int:
    """In how many byte permutations complements may be stored; 0 for none.

    Tiles may be packed in any number of permutations. A padded copy stores data without
    permutation.
    """
    return len(ORDERS) if is_packable(workload) else int(workload.has_padding)


def packs_tiles(workload: Conv2dWorkload, config: Config) -> bool:
    """Whether a kernel with parameter ``packed`` packs tiles of positions."""
    return is_packable(workload) and config.int("packed") > 0


def pixels_of(workload: Conv2dWorkload) -> int:
    """Positions of one image of the output."""
    return workload.out_height * workload.out_width


def dwords_of_block(machine: Machine) -> int:
    """Dwords of a channel block of one position."""
    return machine.channel_block // DWORD


def packed_dwords(workload: Conv2dWorkload, machine: Machine, pixels: int, orders: int) -> int:
    """Dwords of one tile of so many positions, with complements, in some byte permutations."""
    blocks = machine.blocks(workload.in_channels)
    return orders * len(MASKS) * blocks * pixels * dwords_of_block(machine)


def first_pixel(workload: Conv2dWorkload, tile: Index, pixels: int) -> Expr:
    """The first position of a packed tile; the last tile overlaps the one before to be full."""
    from tvmconv.tvm_api import tirx

    return tirx.min(tile * pixels, tirx.const(pixels_of(workload) - pixels, "int32"))


def packed_pixels(given: Operands, pixels: int, orders: int) -> Tensor:
    """Block ``pack``: ``(N, tiles, dwords)`` of int32.

    A tile's dwords are ``(orders, masks, C/c, pixels, c/4)``; the first mask is 0.
    """
    from tvmconv.operators.products import word
    from tvmconv.tvm_api import te

    w, machine = given.workload, given.machine
    lanes, dwords = machine.channel_block, dwords_of_block(machine)
    blocks, plane = machine.blocks(w.in_channels), w.in_height * w.in_width
    strided = (w.stride_h, w.stride_w) != (1, 1)

    def value(n: Expr, tile: Expr, place: Expr) -> Expr:
        part, block = place % dwords, place // (dwords * pixels) % blocks
        variant = place // (dwords * pixels * blocks)
        mask = variant % len(MASKS)
        pixel = first_pixel(w, tile, pixels) + place // dwords % pixels
        if strided:
            row, column = pixel // w.out_width, pixel % w.out_width
            pixel = row * (w.stride_h * w.in_width) + column * w.stride_w
        # an index beyond the end of a dimension is in the next one
        read = word(given.data[n, 0, 0, 0, (block * plane + pixel) * lanes + part * DWORD])
        if orders > 1:
            read = _ordered(read, variant // len(MASKS))
        # the last mask is the sum of the two before
        return read ^ (mask % 2 * MASKS[1] + mask // 2 * MASKS[2])

    tiles = -(-pixels_of(w) // pixels)
    return te.compute((w.batch, tiles, packed_dwords(w, machine, pixels, orders)), value, name=PACK)


def _ordered(read: Expr, order: Expr) -> Expr:
    """A dword with bytes permuted by one of :data:`ORDERS`; schedules make the index constant."""
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
    """A mask of the bytes that move down by so many positions."""
    from tvmconv.tvm_api import tirx

    mask = sum(0xFF << 8 * to for to, source in enumerate(places) if source - to == distance)
    return tirx.const(mask - (mask >> 31 << 32), "int32")
