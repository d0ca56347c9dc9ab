"""How matrix products are cut into register tiles: one rule for gemm, matmul, dense and im2col.

gemm and im2col pack a block of rows that stays in L2 (:mod:`~tvmconv.costs.cpu.panel_blocks`). A
matmul packs all columns. A fully connected layer packs nothing in a call and reads every weight
once. A single row then waits for memory, not for FMAs, and has a separate rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil, gcd, prod

from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct import pieces
from tvmconv.costs.cpu.microkernel import Microkernel, most_pixels, most_rows
from tvmconv.costs.cuts import balanced
from tvmconv.machines.record import Machine
from tvmconv.operators.dense import DenseTile

# Two vectors of columns share each broadcast and leave registers for the most rows. If all rows fit
# one tile, four vectors give enough independent accumulators to hide the latency of an FMA.
_WIDE, _WIDEST = 2, 4
# the widest tile whose last tile may be narrower: more vectors leave too few rows for each
_MOST_VECTORS = 6
# minimum and maximum rows of a tile of scalable vectors, if a layer has them: six rows spilled
_SCALABLE_ROWS = 3, 5
# MACs of a layer below which waking a thread costs more than its share of the work
_HEAVY = 1 << 16


def heights(rows: int, most: int, count: int) -> list[int]:
    """Heights of a tile worth comparing: even cuts by the tallest and by ``count`` next heights.

    The last tile is filled up if the height does not divide the rows. ``most`` are the rows of the
    tallest tile, see :func:`~tvmconv.costs.cpu.microkernel.most_rows`.
    """
    return sorted({balanced(rows, max(1, most - less)) for less in range(count)})


def best_tile(
    machine: Machine,
    rows: int,
    columns: int,
    steps: int,
    tallest: Callable[[Machine, int], int] = most_rows,
) -> Microkernel:
    """The register tile that computes a product in the fewest cycles, edges filled up.

    ``rows`` and ``columns`` are of the result, and ``steps`` of the reduction in registers.
    ``tallest`` gives the maximum rows of a tile of so many vectors.
    """
    lanes = machine.lanes
    present = -(-columns // lanes)
    widths = {min(_WIDE, present)}
    if rows <= tallest(machine, _WIDEST):
        widths.add(min(_WIDEST, present))
    tiles = [
        Microkernel(machine, height, vectors)
        for vectors in widths
        for height in heights(rows, tallest(machine, vectors), 3)
    ]

    def cycles(tile: Microkernel) -> float:
        count = -(-rows // tile.rows) * -(-columns // (tile.vectors * lanes))
        return count * (tile.cycles(steps) + constants.PRODUCT_STEP * steps)

    return min(tiles, key=lambda tile: (cycles(tile), tile.vectors, -tile.rows))


def product_tile(
    machine: Machine,
    rows: int,
    columns: int,
    steps: int,
    tallest: Callable[[Machine, int], int] = most_rows,
    part: Callable[[int, int], float] = lambda _tall, _wide: 1.0,
) -> Microkernel:
    """The register tile of a product whose last tiles have code of their own for the rest.

    ``part`` gives the part that the busiest thread has of so many tiles along rows and along
    columns. For the other arguments see :func:`best_tile`.
    """
    present = -(-columns // machine.lanes)
    tiles = [
        Microkernel(machine, height, vectors)
        for vectors in range(min(present, _WIDE), min(present, _MOST_VECTORS) + 1)
        for height in range(1, min(rows, tallest(machine, vectors)) + 1)
    ]

    def cycles(tile: Microkernel) -> float:
        mine = part(-(-rows // tile.rows), -(-present // tile.vectors))
        return mine * tiled_cycles(tile, rows, present, steps)

    return min(tiles, key=lambda tile: (cycles(tile), tile.vectors, -tile.rows))


def product_cycles(machine: Machine, rows: int, columns: int, steps: int) -> float:
    """Cycles of a product of two run-time matrices on one core, with its copy of columns."""
    present = -(-columns // machine.lanes)
    tile = product_tile(machine, rows, columns, steps)
    return tiled_cycles(tile, rows, present, steps) + constants.COPIED_VECTOR * present * steps


def tiled_cycles(tile: Microkernel, rows: int, present: int, steps: int) -> float:
    """Cycles of all tiles of ``rows`` rows and ``present`` vectors of columns."""
    return sum(
        count * across * replace(tile, rows=height, vectors=vectors).cycles(steps)
        for count, height in pieces(rows, tile.rows)
        for across, vectors in pieces(present, tile.vectors)
    )


def dense_tile(rows: int, inputs: int, outputs: int, machine: Machine) -> DenseTile:
    """The tile of a fully connected layer, and the parts of its sums that threads share.

    The product is ``(rows, inputs) x (inputs, outputs)``.
    """
    lanes, product = machine.lanes, (rows, inputs, outputs)
    height, vectors = 1, _streamed_vectors(outputs, machine)
    if machine.vector.scalable and machine.segments > 1:
        height, vectors = _scalable_tile(rows, -(-outputs // lanes), machine)
    elif rows > 1:
        tallest = partial(_dense_rows, inputs)
        part = partial(_busiest_part, machine, product)
        tile = product_tile(machine, rows, outputs, inputs, tallest, part)
        height, vectors = tile.rows, tile.vectors
    tall, shared = -(-rows // height), -(-outputs // (vectors * lanes))
    if shares_rows(machine, product, tall, shared):
        shared = tall
    threads = _threads(machine, product)
    parts = (s for s in range(1, -(-threads // shared) + 1) if inputs % s == 0)
    splits = min(parts, key=lambda s: (_busiest(s * shared, threads), s))
    return DenseTile(height, vectors, splits, lanes)


def _busiest_part(machine: Machine, product: tuple[int, int, int], tall: int, wide: int) -> float:
    """The part of a layer's tiles that the busiest thread computes; for arguments see below."""
    shared = tall if shares_rows(machine, product, tall, wide) else wide
    return _busiest(shared, _threads(machine, product))


