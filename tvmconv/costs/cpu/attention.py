"""When attention as one function is faster than two products and a softmax, and its tile.

Both forms have the same FMAs and exponentials. The separate functions write the scores and read
them four times, from L2, L3 or memory. The one function copies queries and values.
"""

from __future__ import annotations

from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.microkernel import Microkernel, most_rows
from tvmconv.costs.cpu.products import product_cycles, tiled_cycles
from tvmconv.machines.record import Machine
from tvmconv.operators.attention_form import Attention, AttentionTile

# narrowest and widest register tiles, in vectors
_WIDE, _MOST_VECTORS = 2, 4
# Passes over stored scores: the product writes, the softmax reads three times and writes twice, and
# the second product reads.
_PASSES = 7
# passes over the scores of some rows: one write fewer, without the division
_OWN_PASSES = 6
# tasks of a thread that balance its load
_TASKS = 4
_FLOAT_BYTES = 4


def attention_tile(form: Attention, machine: Machine) -> AttentionTile:
    """The rows, vectors and tasks with the fewest cycles.

    Scores of many rows leave L1. On Zen 5, 12 rows of 1500 scores took 0.98 of the time of 14.
    """
    rows, _, _, width = form.sizes
    keys, values = (-(-size // machine.lanes) for size in (form.sizes[2], width))
    line = keys * machine.vector_bytes
    tiles = [
        (height, min(across, keys), min(deep, values))
        for across in range(_WIDE, _MOST_VECTORS + 1)
        for deep in range(_WIDE, _MOST_VECTORS + 1)
        for height in range(1, min(rows, *(most_rows(machine, n) for n in (across, deep))) + 1)
    ]

    def cycles(tile: tuple[int, int, int]) -> tuple[float, int]:
        beyond = max(0, tile[0] * line - machine.l1d_bytes)
        passes = _OWN_PASSES * rows / tile[0] * beyond / machine.rates.l2
        return _product_cycles(form, machine, tile) + passes, -tile[0]

    best = min(tiles, key=cycles)
    return AttentionTile(*best, machine.lanes, _parts(form, machine, best[0]))


def _product_cycles(form: Attention, machine: Machine, tile: tuple[int, int, int]) -> float:
    """Cycles of both products of a head."""
    rows, depth, columns, width = form.sizes
    keys, values = (-(-size // machine.lanes) for size in (columns, width))
    first, second = (Microkernel(machine, tile[0], vectors) for vectors in tile[1:])
    return tiled_cycles(first, rows, keys, depth) + tiled_cycles(second, rows, values, columns)


def _parts(form: Attention, machine: Machine, height: int) -> int:
    """Tasks of a head: as few as give each thread nearly the same work."""
    cores, heads = machine.cores, form.heads
    most = max(1, form.sizes[0] // height // 2)
    for parts in range(1, min(most, cores) + 1):
        tasks = heads * parts
        if tasks % cores == 0 or tasks >= _TASKS * cores:
            return parts
    return min(most, cores)


def fused_cycles(form: Attention, tile: AttentionTile, machine: Machine) -> float:
    """Cycles of a head without its exponentials; uneven work of threads counts as more work."""
    rows, depth, columns, width = form.sizes
    keys, values = (-(-size // machine.lanes) for size in (columns, width))
    copies = constants.COPIED_VECTOR * tile.parts * (keys * depth + values * columns)
    rates, line = machine.rates, keys * machine.vector_bytes
    rate = rates.l1 if tile.rows * line <= machine.l1d_bytes // 2 else rates.l2
    # steps read and write a row once, and each reads its tensor
    steps = sum(2 + len(part) for part in (form.before, form.after) if part)
    passes = (_OWN_PASSES + steps) * rows * line / rate
    shape = (tile.rows, tile.score_vectors, tile.value_vectors)
    whole = _product_cycles(form, machine, shape) + copies + passes
    return whole * _imbalance(form.heads * tile.parts, machine)


def _imbalance(tasks: int, machine: Machine) -> float:
    """The tasks of the busiest thread over its share."""
    return -(-tasks // machine.cores) * machine.cores / tasks


def separate_cycles(form: Attention, machine: Machine) -> float:
    """Cycles of a head by separate functions, also without exponentials."""
    rows, depth, columns, width = form.sizes
    products = product_cycles(machine, rows, columns, depth)
    products += product_cycles(machine, rows, width, columns)
    size = _FLOAT_BYTES * rows * columns
    whole, rates = form.heads * size, machine.rates
    rate = rates.memory
    if whole <= machine.l2_bytes // 2:
        rate = rates.l2
    elif machine.l3_bytes and whole <= machine.l3_bytes // 2:
        rate = rates.l3
    # threads share the rows of fewer heads, else whole heads
    uneven = _imbalance(form.heads, machine) if form.heads >= machine.cores else 1.0
    # steps before the softmax are merged into the product, later ones are passes
    steps = len(form.before) + 2 * len(form.after)
    return uneven * products + (_PASSES + steps) * size / rate
