"""The cost model of im2win by scalable vectors: gathers from strips, and the copy into them."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.algorithms.gemm.im2win import columns
from tvmconv.core.config import Config
from tvmconv.costs.cpu import constants as cpu_constants
from tvmconv.costs.scalable.direct import SegmentModel


@dataclass(frozen=True)
class StripModel(SegmentModel):
    """Costs of tiles of ``oc`` output blocks by some vectors of a row's positions.

    Neighboring positions are ``kh`` values apart in a strip, so that vectors are gathered.
    """

    @property
    def rows(self) -> int:
        """Runs of positions: each row has its own strip."""
        return self.workload.out_height

    @property
    def run(self) -> int:
        """Positions of a run."""
        return self.workload.out_width

    @property
    def gathers(self) -> bool:
        """Whether positions of a vector are not neighbors in a strip."""
        return self.workload.kernel_h > 1 or self.workload.stride_w > 1

    def parts(self, config: Config) -> dict[str, float]:
        """The parts of direct convolution, and the copy into strips as transforms."""
        w, machine = self.workload, self.machine
        copied = w.batch * w.out_height * columns(w) * w.kernel_h * machine.blocks(w.in_channels)
        regions = w.batch * (w.out_height // config.int("rows"))
        idle = -(-regions // machine.cores) * machine.cores / regions
        parts = {
            "arithmetic": self.cycles(config.int("oc"), config.int("vectors")) / machine.cores,
            "weights": cpu_constants.STRIP_WEIGHTS * self._tiles.weight_cycles,
            "transforms": cpu_constants.STRIP_COPY * copied / machine.cores,
        }
        return {name: cycles * idle for name, cycles in parts.items()}
