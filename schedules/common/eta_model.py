"""The analytic choice of blocks for Winograd's product along eta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tvmconv.algorithms.winograd_packing import SIZES, Packing
from tvmconv.config import Config, KnobValue
from tvmconv.errors import ConfigError
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import check_registers
from tvmconv.workload import Conv2dWorkload

_LANES = (4, 8, 16)
# Fits to measured calls, docs/winograd.md, then raised: nothing may be chosen for a prediction
# that flatters it. Cycles of the product over those of its multiply-adds; cycles of one vector
# operation of a transform; shares of the machine's rates to and from L3 and memory, written bytes
# counted twice.
_PRODUCT_COST, _TRANSFORM_COST, _STORE_CYCLES = 1.354, 1.771, 4.17
_L3_SHARE, _MEMORY_SHARE = 1.056, 0.849
_CALL_CYCLES = 6250


def compute_to_memory(br: int, kr: int, cl1: int) -> float:
    """Operations per value moved by one call of the register kernel (equation 12).

    Parameters
    ----------
    br, kr
        Register block: positions and output channels.
    cl1
        Input channels accumulated in registers.
    """
    return 2 * br * kr * cl1 / (kr * cl1 + (2 * kr + cl1) * br)


def registers(br: int, kr: int) -> int:
    """Vector registers of a register block (section 3.4)."""
    return br + kr + br * kr


@dataclass(frozen=True)
class EtaModel:
    """Blocks and costs of one workload on one machine."""

    workload: Conv2dWorkload
    machine: Machine

    def knobs(self) -> dict[str, tuple[KnobValue, ...]]:
        """Every knob with the values worth trying."""
        machine = self.machine
        outputs = machine.blocks(self.workload.out_channels) * machine.channel_block
        most = range(1, machine.vector_registers)
        return {
            "m": SIZES,
            "s": tuple(s for s in _LANES if s <= machine.lanes),
            "br": tuple(b for b in most if registers(b, 1) <= machine.vector_registers),
            "kr": tuple(k for k in most if registers(1, k) <= machine.vector_registers),
            "cl1": tuple(self._depths(4, 1, 1)),
            "kl2": tuple(range(1, min(outputs + machine.channel_block, 1024) + 1)),
            "tiles": (0, 1),
            "outer_eta": (0, 1),
            "prefetch": (0, 1),
        }

    def check(self, config: Config) -> None:
        """Raise :class:`ConfigError` for blocks beyond registers, L1 or L2."""
        machine, w = self.machine, self.workload
        m, s, br, kr = (config.int(name) for name in ("m", "s", "br", "kr"))
        cl1, kl2 = config.int("cl1"), config.int("kl2")
        if m not in SIZES:
            raise ConfigError(f"m={m} of {w} must be one of {SIZES}, the source's tiles")
        if s not in _LANES or s > machine.lanes:
            raise ConfigError(
                f"s={s} of {w} must be 4, 8 or 16, and at most the {machine.lanes} lanes of "
                f"{machine.name}"
            )
        if any(config.int(name) not in (0, 1) for name in ("tiles", "outer_eta", "prefetch")):
            raise ConfigError(f"tiles, outer_eta and prefetch of {w} must be 0 or 1: {config}")
        if min(br, kr, cl1, kl2) < 1 or cl1 % machine.channel_block or kl2 % kr:
            raise ConfigError(
                f"cl1={cl1} of {w} must be a multiple of {machine.channel_block}, kl2={kl2} one of "
                f"kr={kr}, and all of them 1 or more"
            )
        check_registers(machine, registers(br, kr), f"tile br={br} kr={kr} of {w}")
        if _panel_bytes(br, kr, cl1, s) > machine.l1d_bytes:
            raise ConfigError(
                f"cl1={cl1} of {w} with br={br} kr={kr} takes {_panel_bytes(br, kr, cl1, s)} bytes "
                f"of L1, {machine.name} has {machine.l1d_bytes}; take a smaller cl1"
            )
        if 4 * s * cl1 * kl2 > machine.l2_bytes:
            raise ConfigError(
                f"kl2={kl2} cl1={cl1} of {w} takes {4 * s * cl1 * kl2} bytes of L2, "
                f"{machine.name} has {machine.l2_bytes}; take a smaller kl2"
            )

    def best(self, m: int) -> Config:
        """The blocks with the best ratio of equation 12, weighed by what is not padding."""

        def rank(config: Config) -> float:
            br, kr, cl1 = (config.int(name) for name in ("br", "kr", "cl1"))
            return compute_to_memory(br, kr, cl1) * self._useful(config)

        return max(self._configs(m), key=rank)

    def _useful(self, config: Config) -> float:
        """The share of the product's multiplications that is not on padding of blocks."""
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
                for cl1 in self._depths(machine.lanes, br, kr):
                    # half of L2: the other half is for what passes through
                    most = machine.l2_bytes // 2 // (4 * machine.lanes * cl1)
                    passes = -(-outputs // max(kr, most))
                    kl2 = -(-outputs // passes // kr) * kr
                    config = {"s": machine.lanes, "outer_eta": 0, "prefetch": 0, "m": m}
                    tiles = int(w.batch % br != 0)
                    yield Config.of(br=br, kr=kr, cl1=cl1, kl2=kl2, tiles=tiles, **config)

    def _depths(self, s: int, br: int, kr: int) -> list[int]:
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
        product = calls * (cl1 * step * _PRODUCT_COST + _STORE_CYCLES * br * kr)
        matrix = pack.delta**2 * pack.delta * 0.8 + 4 * pack.eta * s
        each = blocks * tiles * br * pack.channels * cl1 / machine.channel_block
        each += w.batch * pack.tiles[0] * pack.tiles[1] * machine.blocks(w.out_channels)
        transforms = each * matrix * _TRANSFORM_COST
        size_in, size_out = (_bytes(shape) for shape in (pack.input_shape(), pack.output_shape()))
        passes = -(-pack.groups * kr // config.int("kl2"))
        moved = size_in * (2 + passes) + size_out * (1 + 3 * pack.channels)
        memory = _MEMORY_SHARE * machine.rates.memory
        near = size_in + size_out < machine.l3_bytes / 4
        rate = _L3_SHARE * machine.rates.l3 if near else memory
        spilled = moved if size_in + size_out > machine.l2_bytes / 2 else 0
        cores = machine.cores
        return {
            "arithmetic": product / cores,
            "transforms": transforms / cores,
            "weights": _bytes(pack.weight_shape()) / memory,
            "workspace": spilled / rate,
            "call": _CALL_CYCLES * pack.eta * pack.channels / (1 if cores > 1 else 10),
        }


def _panel_bytes(br: int, kr: int, cl1: int, s: int) -> int:
    """Bytes of the three operands of one call of the register kernel."""
    return 4 * s * (cl1 * (kr + br) + br * kr)


def _bytes(shape: tuple[int, ...]) -> int:
    return 4 * prod(shape)
