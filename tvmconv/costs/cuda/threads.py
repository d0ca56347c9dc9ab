"""Cycles of threads that sum what they read from caches, alone or some together."""

from __future__ import annotations

from tvmconv.machines.cuda import CudaMachine

# Of one product: instructions (two loads, their addresses and bounds, the multiply-add), and the
# cycles until a thread goes on to the next, most of them a load's from L1. Where threads share a
# sum: more of them that find a tap's place in its window, and the cycles of adding up. All are
# assumed.
_INSTRUCTIONS, _LATENCY = 10.0, 25.0
_PLACE, _ADDING = 10.0, 200.0


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
    each = _INSTRUCTIONS + (_PLACE if share > 1 and window else 0.0)
    issued = of_one * each / (machine.lanes / machine.warp)
    cycles = -(-terms // share) * max(rounds * _LATENCY, issued)
    return cycles + (rounds * _ADDING if share > 1 else 0.0)
