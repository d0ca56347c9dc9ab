"""The cost model of im2win: products of direct convolution, and a copy into strips."""

from __future__ import annotations

from tvmconv.algorithms.direct.channels import input_span
from tvmconv.algorithms.gemm.im2win import columns, region_rows
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.partition import Partition
from tvmconv.machines.record import Machine


def call_parts(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The products of :class:`TileModel`, and the copy into strips as transforms."""
    w = workload
    vectors = w.batch * w.out_height * columns(w) * w.kernel_h * machine.blocks(w.in_channels)
    regions = w.batch * -(-w.out_height // region_rows(w, config))
    idle = -(-regions // machine.cores) * machine.cores / regions
    model = TileModel(w, machine, skips=False)
    tile = (config.int(name) for name in ("oc", "oh", "ow"))
    # regions are bands of rows: no activations cross cores, and each thread reads all weights
    threads = Partition(machine, 1, regions, 1, 1)
    parts = model.parts(config.replace(rows=0))
    parts |= {"arithmetic": model.cycles(*tile) / machine.cores, "crossing": 0.0}
    parts["transforms"] = constants.STRIP_COPY * vectors / machine.cores
    lines = _strip_reads(w, machine, config) * 4 * machine.channel_block / machine.line_bytes
    parts["activations"] += constants.STRIP_LINE * lines / machine.cores
    parts["weights"] += threads.weights_again(model.weight_bytes) / idle
    parts["weights"] *= constants.STRIP_WEIGHTS
    return {name: cycles * idle for name, cycles in parts.items()}


def _strip_reads(workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
    """Vectors of strips that all tiles read, each once a tile."""
    w, (oc, oh, ow) = workload, (config.int(name) for name in ("oc", "oh", "ow"))
    groups = -(-machine.blocks(w.out_channels) // oc)
    tiles = w.batch * groups * -(-w.out_height // oh) * -(-w.out_width // ow)
    wide = len({x * w.stride_w + v * w.dilation_w for x in range(ow) for v in range(w.kernel_w)})
    return tiles * oh * wide * w.kernel_h * input_span(w, machine)
