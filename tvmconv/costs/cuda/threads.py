"""Cycles of threads that sum what they read from caches, alone or some together."""

from __future__ import annotations

from tvmconv.costs.cuda import constants
from tvmconv.costs.cuda.memory import issued_lanes
from tvmconv.machines.cuda import CudaMachine


def sum_cycles(
    sums: int,
    terms: int,
    machine: CudaMachine,
    *,
    threads: int = 1,
    share: int = 1,
    window: bool = False,
    sectors: int = 0,
) -> float:
    """Threads wait for their loads, or for the issue of instructions if there are many.

    Each of the ``sums`` adds so many ``terms``. Without sharing, the last block of ``threads`` may
    have fewer sums than threads. Its test is then in the loop, and every load waits for the
    previous one.

    With ``share`` above 1, a block of so many threads shares each sum, and its threads wait for
    each other. A GPU starts about one block in a cycle. A block reads so many ``sectors`` of L2.
    With ``window``, a product has to find its place in a window of several taps.
    """
    warps = -(-sums * share // machine.warp)
    of_one = -(-warps // machine.multiprocessors)
    resident = machine.threads // machine.warp
    if share > 1:
        resident = min(resident, machine.blocks_resident * share // machine.warp)
    rounds = -(-of_one // resident)
    each = constants.SUM_INSTRUCTIONS + (constants.SUM_PLACE if share > 1 and window else 0.0)
    issued = of_one * each / (issued_lanes(machine) / machine.warp)
    latency = constants.SUM_TESTED if share == 1 and sums % threads else constants.SUM_LATENCY
    cycles = -(-terms // share) * max(rounds * latency, issued)
    if share == 1:
        return cycles
    reading = sums * sectors * constants.SECTOR / machine.l2_rate
    return max(cycles + rounds * constants.SUM_ADDING, sums * constants.SUM_BLOCK, reading)
