"""TIR passes for Arm SVE: scalable vectors of positions, and dot products of fixed length."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.tir.stages import Passes, Stage
from tvmconv.tir.sve.dot_products import DotProducts
from tvmconv.tir.sve.vectorize_pixels import VectorizePixels


def passes(machine: Machine) -> Passes:
    """The passes that CPUs with SVE add to the pipeline, after NEON's passes of the same stage."""
    if "sve" not in machine.features:
        return {}
    return {Stage.MULTIPLIES: [DotProducts()], Stage.SCALABLE: [VectorizePixels()]}
