"""How the products of a recurrent layer are cut into register tiles and tasks."""

from __future__ import annotations

from tvmconv.costs.cpu.products import best_tile, hiding_vectors
from tvmconv.machines.record import Machine
from tvmconv.operators.recurrent import RecurrentTile
from tvmconv.operators.recurrent_form import RecurrentForm

# MACs of a task below which waking a thread costs more than its share of the work
_HEAVY = 1 << 16


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
    lanes = machine.vector_bytes // 4
    if count < lanes:
        # the widest vector that all columns fill
        return RecurrentTile(first, count, 1, 1, 1 << (count.bit_length() - 1))
    present = count // lanes
    if batch == 1:
        return RecurrentTile(first, count, 1, min(hiding_vectors(present, machine), present), lanes)
    tile = best_tile(machine, batch, count, hidden)
    return RecurrentTile(first, count, min(tile.rows, batch), min(tile.vectors, present), lanes)


def sequence_groups(form: RecurrentForm, steps: int, batch: int, machine: Machine) -> int:
    """Groups of sequences that threads share, a divisor of the batch."""
    share = machine.cores // form.directions
    heavy = max(1, form.multiply_adds(steps, batch) // form.directions // _HEAVY)
    most = max(1, min(share, heavy))
    return next(count for count in range(most, 0, -1) if batch % count == 0)
