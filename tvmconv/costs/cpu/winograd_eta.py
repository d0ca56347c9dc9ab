"""The cost model and blocks of Winograd convolution along eta (Wang et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tvmconv.algorithms.reproductions.winograd_packing import SIZES, Packing
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.tile_knobs import flag
from tvmconv.machines.record import Machine

_LANES = (4, 8, 16)


def compute_to_memory(br: int, kr: int, cl1: int) -> float:
    """Operations per value moved by one call of the register kernel (equation 12).

    The register block has ``br`` positions and ``kr`` output channels, and sums ``cl1`` input
    channels.
    """
    return 2 * br * kr * cl1 / (kr * cl1 + (2 * kr + cl1) * br)


def registers(br: int, kr: int) -> int:
    """Vector registers of a register block (section 3.4).

    Both operands are vectors along eta: ``br + kr`` loads and no broadcast, unlike the tile of
    :class:`~tvmconv.costs.cpu.microkernel.Microkernel`.
    """
    return br + kr + br * kr


@dataclass(frozen=True)
class EtaModel:
    """Blocks and costs of one workload on one machine."""

    workload: Conv2dWorkload
    machine: Machine

    def check(self, config: Config) -> None:
        """Raise :class:`ConfigError` for blocks beyond registers, L1 or L2."""
        machine, w = self.machine, self.workload
        s, br, kr = (config.int(name) for name in ("s", "br", "kr"))
        cl1, kl2 = config.int("cl1"), config.int("kl2")
        if s not in _LANES or s > machine.lanes:
            raise ConfigError(
                f"s={s} of {w} is not possible. Expected 4, 8 or 16, and at most {machine.lanes}, "
                f"the lanes of {machine.name}. Change s."
            )
        if min(br, kr, cl1, kl2) < 1 or cl1 % machine.channel_block or kl2 % kr:
            raise ConfigError(
                f"blocks of {w} are not possible: br={br} kr={kr} cl1={cl1} kl2={kl2}. Expected 1 "
                f"or more, cl1 a multiple of {machine.channel_block}, kl2 of kr. Change them."
            )
        check_registers(machine, registers(br, kr), f"tile br={br} kr={kr} of {w}")
        if _panel_bytes(br, kr, cl1, s) > machine.l1d_bytes:
            raise ConfigError(
                f"cl1={cl1} of {w} with br={br} kr={kr} needs {_panel_bytes(br, kr, cl1, s)} bytes "
                f"of L1. Expected at most {machine.l1d_bytes}. Use a smaller cl1."
            )
        if 4 * s * cl1 * kl2 > machine.l2_bytes:
            raise ConfigError(
                f"kl2={kl2} cl1={cl1} of {w} needs {4 * s * cl1 * kl2} bytes of L2. Expected at "
                f"most {machine.l2_bytes}. Use a smaller kl2."
            )

    def best(self, m: int) -> Config:
        """The blocks with the best ratio of equation 12, weighted by the share without padding."""

        def rank(config: Config) -> float:
            br, kr, cl1 = (config.int(name) for name in ("br", "kr", "cl1"))
            return compute_to_memory(br, kr, cl1) * self._useful(config)

        return max(self._configs(m), key=rank)

    def _useful(self, config: Config) -> float:
        """The share of the product's multiplications that are not on padding of blocks."""
        w, pack = self.workload, Packing(self.workload, self.machine, config)
        blocks, tiles = pack.positions
        positions = blocks * tiles * config.int("br")
        done = positions * pack.channels * config.int("cl1") * pack.groups * config.int("kr")
        return w.batch * pack.tiles[0] * pack.tiles[1] * w.in_channels * w.out_channels / done

    def _configs(self, m: int) -> Iterator[Config]:
        machine, w = self.machine, self.workload
        outputs = machine.blocks(w.out_channels) * machine.channel_block
        for br in range(2, 8):
            for kr in (k for k in range(2, 9) if registers(br, k) <= machine.vector_registers):
                for cl1 in self.depths(machine.channel_block, br, kr):
                    # half of L2: the other half is for data that pass through
                    most = machine.l2_bytes // 2 // (4 * machine.channel_block * cl1)
                    passes = -(-outputs // max(kr, most))
                    kl2 = -(-outputs // passes // kr) * kr
                    config = {"s": machine.lanes, "outer_eta": 0, "prefetch": 0, "m": m}
                    tiles = int(w.batch % br != 0)
                    yield Config.of(br=br, kr=kr, cl1=cl1, kl2=kl2, tiles=tiles, **config)

    def depths(self, s: int, br: int, kr: int) -> list[int]:
        """Values of C_l1 that L1 holds, one for each number of blocks."""
        lanes, blocks = self.machine.channel_block, self.machine.blocks(self.workload.in_channels)
        counts = {-(-blocks // parts) * lanes for parts in range(1, blocks + 1)}
        return sorted(c for c in counts if _panel_bytes(br, kr, c, s) <= self.machine.l1d_bytes)

    def shares(self, config: Config) -> dict[str, float]:
        """Cycles of each part of a call on the machine's cores."""
        w, machine, pack = self.workload, self.machine, Packing(self.workload, self.machine, config)
        br, kr, cl1, s = (config.int(name) for name in ("br", "kr", "cl1", "s"))
        blocks, tiles = pack.positions
        calls = pack.eta * pack.channels * pack.groups * blocks * tiles
        loads = machine.load_cycles(vectors=br + kr, broadcasts=0)
        step = max(br * kr / machine.rates.multiply_adds, loads, float(machine.fma_latency))
        product = calls * (cl1 * step + 4 * br * kr)
        matrix = pack.delta**2 * pack.delta * 0.8 + 4 * pack.eta * s
        each = blocks * tiles * br * pack.channels * cl1 / machine.channel_block
        each += w.batch * pack.tiles[0] * pack.tiles[1] * machine.blocks(w.out_channels)
        size_in, size_out = (_bytes(shape) for shape in (pack.input_shape(), pack.output_shape()))
        passes = -(-pack.groups * kr // config.int("kl2"))
        moved = size_in * (2 + passes) + size_out * (1 + 3 * pack.channels)
        memory = constants.ETA_MEMORY * machine.rates.memory
        near = size_in + size_out < machine.l3_bytes / 4
        rate = constants.ETA_L3 * machine.rates.l3 if near and machine.rates.l3 else memory
        spilled = moved if size_in + size_out > machine.l2_bytes / 2 else 0
        cores = machine.cores
        return {
            "arithmetic": product / cores,
            "transforms": each * matrix / cores,
            "weights": _bytes(pack.weight_shape()) / memory,
            "workspace": spilled / rate,
            "call": constants.ETA_CALL * pack.eta * pack.channels / (1 if cores > 1 else 10),
        }


def _panel_bytes(br: int, kr: int, cl1: int, s: int) -> int:
    """Bytes of the three operands of one call of the register kernel."""
    return 4 * s * (cl1 * (kr + br) + br * kr)


def _bytes(shape: tuple[int, ...]) -> int:
    return 4 * prod(shape)


def _most(w: Conv2dWorkload, machine: Machine) -> range:
    """Extents of one side of a register block whose other side is 1."""
    return range(1, (machine.vector_registers - 1) // 2 + 1)


KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        Knob("m", "rows and columns of an output tile", lambda w, machine: SIZES, closed=True),
        Knob(
            "s",
            "products in a vector",
            lambda w, machine: (s for s in _LANES if s <= machine.lanes),
        ),
        Knob("br", "positions of a register block", _most),
        Knob("kr", "output channels of a register block", _most),
        Knob(
            "cl1",
            "input channels of a panel in L1, whole blocks",
            lambda w, machine: EtaModel(w, machine).depths(4, 1, 1),
        ),
        Knob(
            "kl2",
            "output channels of a block in L2, a multiple of kr",
            lambda w, machine: range(
                1, min((machine.blocks(w.out_channels) + 1) * machine.channel_block, 1024) + 1
            ),
        ),
        flag("tiles", "1: positions of a register block are tiles; 0: samples"),
        flag("outer_eta", "1: eta before the tiles in the layout of U; 0: after them"),
        flag("prefetch", "1: panels of G are prefetched"),
    )
)
