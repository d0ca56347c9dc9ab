"""Packed panels that are as wide as a tile of scalable vectors."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.tir.sve.vectors import MOST_SEGMENTS
from tvmconv.tvm_api.types import BlockRV, Schedule


def make_room(
    schedule: Schedule, block: BlockRV, vectors: int, steps: int, machine: Machine
) -> None:
    """Extend a buffer of panels to the end of a tile of the longest vectors.

    ``block`` writes the panels, one for each segment: ``(..., panel, steps, lanes)``. A tile has
    ``vectors`` vectors, and a panel ``steps`` steps.
    """
    axis = len(schedule.get(block).writes[0].region) - 4
    whole = vectors * MOST_SEGMENTS * steps * machine.lanes
    schedule.storage_align(block, 0, axis, whole, 0)
