"""Direct convolution without tiles: the first two of the paper's three algorithms.

Zhang, Franchetti, Low (2018), Algorithms 1 and 2, on the layouts of :mod:`.direct`, which is
Algorithm 3. They show the gain of each step of the paper.
"""

from __future__ import annotations

from math import prod

from tvmconv.algorithms.base import images_only
from tvmconv.algorithms.direct.direct import WholeBlocks
from tvmconv.algorithms.operands import output_shape
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine


class DirectNaive(WholeBlocks):
    """Sums in memory; see :class:`~tvmconv.algorithms.direct.direct.Direct` for the rest."""

    name = "direct_naive"

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Volumes, which the paper does not have."""
        return super().unsuited(workload, machine) or images_only(workload)

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """All accumulators."""
        shape = output_shape(workload, machine)
        return itemsize(workload.types.accumulator) * prod(shape)
