"""Cycles of threads that sum by themselves what they read from caches."""

from __future__ import annotations

from tvmconv.machines.cuda import CudaMachine

# Of one product: instructions (two loads, their addresses and bounds, the multiply-add), and the
# cycles until a thread goes on to the next, most of them a load's from L1. Both are assumed.
_INSTRUCTIONS, _LATENCY = 10.0, 25.0


def own_sum_cycles(sums: int, terms: int, machine: CudaMachine) -> float:
    """Threads wait for their loads, or more of them for the issue of instructions.

    Parameters
    ----------
    sums, terms
        Threads, each with a sum, and the products of one.
    machine
        The GPU.
    """
    warps = -(-sums // machine.warp)
    of_one = -(-warps // machine.multiprocessors)
    resident = machine.threads // machine.warp
    rounds = -(-of_one // resident)
    issued = of_one * _INSTRUCTIONS / (machine.lanes / machine.warp)
    return terms * max(rounds * _LATENCY, issued)
