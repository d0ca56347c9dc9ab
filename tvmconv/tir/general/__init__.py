"""TIR passes for every CPU, and what the passes of all families share."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.tir.general.byte_tables import ByteTables
from tvmconv.tir.general.narrowing import Narrowing
from tvmconv.tir.stages import Passes, Stage


def passes(_: Machine) -> Passes:
    """What stands in for a family's passes where an architecture has none."""
    return {Stage.STORES: [Narrowing()], Stage.LOADS: [ByteTables()]}
