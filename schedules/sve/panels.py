"""Packed panels that are as wide as a tile of scalable vectors."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.tir.sve.vectors import MOST_SEGMENTS
from tvmconv.tvm_api.types import BlockRV, Schedule


def make_room(
    schedule: Schedule, block: BlockRV, vectors: int, steps: int, machine: Machine
) -> None:
    """Let a buffer of panels end where a tile of the longest vectors may.

    Parameters
    ----------
    schedule
        Of the function.
    block
        Writes the panels, one of each segment: ``(..., panel, steps, lanes)``.
    vectors, steps
        Of the tile, and of each panel.
    machine
        The processor.
    """
    axis = len(schedule.get(block).writes[0].region) - 4
    whole = vectors * MOST_SEGMENTS * steps * machine.lanes
    schedule.storage_align(block, 0, axis, whole, 0)
