"""Softmax and log-softmax along the last axis by scalable vectors.

Maximum and sum of a row are kept in vectors whose segments are folded at its end; exponentials are
the polynomial that NEON code has, for as many values as a vector holds.
"""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.cpu import rows as neon
from tvmconv.tir.annotations import mark_segments
from tvmconv.tvm_api.types import PrimFunc, Schedule

# vectors at once: of sums, and whose exponentials stay in registers
_VECTORS = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a softmax whose rows are segments, and longer than a vector of each sum."""

    def width(extent: int) -> int:
        segments, rest = divmod(extent, machine.lanes)
        return machine.lanes if not rest and segments >= _VECTORS * machine.segments else 0

    def mark(schedule: Schedule, vectors: object) -> None:
        mark_segments(schedule, vectors, _VECTORS)

    found: Schedule | None = None
    if machine.segments > 1:
        found = neon.by_vectors(func, machine, width, mark)
    return found or neon.rule(func, machine)
