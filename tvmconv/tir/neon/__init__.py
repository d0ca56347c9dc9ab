"""TIR passes for 64-bit Arm: NEON, and passes that code for SVE shares with it.

The files ``inorder_*`` are for cores that execute in order (Cortex-A53, Cortex-A55). The machine
model's ``halved_loads`` switches them on. No such core has run their code yet.
"""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.tir.neon.byte_tables import ByteTables
from tvmconv.tir.neon.dot_products import DotProducts
from tvmconv.tir.neon.extrema import Extrema
from tvmconv.tir.neon.first_terms import FirstTerms
from tvmconv.tir.neon.inorder_half_loads import InorderHalfLoads
from tvmconv.tir.neon.inorder_unroll import InorderUnroll
from tvmconv.tir.neon.long_indices import LongIndices
from tvmconv.tir.neon.matrix_products import MatrixProducts
from tvmconv.tir.neon.multiply_by_lane import MultiplyByLane
from tvmconv.tir.neon.narrowing import Narrowing
from tvmconv.tir.neon.neighbor_lanes import NeighborLanes
from tvmconv.tir.neon.paired_taps import PairedTaps
from tvmconv.tir.neon.zip_rows import ZipRows
from tvmconv.tir.stages import Passes, Stage


def passes(machine: Machine) -> Passes:
    """The passes that 64-bit Arm CPUs add to the pipeline."""
    code, ordered = machine.code, machine.code.orders_sums
    by_lane = code.by_lane
    return {
        Stage.MULTIPLIES: [
            MatrixProducts(),  # before the others, which match 32-bit dwords
            *([ZipRows()] if by_lane else []),
            PairedTaps(),
            *([NeighborLanes()] if by_lane else []),
            DotProducts(),
        ],
        Stage.STORES: [Narrowing(rounds_by_adding=code.slow_conversions)],
        Stage.LOADS: [
            ByteTables(),
            *([MultiplyByLane(machine.lanes)] if by_lane else []),
            *([InorderUnroll(ordered), InorderHalfLoads(ordered)] if code.halved_loads else []),
        ],
        Stage.LAST: [
            *([Extrema()] if code.extrema else []),
            FirstTerms(),
            LongIndices(),
        ],
    }
