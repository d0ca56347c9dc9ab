"""TIR passes for x86: AVX2, AVX-512 and VNNI."""

from __future__ import annotations

from tvmconv.machines.multiply import permuted_bytes
from tvmconv.machines.record import Machine
from tvmconv.tir.stages import Passes, Stage
from tvmconv.tir.x86.byte_tables import ByteTables
from tvmconv.tir.x86.dot_products import DotProducts
from tvmconv.tir.x86.in_place_extrema import InPlaceExtrema
from tvmconv.tir.x86.narrowing import Narrowing
from tvmconv.tir.x86.permuted_loads import PermutedLoads
from tvmconv.tir.x86.strided_loads import StridedLoads

_AVX2_BYTES = 32


def passes(machine: Machine) -> Passes:
    """The passes that x86 CPUs add to the pipeline."""
    extrema = [InPlaceExtrema()] if machine.vector_bytes <= _AVX2_BYTES else []
    return {
        Stage.MULTIPLIES: [DotProducts()],
        Stage.STORES: [Narrowing(), *extrema],
        Stage.LOADS: [PermutedLoads(), StridedLoads(), ByteTables(permuted_bytes(machine))],
    }
