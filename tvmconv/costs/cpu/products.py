"""How matrix products are cut into register tiles: one rule for gemm, matmul, dense and im2col.

What differs is what surrounds the tiles. gemm and im2col pack a block of rows that stays in L2
(:mod:`~tvmconv.costs.cpu.panel_blocks`); a matmul packs all columns; a fully connected layer packs
nothing in a call and reads every weight once, so that one row alone waits for memory rather than
for multiply-adds, and has a rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.microkernel import Microkernel, most_pixels, most_rows
from tvmconv.costs.cuts import balanced
from tvmconv.machines.record import Machine
from tvmconv.operators.dense import DenseTile

# Two vectors of columns share each broadcast and leave registers for the most rows. Four give rows
# that are few, and fit one tile, enough independent sums to hide the latency of a multiply-add.
_WIDE, _WIDEST = 2, 4
# fewest and most rows of a tile of scalable vectors, where a layer has them: of six some spilled
_SCALABLE_ROWS = 3, 5
# multiply-adds of a layer below which waking a thread costs more than its share of the work
_HEAVY = 1 << 16


def heights(rows: int, most: int, count: int) -> list[int]:
    """Heights of a tile that are worth comparing: even cuts by the tallest and the next ones.

    Parameters
    ----------
    rows
        Rows of the product; the last tile is filled up where the height does not divide them.
    most
        Rows of the tallest tile, see :func:`~tvmconv.costs.cpu.microkernel.most_rows`.
    count
        How many heights to cut by.
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

    Parameters
    ----------
    machine
        The processor.
    rows, columns
        Of the result.
    steps
        Of the reduction, as far as sums stay in registers.
    tallest
        The most rows of a tile of so many vectors.
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


def dense_tile(rows: int, inputs: int, outputs: int, machine: Machine) -> DenseTile:
    """The tile of a fully connected layer, and the parts of its sums that threads share.

    Parameters
    ----------
    rows, inputs, outputs
        The product is ``(rows, inputs) x (inputs, outputs)``.
    machine
        The processor.
    """
    lanes, cores = machine.lanes, machine.cores
    height, vectors = 1, _streamed_vectors(outputs, machine)
    if machine.vector.scalable and machine.segments > 1:
        height, vectors = _scalable_tile(rows, -(-outputs // lanes), machine)
    elif rows > 1:
        tile = best_tile(machine, rows, outputs, inputs, most_pixels)
        height, vectors = tile.rows, tile.vectors
    tasks = -(-outputs // (vectors * lanes)) * -(-rows // height)
    splits = 1
    if rows * inputs * outputs >= _HEAVY and tasks < cores:
        splits = next(s for s in range(-(-cores // tasks), 0, -1) if inputs % s == 0)
    return DenseTile(height, vectors, splits, lanes)


def _scalable_tile(rows: int, present: int, machine: Machine) -> tuple[int, int]:
    """Rows of a tile of scalable vectors, and segments of outputs, of which there are ``present``.

    Vectors are as many as hide the latency of sums, or four where several rows share what is
    loaded.
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
    """Rows and vectors of a tile of a product by scalable vectors of columns; (0, 0) for NEON's.

    Four vectors of the tallest tiles of a fully connected layer, which LLVM did not spill; those of
    two and three vectors it did. Two where the columns are so few.
    """
    present = columns // machine.lanes
    if not 1 < machine.segments <= present or rows < _SCALABLE_ROWS[0]:
        return 0, 0
    height = _scalable_height(rows)
    return height, _WIDEST if present > _WIDE * machine.segments else _WIDE


def _streamed_vectors(outputs: int, machine: Machine) -> int:
    """Vectors of a tile of one row: up to four, as many as give each core the same to read.

    Where multiply-adds take lanes, data take few loads and narrow vectors are no match for the
    latency of sums: there are as many vectors as hide it, within the registers.
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
    """Vectors of one row that take the fewest cycles of so many; the fewest of equals."""
    registers = machine.vector_registers

    def cycles(vectors: int) -> tuple[float, int]:
        tile = Microkernel(machine, 1, vectors)
        blocks = -(-present // vectors)
        return -(-blocks // machine.cores) * tile.step_cycles(), vectors

    fitting = (v for v in range(1, present + 1) if _row(machine, v) <= registers)
    return min(fitting, key=cycles)


def _row(machine: Machine, vectors: int) -> int:
    """Registers of a tile of one row."""
    return Microkernel(machine, 1, vectors).block_registers(1)
