"""The cost model of fully connected layers, and the default of their parameters."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.microkernel import Microkernel, check_registers, most_pixels
from tvmconv.costs.cpu.products import dense_tile, shares_rows, tiled_cycles
from tvmconv.costs.cuts import divisors
from tvmconv.costs.limits import check_divides, check_minimum
from tvmconv.machines.record import Machine

# the axis that threads share: tiles of outputs, or tiles of rows
OUTPUTS, ROWS = "outputs", "rows"
# Positions of the inner dimension that a single row reads alternately. Prefetchers of one stream
# pause at each page boundary (measured: 4 streams 11.9 GB/s, one stream 10.8 GB/s).
_STREAMS = (4, 2, 1)
# vectors of the widest tile of one row that is worth trying
_WIDEST = 8
# fewest steps of a part of the inner dimension, and the most parts
_PART, _PARTS = 64, 16


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The tile of :func:`~tvmconv.costs.cpu.products.dense_tile`.

    Threads share outputs, or rows if :func:`~tvmconv.costs.cpu.products.shares_rows`.
    """
    w = workload
    tile = dense_tile(w.batch, w.in_channels, w.out_channels, machine)
    part = w.in_channels // tile.splits
    streams = 1
    if tile.rows == 1 and not steps_by_lane(w, machine, tile.splits):
        streams = next(s for s in _STREAMS if part % s == 0)
    tall, wide = -(-w.batch // tile.rows), -(-w.out_channels // tile.width)
    product = (w.batch, w.in_channels, w.out_channels)
    by_rows = tile.splits == 1 and shares_rows(machine, product, tall, wide)
    share = ROWS if by_rows else OUTPUTS
    config = Config.of(
        rows=tile.rows, width=tile.vectors, splits=tile.splits, streams=streams, share=share
    )
    return Config.of(**config, fetch_weight=int(fetches_weights(w, machine, config)))


def fetches_weights(workload: Conv2dWorkload, machine: Machine, config: Config) -> bool:
    """Whether threads pass over the rows with each panel of weights, and L1 does not hold them all.

    The weights of a single tile are one stream, which the CPU's own prefetchers follow. Products of
    49 to 784 rows were 1.02 to 1.18 times as fast with prefetches on Zen 5, with AVX-512 and AVX2.
    """
    w = workload
    several = config.int("rows") < w.batch and config.int("splits") == 1
    several = several and config["share"] == OUTPUTS
    large = 4 * w.in_channels * w.out_channels > machine.l1d_bytes
    return several and large and not machine.code.by_lane


def steps_by_lane(workload: Conv2dWorkload, machine: Machine, splits: int) -> bool:
    """Whether a vector of data serves the steps of all its lanes."""
    return machine.code.by_lane and workload.in_channels // splits % machine.lanes == 0


def segments_of(machine: Machine) -> int:
    """Vectors of :attr:`Machine.lanes` in a register."""
    return machine.segments if machine.vector.scalable else 1


def row_values(workload: Conv2dWorkload, machine: Machine) -> range:
    """Heights of a tile that are worth trying."""
    return range(1, min(workload.batch, most_pixels(machine, 1)) + 1)


def vector_values(workload: Conv2dWorkload, machine: Machine) -> range:
    """Widths of a tile that are worth trying, in vectors."""
    present = -(-workload.out_channels // machine.lanes)
    return range(1, min(present, _WIDEST * segments_of(machine)) + 1)


def split_values(workload: Conv2dWorkload, machine: Machine) -> list[int]:
    """Parts of the inner dimension that are worth trying."""
    inputs = workload.in_channels
    return [s for s in divisors(inputs) if s == 1 or (s <= _PARTS and inputs // s >= _PART)]


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Raise :class:`ConfigError` for a tile without registers, or parts that do not divide."""
    check_minimum(workload, config, 1, "rows", "width", "splits", "streams")
    rows, vectors, splits = (config.int(name) for name in ("rows", "width", "splits"))
    check_divides(workload, config, "splits", workload.in_channels, "inputs")
    part = workload.in_channels // splits
    check_divides(workload, config, "streams", part, "inputs of a part")
    streams = config.int("streams")
    if streams > 1 and (rows > 1 or steps_by_lane(workload, machine, splits)):
        raise ConfigError(f"streams={streams} of {workload} needs rows=1 and single steps")
    if rows > workload.batch or (vectors - 1) * machine.lanes >= workload.out_channels:
        raise ConfigError(
            f"tile rows={rows} width={vectors} of {workload} is larger than the output. Use a "
            "smaller tile."
        )
    held = -(-vectors // segments_of(machine))
    check_registers(machine, rows * held + 2, f"tile rows={rows} width={vectors} of {workload}")


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """Tiles of the thread with the most of them, and waiting for operands beyond L2.

    Weights come from memory. A thread then reads the operand that its inner loop passes over once
    for each of its tiles.
    """
    w, cores = workload, machine.cores
    rows, vectors, splits = (config.int(name) for name in ("rows", "width", "splits"))
    part = w.in_channels // splits
    high, wide = -(-w.batch // rows), -(-w.out_channels // (vectors * machine.lanes))
    by_rows = config["share"] == ROWS
    shared, other = (high, wide) if by_rows else (wide, high)
    most = -(-splits * shared // cores)
    tile = Microkernel(machine, rows, vectors)
    arithmetic = most * other * tile.cycles(part)
    if splits == 1 and not config.get("vectors", 0):
        # the last tiles have only the rows and vectors that are left, unless vectors are scalable
        whole = tiled_cycles(tile, w.batch, -(-w.out_channels // machine.lanes), part)
        arithmetic = whole * most / shared
    weights = 4 * part * wide * vectors * machine.lanes
    read = weights * (1 if by_rows else most / shared) / machine.rates.memory
    passed = weights if by_rows else 4 * part * w.batch
    again = (most - 1) * passed / machine.rates.behind_l2 if passed > machine.l2_bytes else 0.0
    return {
        "arithmetic": arithmetic,
        "weights": max(0.0, read - arithmetic),
        "activations": constants.TRAFFIC_SHOWN * again,
    }
