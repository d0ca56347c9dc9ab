"""TIR passes for every CPU, and what the passes of all families share."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.tir.general.byte_tables import ByteTables
from tvmconv.tir.general.dot_products import DotProducts
from tvmconv.tir.general.narrowing import Narrowing
from tvmconv.tir.stages import Passes, Stage


def passes(_: Machine) -> Passes:
    """The passes for architectures without a folder of their own."""
    return {
        Stage.MULTIPLIES: [DotProducts()],
        Stage.STORES: [Narrowing()],
        Stage.LOADS: [ByteTables()],
    }
