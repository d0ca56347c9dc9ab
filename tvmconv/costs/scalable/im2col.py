"""The cost model of im2col whose panels are packed and multiplied by scalable vectors of pixels."""

from __future__ import annotations

from collections.abc import Iterator

from tvmconv.algorithms.direct.direct import strided
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants as cpu_constants
from tvmconv.costs.cpu.direct import TileModel, pieces
from tvmconv.costs.cpu.panel_blocks import PanelBlocks
from tvmconv.costs.cuts import balanced
from tvmconv.costs.scalable import constants
from tvmconv.costs.scalable.direct import gather_cycles, segment_registers, segment_step
from tvmconv.machines.record import Machine

# maximum pixels of panels: whole tiles also of long vectors, and few enough to stay in L2
_HEIGHTS = (24, 48, 96)
# output blocks and vectors of default tiles, none of which LLVM spilled
_BLOCKS, _VECTORS = range(4, 9), range(1, 6)


def panel_heights(workload: Conv2dWorkload) -> list[int]:
    """Pixels of a panel: even cuts of an image."""
    pixels = workload.out_height * workload.out_width
    return sorted({balanced(pixels, most) for most in _HEIGHTS})


class SegmentPanelModel:
    """Costs of panels of ``mr`` pixels, multiplied by tiles of ``oc`` blocks by some vectors."""

    def __init__(self, workload: Conv2dWorkload, machine: Machine) -> None:
        self.workload, self.machine = workload, machine
        self._tiles = TileModel(workload, machine)

    def configs(self) -> Iterator[Config]:
        """Every config that may be a default."""
        present = self._tiles.out_blocks
        for oc in sorted({min(blocks, present) for blocks in _BLOCKS}):
            for vectors in _VECTORS:
                if segment_registers(oc, vectors) > self.machine.vector_registers:
                    continue
                for mr in panel_heights(self.workload):
                    yield Config.of(mr=mr, oc=oc, mc=1, kc=0, vectors=vectors)

    def best(self) -> Config:
        """The config with the fewest cycles; the largest tile of equals."""

        def cost(config: Config) -> tuple[float, int]:
            return sum(self.parts(config).values()), -config.int("oc") * config.int("vectors")

        return min(self.configs(), key=cost)

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles of products, of packing, and of waiting for weights and activations."""
        w, machine, model = self.workload, self.machine, self._tiles
        mr, oc, vectors = (config.int(name) for name in ("mr", "oc", "vectors"))
        panels = -(-w.out_height * w.out_width // mr)
        products = 0.0
        for count, blocks in pieces(model.out_blocks, oc):
            step = segment_step(machine, blocks, vectors)
            begun = cpu_constants.TILE_CYCLES + cpu_constants.STORE_CYCLES * blocks * vectors
            products += count * (model.steps * step + begun)
        products *= -(-mr // (vectors * machine.segments))
        read = gather_cycles(machine) if self._gathers else 1 / machine.load_ports
        packed = -(-mr // machine.segments) * model.taps * machine.blocks(w.in_channels)
        packing = packed * (read + constants.PACKED_VECTOR)
        groups = -(-model.out_blocks // oc)
        size, block = 4 * mr * model.steps, config.int("mc") or panels
        memory = PanelBlocks(machine, panels, size, groups, model.weight_bytes, block)
        tasks = w.batch * memory.count
        cycle = -(-tasks // machine.cores) / tasks
        computing = w.batch * panels * (products + packing) * cycle
        passed = max(0.0, model.activation_cycles * cpu_constants.SLOWER_STREAM - computing)
        return {
            "arithmetic": w.batch * panels * products * cycle,
            "transforms": w.batch * panels * packing * cycle,
            "activations": passed + w.batch * memory.panel_cycles * cycle,
            "weights": model.weight_cycles + w.batch * memory.weight_cycles * cycle,
        }

    @property
    def _gathers(self) -> bool:
        return strided(self.workload) or self.workload.out_width != self.workload.in_width
