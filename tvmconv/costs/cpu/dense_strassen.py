"""The cost model of fully connected layers by Strassen's algorithm, and their parameters."""

from __future__ import annotations

from collections.abc import Iterator

from tvmconv.algorithms.gemm.dense_strassen import DenseHalves
from tvmconv.algorithms.gemm.strassen import PRODUCTS
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.microkernel import Microkernel, check_registers, most_pixels
from tvmconv.costs.cpu.panel_blocks import rate_of
from tvmconv.costs.cpu.tile_knobs import prefetch_flag
from tvmconv.costs.cuts import balanced, divisors
from tvmconv.costs.limits import check_divides, check_minimum
from tvmconv.machines.record import Machine

# vectors of outputs of a register tile that are worth comparing
_WIDTHS = (1, 2, 3)
# vectors that are read, added and written for one vector of each quarter of data, and of the result
_DATA_WORK, _RESULT_WORK = 15, 21
# numbers of regions that are compared
_MOST_REGIONS = 24


def _widths(w: Conv2dWorkload, machine: Machine) -> list[int]:
    vectors = max(1, w.out_channels // (2 * machine.lanes))
    return [d for d in divisors(vectors) if d <= max(_WIDTHS)]


def _heights(w: Conv2dWorkload, machine: Machine) -> range:
    return range(1, min(-(-w.batch // 2), most_pixels(machine, 1)) + 1)


def _halves(w: Conv2dWorkload, machine: Machine) -> list[int]:
    """Pairs of rows of a region, for every number of regions and register tile."""
    pairs, found = -(-w.batch // 2), set()
    for regions in range(1, min(_MOST_REGIONS, pairs) + 1):
        for rows in _heights(w, machine):
            found.add(-(-pairs // (regions * rows)) * rows)
    return sorted(found)


KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        Knob("half", "pairs of rows of a region, a multiple of rows", _halves),
        Knob("rows", "pairs of rows of a register tile", _heights),
        Knob(
            "width",
            "vectors of outputs of a register tile and of a block of packed weights, a divisor of "
            "half of the outputs",
            _widths,
        ),
        prefetch_flag("fetch_weight", "1 prefetches the next weights"),
    )
)


def best(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The config with the fewest predicted cycles."""
    return min(
        _configs(workload, machine),
        key=lambda config: sum(explain_cost(workload, machine, config).values()),
    )


def _configs(w: Conv2dWorkload, machine: Machine) -> Iterator[Config]:
    pairs = -(-w.batch // 2)
    for width in _widths(w, machine):
        most = min(most_pixels(machine, width), pairs)
        for regions in range(1, min(_MOST_REGIONS, pairs) + 1):
            half = -(-pairs // regions)
            for rows in {balanced(half, size) for size in range((most + 1) // 2, most + 1)}:
                yield Config.of(
                    half=-(-half // rows) * rows, rows=rows, width=width, fetch_weight=1
                )


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Raise :class:`ConfigError` for a tile without registers, or parts that do not divide."""
    check_minimum(workload, config, 1, "half", "rows", "width")
    half, rows, width = (config.int(name) for name in ("half", "rows", "width"))
    check_divides(workload, config, "rows", half, "pairs of rows of a region")
    vectors = workload.out_channels // (2 * machine.lanes)
    check_divides(workload, config, "width", vectors, "vectors of half of the outputs")
    needed = Microkernel(machine, rows, width).registers
    check_registers(machine, needed, f"tile rows={rows} width={width} of {workload}")


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """Register tiles, sums around them, and waiting for operands beyond L2."""
    w, rates = workload, machine.rates
    rows, width = config.int("rows"), config.int("width")
    cut = DenseHalves.of(w, machine, config)
    share = -(-cut.regions // machine.cores)
    tile = Microkernel(machine, rows, width).cycles(cut.depth)
    arithmetic = PRODUCTS * cut.panels * (cut.half // rows) * tile * share
    data, result = cut.depth / machine.lanes, cut.panels * cut.vectors
    work = share * cut.half * (data * _DATA_WORK + result * _RESULT_WORK)
    sums = 4 * PRODUCTS * cut.half * cut.depth
    # panels of weights pass over the sums, of which a part leaves L2
    again = share * cut.panels * max(0.0, sums - machine.l2_bytes) / rate_of(machine, sums)
    weights = 4 * PRODUCTS * cut.depth * w.out_channels / 2
    late = max(
        constants.STRASSEN_READ * weights / rates.memory, weights / rates.memory - arithmetic
    )
    if weights > machine.l2_bytes:
        late += constants.STRASSEN_SHOWN * (share - 1) * weights / rates.behind_l2
    moved = 4 * w.batch * (w.in_channels + w.out_channels * (1 + w.has("add")))
    rate = rates.l2 if moved <= machine.l2_bytes else rates.behind_l2
    return {
        "arithmetic": arithmetic,
        "transforms": work * constants.STRASSEN_WORK * 2 / rates.multiply_adds,
        "weights": late,
        "activations": constants.STRASSEN_SHOWN * again
        + constants.STRASSEN_MOVED * moved * share / cut.regions / rate,
    }
