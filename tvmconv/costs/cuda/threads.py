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
    """Threads wait for their loads, or more of them for the issue of instructions.

    Where each thread has its own sum, the last block may have fewer sums than threads. Its test is
    then in the loop, and every load waits for the one before. Threads that share a sum also wait
    for each other. Each such sum is a block: a GPU starts about one block in a cycle. It reads the
    sectors of its input from L2.

    Parameters
    ----------
    sums, terms
        Results, and the products of each.
    machine
        The GPU.
    threads
        Threads of a block, where none share a sum.
    share
        Threads of each sum. If there are several, they are a block.
    window
        Whether a product has to find its place in a window of several taps.
    sectors
        Sectors of L2 that hold the input of a sum that threads share.
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
