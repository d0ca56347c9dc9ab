"""TIR passes for Intel AMX: INT8 matrix products in tile registers."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.tir.amx.allocate_tiles import AllocateTiles
from tvmconv.tir.amx.software_pipeline import SoftwarePipeline
from tvmconv.tir.amx.tile_calls import TileCalls
from tvmconv.tir.stages import Passes, Stage


def passes(machine: Machine) -> Passes:
    """The passes that CPUs with AMX add to the pipeline."""
    if machine.tiles is None:
        return {}
    return {
        Stage.FLAT: [TileCalls()],
        Stage.MULTIPLIES: [AllocateTiles()],
        Stage.LOADS: [SoftwarePipeline()],  # after an epilogue's stores are joined
    }
