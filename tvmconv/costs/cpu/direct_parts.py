"""Parts of the reduction of direct convolution, so that the weights of a part stay in L2.

A long reduction has weights that exceed L2 even for one tile, and every tile of pixels would read
them again. With parts, all tiles of a group of output blocks use the weights of one part. Their
sums are in memory between the parts. The error also grows with a part, not with the reduction.
"""

from __future__ import annotations

from math import prod

from tvmconv.core.config import Config
from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct_partition import TileModel
from tvmconv.costs.cpu.panel_blocks import weights_again
from tvmconv.costs.cuts import divisors
from tvmconv.machines.record import Machine

# tiles from which on weights are read again often enough: four took 0.80 of the time, two 0.96, and
# three 0.97, but 1.20 without prefetches
_FEWEST_TILES = 4


def parts_of_channels(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """Possible values of ``kc``: channel blocks of a part, and 0 for one part."""
    w = workload
    whole = w.types != FLOAT32 or w.groups > 1 or machine.code.by_lane or machine.vector.scalable
    return (0,) if whole else (0, *divisors(machine.blocks(w.in_channels))[:-1])


def _worth_trying(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """Parts only where the weights exceed L2, so that tiles may read them again from L3."""
    far = 4 * prod(workload.weight_shape) > machine.l2_bytes
    return parts_of_channels(workload, machine) if far else (0,)


CHANNEL_PARTS: Knob[Conv2dWorkload] = Knob(
    "kc",
    "blocks of input channels of a part of the reduction, a divisor of their number; 0: all",
    _worth_trying,
    neutral=0,
)


def check_parts(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Raise :class:`ConfigError` for parts that do not divide, or that have cache blocks."""
    kc, known = int(config.get("kc", 0)), parts_of_channels(workload, machine)
    if kc not in known:
        raise ConfigError(
            f"kc={kc} of {workload} is not possible. Expected one of "
            f"{', '.join(map(str, known))}. Change kc."
        )
    if kc and config.int("rows"):
        raise ConfigError(
            f"kc={kc} of {workload} has rows={config.int('rows')}. Expected rows=0 with parts of "
            "the reduction. Change rows or kc."
        )


def default_part(model: TileModel, oc: int, oh: int, ow: int) -> int:
    """Channel blocks of a part: as many as L2 holds, if several tiles use weights beyond L2.

    0 for one part. Threads share groups of output blocks, of which each needs one.
    """
    w, machine = model.workload, model.machine
    groups = -(-model.out_blocks // oc)
    far = model.weight_bytes // groups > machine.l2_bytes
    if not far or model.places(oh, ow) < _FEWEST_TILES:
        return 0
    if w.out_planes * groups < machine.cores:
        return 0
    block = model.weight_bytes // groups // machine.blocks(w.in_channels)
    most = constants.PART_PANEL * machine.l2_bytes
    return max(kc for kc in parts_of_channels(w, machine) if kc * block <= most)


def repeated_cycles(model: TileModel, config: Config) -> tuple[float, float]:
    """Cycles of beginning tiles again for each part, and of reading weights again for each tile."""
    w, machine = model.workload, model.machine
    oc, oh, ow = (config.int(name) for name in ("oc", "oh", "ow"))
    kc = int(config.get("kc", 0))
    groups = -(-model.out_blocks // oc)
    tiles = w.out_planes * model.places(oh, ow)
    if not kc:
        return 0.0, weights_again(machine, model.weight_bytes, groups, tiles)
    begun = constants.TILE_CYCLES + constants.PART_SUM * oc * oh * ow
    parts = machine.blocks(w.in_channels) // kc
    return (parts - 1) * groups * tiles * begun, 0.0