def shares_rows(machine: Machine, product: tuple[int, int, int], tall: int, wide: int) -> bool:
    """Whether threads share the tiles of rows, which divide more evenly than tiles of outputs.

    ``product`` are the rows, inputs and outputs of a layer, ``tall`` and ``wide`` the tiles along
    rows and outputs. Each thread then reads all weights, which L2 must hold, and which must be less
    than the data. Tiles of outputs prefetch weights, which is worth up to a tenth.
    """
    (rows, inputs, outputs), threads = product, _threads(machine, product)
    small = 4 * inputs * outputs <= machine.l2_bytes and outputs <= rows
    return small and 1.1 * _busiest(tall, threads) < _busiest(wide, threads)


def _threads(machine: Machine, product: tuple[int, int, int]) -> int:
    return machine.cores if prod(product) >= _HEAVY else 1


def _busiest(tiles: int, threads: int) -> float:
    return -(-tiles // threads) / tiles


def _dense_rows(inputs: int, machine: Machine, vectors: int) -> int:
    """Rows of the tallest tile of a fully connected layer.

    Rows that are a power of two apart share sets of L1, where weights need one way. Vectors that
    are multiplied by lane are read once for all their steps.
    """
    most = most_pixels(machine, vectors)
    if machine.code.by_lane:
        return most
    sets = machine.l1d_way_bytes // gcd(4 * inputs, machine.l1d_way_bytes)
    return max(1, min(most, machine.l1d_ways * sets - 1))


def _scalable_tile(rows: int, present: int, machine: Machine) -> tuple[int, int]:
    """Rows of a tile of scalable vectors, and segments of outputs out of ``present``.

    The vectors hide the latency of sums. If several rows share loads, there are up to four.
    """
    height = _scalable_height(rows)
    hiding = machine.fma_latency * machine.rates.multiply_adds * machine.vector.rate
    most = (machine.vector_registers - height - 2) // (height + 1)
    vectors = max(1, min(ceil(hiding / height), most))
    if height > 1:
        vectors = max(vectors, min(_WIDEST, most))
    return height, min(vectors * machine.segments, present)


def _scalable_height(rows: int) -> int:
    """The height that fills up the fewest rows."""
    fewest = min(rows, _SCALABLE_ROWS[0])
    heights_ = range(fewest, min(rows, _SCALABLE_ROWS[1]) + 1)
    return min(heights_, key=lambda h: (-(-rows // h) * h, -h))


def scalable_product(rows: int, columns: int, machine: Machine) -> tuple[int, int]:
    """Rows and vectors of a tile of scalable vectors of columns; (0, 0) for NEON code.

    Tiles have four vectors, or two if columns are few. LLVM did not spill four vectors in the
    tallest tiles of fully connected layers, but it spilled two and three.
    """
    present = columns // machine.lanes
    if not 1 < machine.segments <= present or rows < _SCALABLE_ROWS[0]:
        return 0, 0
    height = _scalable_height(rows)
    return height, _WIDEST if present > _WIDE * machine.segments else _WIDE


def _streamed_vectors(outputs: int, machine: Machine) -> int:
    """Vectors of a tile of one row: up to four, so that each core reads the same amount.

    By lane, data need few loads, and there are as many vectors as hide the latency of sums, within
    the registers.
    """
    present = -(-outputs // machine.lanes)
    if machine.code.by_lane:
        return _hiding_vectors(present, machine)
    most = min(_WIDEST, present)

    def longest(vectors: int) -> tuple[int, int]:
        blocks = -(-outputs // (vectors * machine.lanes))
        return -(-blocks // machine.cores) * vectors, -vectors

    return min(range(max(1, most // 2), most + 1), key=longest)


def _hiding_vectors(present: int, machine: Machine) -> int:
    """Vectors of one row with the fewest cycles for ``present`` vectors; the fewest of equals."""
    registers = machine.vector_registers

    def cycles(vectors: int) -> tuple[float, int]:
        tile = Microkernel(machine, 1, vectors)
        blocks = -(-present // vectors)
        return -(-blocks // machine.cores) * tile.step_cycles(), vectors

    fitting = (
        count
        for count in range(1, present + 1)
        if Microkernel(machine, 1, count).block_registers(1) <= registers
    )
    return min(fitting, key=cycles)
