"""The register tile that every dense kernel runs: the registers it needs and the cycles it takes.

One step of the reduction loads ``vectors`` vectors of the one operand (weights, or columns of B),
broadcasts ``rows`` values of the other (pixels, or rows of A), and multiplies each with each. The
schedule of it is ``schedules/common/microkernel.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.core.errors import ConfigError
from tvmconv.costs.cpu import constants
from tvmconv.machines.record import Machine

# instructions that make 8 bits of a vector of sums
ROUNDING = 8
# registers for vectors of the other operand where sums are ordered: one in use, two ahead
ORDERED = 3
# FMAs of a load below which FMAs wait for some loads
_SERVED = 3


@dataclass(frozen=True)
class Microkernel:
    """A register tile of ``rows`` by ``vectors`` accumulators on one machine.

    Parameters
    ----------
    machine
        The processor.
    rows
        Values that are broadcast in a step: pixels, or rows of the first matrix.
    vectors
        Vectors that are loaded in a step: blocks of output channels, or columns of the second
        matrix.
    rate
        Multiply-adds in a cycle: of integers, those of their words. 0 for those of float32.
    words
        Words of 32 bits that each operand of a multiply-add has.
    read
        Vectors whose lanes are factors, of those that are loaded in a step; None for one of as many
        rows as it has lanes.
    halved
        Whether vectors are loaded in halves, if the machine's code does so.
    """

    machine: Machine
    rows: int
    vectors: int
    rate: float = 0.0
    words: int = 1
    read: float | None = None
    halved: bool = True

    @property
    def registers(self) -> int:
        """Accumulators, the vectors of one step, and one broadcast value."""
        return self.rows * self.vectors + self.vectors + 1

    def block_registers(self, pixels: int) -> int:
        """Registers where the steps of a channel block are written out.

        The compiler moves loads ahead of the steps: beside :attr:`registers` it keeps so many
        vectors of pixels. In LLVM's code of 86 tiles none that fits by this count spilled.
        """
        code = self.machine.code
        if code.orders_sums:
            return self.rows * self.vectors + pixels + ORDERED
        return self.registers + (pixels + code.loads_ahead if code.by_lane else 0)

    def step_cycles(self, folded: float = 1.0) -> float:
        """Cycles of one step: of multiply-adds, of their latency or of loads, whichever is most.

        Parameters
        ----------
        folded
            Share of what a broadcast inside a multiply-add costs more. A tile of one vector has
            such; where several vectors share a broadcast it is an instruction of its own.
        """
        machine = self.machine
        loads = machine.load_cycles(self.vectors, self.rows)
        if machine.code.by_lane:
            # one load of spread values serves as many steps as it has lanes
            loads = self.words * machine.load_cycles(self._loaded, 0)
        elif self.vectors == 1:
            loads *= folded * machine.code.folded_broadcast
        multiply_adds = self.rows * self.vectors / (self.rate or machine.rates.multiply_adds)
        if self.rate:
            multiply_adds += machine.code.loads_block * self.words * self._loaded
        elif machine.code.orders_sums and self.halved:
            few = self.rows * self.vectors < _SERVED * self._loaded
            multiply_adds += (
                (constants.CROWDED if few else 1) * machine.code.loads_block / 2 * self._loaded
            )
        return max(multiply_adds, machine.fma_latency, loads)

    @property
    def _loaded(self) -> float:
        """Vectors of both operands that are loaded in a step."""
        read = self.rows / self.machine.lanes if self.read is None else self.read
        return self.vectors + read

    def cycles(self, steps: int) -> float:
        """Cycles of one tile over a whole reduction, its rows in L1.

        Parameters
        ----------
        steps
            Steps of the reduction. Vectors of so many that half of L1 does not hold them come
            from L2 for every tile.
        """
        step, loaded = self.step_cycles(), self.words * self.machine.vector_bytes * self.vectors
        written_out = self.machine.channel_block if self.machine.code.by_lane else 1
        if loaded * steps > self.machine.l1d_bytes // 2:
            step += constants.L2_SHOWN * loaded / self.machine.rates.l2
        accumulators = self.rows * self.vectors
        return (
            steps * (step + constants.STEP_CYCLES / written_out)
            + constants.TILE_CYCLES
            + constants.STORE_CYCLES * accumulators
        )


def most_rows(machine: Machine, vectors: int) -> int:
    """Rows of the tallest tile of so many vectors; a broadcast has a register, too."""
    return (machine.vector_registers - vectors - 1) // vectors


def most_pixels(machine: Machine, vectors: int, spare: int = 0) -> int:
    """Rows of the tallest tile as above, by :meth:`Microkernel.block_registers`."""
    each = vectors + int(machine.code.by_lane)
    if machine.code.orders_sums:
        return (machine.vector_registers - ORDERED - spare) // each
    spare += machine.code.loads_ahead
    return (machine.vector_registers - vectors - 1 - spare) // each


def check_registers(machine: Machine, needed: int, tile: str) -> None:
    """Raise :class:`ConfigError` where a register tile, named ``tile``, does not fit."""
    if needed > machine.vector_registers:
        raise ConfigError(
            f"{tile} needs {needed} vector registers, {machine.name} has "
            f"{machine.vector_registers}; take a smaller tile"
        )
