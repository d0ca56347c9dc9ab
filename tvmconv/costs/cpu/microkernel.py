"""The register tile of every dense kernel: its registers and cycles.

One step of the reduction loads ``vectors`` vectors of one operand (weights, or columns of B). It
broadcasts ``rows`` values of the other operand (pixels, or rows of A), and multiplies all pairs.
Its schedule is ``schedules/common/microkernel.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.core.errors import ConfigError
from tvmconv.costs.cpu import constants
from tvmconv.machines.record import Machine

# instructions that convert a vector of accumulators to 8 bits
ROUNDING = 8
# registers for vectors of the other operand if LLVM orders sums: one in use, two ahead
ORDERED = 3
# FMAs of a load below which FMAs wait for some loads
_SERVED = 3


@dataclass(frozen=True)
class Microkernel:
    """A register tile of ``rows`` by ``vectors`` accumulators on one machine.

    A step broadcasts ``rows`` values: pixels, or rows of the first matrix. It loads ``vectors``
    vectors: blocks of output channels, or columns of the second matrix. ``rate`` is products in a
    cycle, of dwords for integer types; 0 for FP32. An operand has ``dwords`` dwords. ``read``
    counts loaded vectors in a step whose lanes are factors; by default rows over lanes. If lanes
    select a value, a row has ``groups`` values.
    """

    machine: Machine
    rows: int
    vectors: int
    rate: float = 0.0
    dwords: int = 1
    read: float | None = None
    groups: int = 1

    @property
    def registers(self) -> int:
        """Accumulators, the vectors of one step, and one broadcast value."""
        return self.rows * self.vectors + self.vectors + 1

    def block_registers(self, pixels: int) -> int:
        """Registers if the steps of a channel block are unrolled.

        The compiler moves loads ahead of the steps, and keeps so many vectors of pixels in addition
        to :attr:`registers`. In LLVM's code of 86 tiles, no tile within this limit spilled.
        """
        code = self.machine.code
        if code.orders_sums:
            return self.rows * self.vectors + pixels + ORDERED
        return self.registers + (pixels + code.loads_ahead if code.by_lane else 0)

    def step_cycles(self, folded: float = 1.0) -> float:
        """Cycles of one step: the maximum of FMAs, their latency, and loads.

        ``folded`` is a share of the additional cost of a broadcast inside an FMA. Only tiles of one
        vector have such broadcasts. Others share a broadcast, which is a separate instruction.
        """
        machine = self.machine
        loads = machine.load_cycles(self.vectors, self.rows * self.groups)
        if machine.code.by_lane:
            # one load of spread values serves as many steps as it has lanes
            loads = self.dwords * machine.load_cycles(self._loaded, 0)
        elif self.vectors == 1:
            loads *= folded * machine.code.folded_broadcast
        multiplied = self.rows * self.vectors / (self.rate or machine.rates.multiply_adds)
        if self.rate:
            multiplied += machine.code.loads_block * self.dwords * self._loaded
        elif machine.code.orders_sums:
            few = self.rows * self.vectors < _SERVED * self._loaded
            crowded = constants.CROWDED if few else 1
            multiplied += crowded * machine.code.loads_block / 2 * self._loaded
        # each further value of a row is selected for every vector, by other units
        selected = self.rows * self.vectors * (self.groups - 1) / machine.rates.multiply_adds
        waiting = 0.0
        if machine.fma_units > 1 and not (self.rate or machine.code.by_lane):
            # with as many sums as hide the latency, FMAs wait for a unit while another one is idle
            apart = abs(multiplied / machine.fma_latency - 1)
            waiting = constants.WAITING * machine.fma_latency * max(0.0, 1 - 2 * apart)
        return max(max(multiplied, machine.fma_latency) + waiting, selected, loads)

    @property
    def _loaded(self) -> float:
        """Vectors of both operands that are loaded in a step."""
        read = self.rows / self.machine.lanes if self.read is None else self.read
        return self.vectors + read

    def cycles(self, steps: int, folded: float = 1.0, stored: float = 1.0) -> float:
        """Cycles of one tile over a whole reduction, its rows in L1.

        ``folded`` is as in :meth:`step_cycles`. ``stored`` is the share of the stores that shows.
        If half of L1 does not hold the loaded vectors of all steps, every tile reads them from L2.
        """
        step = self.step_cycles(folded)
        loaded = self.dwords * self.machine.vector_bytes * self.vectors
        unrolled = self.machine.channel_block if self.machine.code.by_lane else 1
        if loaded * steps > self.machine.l1d_bytes // 2:
            step += constants.L2_SHOWN * loaded / self.machine.rates.l2
        accumulators = self.rows * self.vectors
        return (
            steps * (step + constants.STEP_CYCLES / unrolled)
            + constants.TILE_CYCLES
            + stored * constants.STORE_CYCLES * accumulators
        )


def most_rows(machine: Machine, vectors: int) -> int:
    """Rows of the tallest tile of so many vectors; a broadcast has a register, too."""
    return (machine.vector_registers - vectors - 1) // vectors


def most_pixels(machine: Machine, vectors: int, spare: int = 0) -> int:
    """Rows of the tallest tile, by :meth:`Microkernel.block_registers`."""
    each = vectors + int(machine.code.by_lane)
    if machine.code.orders_sums:
        return (machine.vector_registers - ORDERED - spare) // each
    spare += machine.code.loads_ahead
    return (machine.vector_registers - vectors - 1 - spare) // each


def check_registers(machine: Machine, needed: int, tile: str) -> None:
    """Raise :class:`ConfigError` if a register tile, named ``tile``, does not fit."""
    if needed > machine.vector_registers:
        raise ConfigError(
            f"{tile} needs {needed} vector registers. Expected at most {machine.vector_registers}, "
            f"as {machine.name} has. Use a smaller tile."
        )
