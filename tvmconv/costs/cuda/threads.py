"""Cycles of threads that sum what they read from caches, alone or some together."""

from __future__ import annotations

from tvmconv.costs.cuda import constants
from tvmconv.machines.cuda import CudaMachine


def sum_cycles(
    sums: int, terms: int, machine: CudaMachine, *, share: int = 1, window: bool = False
) -> float:
    """Threads wait for their loads, or more of them for the issue of instructions.

    Those that share a sum wait once more for each other.

    Parameters
    ----------
    sums, terms
        Results, and the products of each.
    machine
        The GPU.
    share
        Threads of each sum; of more than 1 they are a block.
    window
        Whether a product has to find its place in a window of several taps.
    """
    warps = -(-sums * share // machine.warp)
    of_one = -(-warps // machine.multiprocessors)
    resident = machine.threads // machine.warp
    if share > 1:
        resident = min(resident, machine.blocks_resident * share // machine.warp)
    rounds = -(-of_one // resident)
    each = constants.SUM_INSTRUCTIONS + (constants.SUM_PLACE if share > 1 and window else 0.0)
    issued = of_one * each / (machine.lanes / machine.warp)
    cycles = -(-terms // share) * max(rounds * constants.SUM_LATENCY, issued)
    return cycles + (rounds * constants.SUM_ADDING if share > 1 else 0.0)
