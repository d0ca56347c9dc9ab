"""How the products of a recurrent layer are cut into register tiles and tasks."""

from __future__ import annotations

from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.microkernel import Microkernel
from tvmconv.costs.cpu.products import best_tile
from tvmconv.machines.record import Machine
from tvmconv.operators.recurrent import RecurrentTile
from tvmconv.operators.recurrent_form import RecurrentForm

# MACs of a task below which waking a thread costs more than its share of the work
_HEAVY = 1 << 16
# most vectors of a tile of one sequence: more sums hide no more latency
_WIDEST = 8


def recurrent_tiles(form: RecurrentForm, batch: int, machine: Machine) -> list[RecurrentTile]:
    """The products of one step for so many sequences.

    GRU's last gate is a second product if the reset gate multiplies the hidden state before it.
    """
    whole = form.gates * form.hidden
    cuts = [(0, whole)]
    if form.cell == "gru" and not form.reset_after:
        cuts = [(0, 2 * form.hidden), (2 * form.hidden, form.hidden)]
    return [_tile(first, count, form.hidden, batch, machine) for first, count in cuts]


def _tile(first: int, count: int, hidden: int, batch: int, machine: Machine) -> RecurrentTile:
    lanes = machine.lanes
    if count < lanes:
        # the widest vector that all columns fill
        return RecurrentTile(first, count, 1, 1, 1 << (count.bit_length() - 1))
    present = count // lanes
    if batch == 1:
        return RecurrentTile(first, count, 1, _row_vectors(count, hidden, machine), lanes)
    tile = best_tile(machine, batch, count, hidden)
    return RecurrentTile(first, count, min(tile.rows, batch), min(tile.vectors, present), lanes)


def _row_vectors(count: int, hidden: int, machine: Machine) -> int:
    """Vectors of a tile of one sequence with the fewest cycles; the most of equals.

    Weights come from L2 or beyond, as fast for every tile: each is read once a step.
    """
    lanes = machine.lanes

    def cycles(tile: Microkernel) -> tuple[float, int]:
        blocks = -(-count // (tile.vectors * lanes))
        step = tile.step_cycles() + constants.STEP_CYCLES
        return blocks * (hidden * step + constants.TILE_CYCLES), -tile.vectors

    tiles = [Microkernel(machine, 1, each) for each in range(1, min(_WIDEST, count // lanes) + 1)]
    fitting = [t for t in tiles if t.block_registers(1) <= machine.vector_registers]
    return min(fitting, key=cycles).vectors


def sequence_groups(form: RecurrentForm, steps: int, batch: int, machine: Machine) -> int:
    """Groups of sequences that threads share, a divisor of the batch."""
    share = machine.cores // form.directions
    heavy = max(1, form.multiply_adds(steps, batch) // form.directions // _HEAVY)
    most = max(1, min(share, heavy))
    return next(count for count in range(most, 0, -1) if batch % count == 0)
