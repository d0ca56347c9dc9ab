"""The stages of Wang et al. (2020), Algorithm 2, for every CPU family.

Stages follow one another over the whole batch. Each is parallel over the axes of the paper:

1. input transform: blocks of positions and of channels;
2. product: serial over ``eta/S``, then over blocks of C_l1 channels. Blocks of K_l2 channels,
   blocks of positions, and tiles are parallel. Each task computes ``K_r`` channels at a time;
3. output transform: output blocks and samples.
"""

from __future__ import annotations

from tvmconv.algorithms.reproductions.winograd_packing import Packing
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import winograd_eta
from tvmconv.costs.cpu.winograd_eta import EtaModel
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile, transform_tile
from tvmconv.tir.annotations import mark_stream, mark_transpose
from tvmconv.tvm_api.types import LoopRV, Schedule

# Panels of G come from L2: about its latency at the rate of the products
_AHEAD = 1024


class WinogradEtaSchedule(ConvSchedule[Machine]):
    """The three stages of Algorithm 2."""

    KNOBS = winograd_eta.KNOBS

    # both tiles of the paper, with eta after and before the tiles
    STEPS = tuple({"m": m, "outer_eta": outer} for m in (4, 6) for outer in (0, 1))

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """F(4x4, 3x3) with the blocks that equation 12 ranks first."""
        return EtaModel(workload, machine).best(4)

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The best config of both tile sizes."""
        model = EtaModel(workload, machine)
        return model.best(4), model.best(6)

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Blocks fit the registers, L1 and L2."""
        EtaModel(workload, machine).check(config)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule :class:`~tvmconv.algorithms.reproductions.winograd_eta.WinogradEta`."""
        _input(schedule, machine)
        _product(schedule, Packing(workload, machine, config))
        _output(schedule, config)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        return EtaModel(workload, machine).shares(config)


SCHEDULE = WinogradEtaSchedule()


def _input(schedule: Schedule, machine: Machine) -> None:
    block = schedule.get_sblock("transform")
    eta, cc, q, mu, c, bf, i = schedule.get_loops(block)
    cb, c = schedule.split(c, [None, machine.channel_block])
    schedule.reorder(q, cc, cb, mu, bf, eta, c, i)
    schedule.parallel(schedule.fuse(q, cc, cb))
    _move(schedule, eta, c, i)
    for name in ("tile", "columns"):
        transform_tile(schedule, schedule.get_sblock(name), at=bf)


def _product(schedule: Schedule, pack: Packing) -> None:
    """Register blocks sum the C_l1 channels of one part; ``sums`` adds the parts up in U."""
    product, sums = schedule.get_sblock("conv2d"), schedule.get_sblock("sums")
    eta, part, group, q, mu, position, channel, lane, step = schedule.get_loops(product)
    passed, group = schedule.split(group, [None, pack.config.int("kl2") // pack.config.int("kr")])
    tile = (position, channel)
    schedule.reorder(eta, part, passed, q, mu, group, step, *tile, lane)
    schedule.parallel(schedule.fuse(passed, q, mu))
    if pack.config.int("prefetch"):
        mark_stream(schedule, step, _AHEAD)
    register_tile(schedule, product, sums, at=group, reduction=step, tile=tile, lane=lane)


def _output(schedule: Schedule, config: Config) -> None:
    output = schedule.get_sblock("output")
    n, kb, h, x, lane = schedule.get_loops(output)
    th, i = schedule.split(h, [None, config.int("m")])
    tw, j = schedule.split(x, [None, config.int("m")])
    schedule.reorder(kb, n, th, tw, i, j, lane)
    schedule.parallel(schedule.fuse(kb, n))
    for loop in (i, j):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    transform_tile(schedule, schedule.get_sblock("rows"), at=tw)
    gather = schedule.get_sblock("gather")
    schedule.compute_at(gather, tw, preserve_unit_loops=True)
    schedule.set_scope(gather, 0, "local")
    eta, product, channel = schedule.get_loops(gather)[-3:]
    schedule.reorder(eta, channel, product)
    _move(schedule, eta, channel, product)


def _move(schedule: Schedule, eta: LoopRV, channel: LoopRV, product: LoopRV) -> None:
    """Vectors along channels become vectors along eta, or the reverse."""
    schedule.unroll(eta)
    schedule.vectorize(product)
    mark_transpose(schedule, channel)
