"""Winograd's tiles: how they cover an output, and the extents of their transformed values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import gcd

import numpy as np
import numpy.typing as npt

from tvmconv.algorithms.planes import plane_stride
from tvmconv.algorithms.winograd.integers import MOST_PRODUCTS as MOST_INTEGER_PRODUCTS
from tvmconv.algorithms.winograd.integers import IntegerTransforms, fits_shorts, integer_transforms
from tvmconv.algorithms.winograd.matrices import (
    MOST_PRODUCTS,
    Transforms,
    rounding_error,
    transforms,
)
from tvmconv.algorithms.winograd.polyphase import phase_count, phases
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.multiply import FMA, Multiply, multiply_of_shorts
from tvmconv.machines.record import Machine

# growth of the error by the transforms of one axis, by products; fitted to measurements against
# float64 (docs/notes/winograd.md)
_AMPLIFICATION = {1: 1.0, 2: 1.0, 3: 1.2, 4: 1.3, 5: 2.1, 6: 2.15, 7: 4.2, 8: 6.0}
# the same for phases with two taps, which are few compared with the outputs of such tiles
_OF_TWO_TAPS = {3: 1.3, 6: 2.65, 7: 4.8, 8: 6.9}


@dataclass(frozen=True)
class Tiling:
    """Tiles of a workload's output: F(mh, R) down the columns and F(mw, S) along the rows.

    In strided workloads R and S are the taps of a phase.
    """

    workload: Conv2dWorkload
    mh: int
    mw: int

    @property
    def vertical(self) -> Transforms:
        """Matrices for columns of a tile."""
        return self._matrices(self.mh, phases(self.workload)[0].taps)

    @property
    def horizontal(self) -> Transforms:
        """Matrices for rows of a tile."""
        return self._matrices(self.mw, phases(self.workload)[1].taps)

    def _matrices(self, m: int, r: int) -> Transforms:
        return (integer_transforms if self.workload.types.is_integer else transforms)(m, r)

    @property
    def integer(self) -> tuple[IntegerTransforms, IntegerTransforms]:
        """Both matrices of a workload that multiplies integers."""
        tall, wide = phases(self.workload)
        return integer_transforms(self.mh, tall.taps), integer_transforms(self.mw, wide.taps)

    @property
    def products(self) -> int:
        """Multiplications per tile and pair of channels."""
        return self.vertical.n * self.horizontal.n

    @property
    def work(self) -> tuple[int, ...]:
        """Phases that each product sums. Products are numbered down the columns of a tile.

        The last row and column are at infinity, where phases without the last tap are omitted.
        """
        tall, wide = phases(self.workload)
        rows = [tall.count] * (self.vertical.n - 1) + [tall.whole]
        columns = [wide.count] * (self.horizontal.n - 1) + [wide.whole]
        return tuple(row * column for column in columns for row in rows)

    @property
    def rows(self) -> int:
        """Rows of tiles in an image."""
        return -(-self.workload.out_height // self.mh)

    @property
    def columns(self) -> int:
        """Tiles in a row."""
        return -(-self.workload.out_width // self.mw)

    @property
    def count(self) -> int:
        """Tiles of the whole batch."""
        return self.workload.out_planes * self.rows * self.columns


def tiling(workload: Conv2dWorkload, config: Config) -> Tiling:
    """The tiles of a configuration."""
    return Tiling(workload, config.int("mh"), config.int("mw"))


def unsuited_window(workload: Conv2dWorkload, *, by_phases: bool = False) -> str | None:
    """Why tiles save nothing for a window, as a clause; None if they do.

    ``by_phases`` permits cutting a strided or long kernel into short dense ones.
    """
    w = workload
    axes = phases(w)
    tall, wide = (axis.taps for axis in axes)
    if (w.stride_h, w.stride_w) != (1, 1) and not by_phases:
        return f"its tiles overlap only at stride 1, not {w.stride_h}x{w.stride_w}"
    if (w.dilation_h, w.dilation_w) != (1, 1):
        return f"it needs dense kernels, not dilation {w.dilation_h}x{w.dilation_w}"
    if w.kernel_h * w.kernel_w == 1:
        return "a 1x1 kernel has no products to save"
    if tall * wide == 1:
        return f"a {w.kernel_h}x{w.kernel_w} kernel at such a stride has no products to save"
    if max(tall, wide) >= most_products(w) or (not by_phases and any(a.is_cut for a in axes)):
        return f"a {w.kernel_h}x{w.kernel_w} kernel needs more than {most_products(w)} points"
    return None


def filter_taps(tiles: Tiling) -> Iterator[npt.NDArray[np.float64]]:
    """The factors of a filter's taps in the sum that is its value, for each product."""
    tall, wide = tiles.vertical.filter_matrix(), tiles.horizontal.filter_matrix()
    for p in range(tiles.products):
        yield np.outer(tall[p // wide.shape[0]], wide[p % wide.shape[0]])


def tile_error(tiles: Tiling, channels: int) -> float:
    """Estimate of max|error| / max|reference| of float32 sums over so many channels.

    Rounding of the products' sums, amplified by the transforms of both axes.
    """
    grown = 1.0
    for axis, matrices in zip(
        phases(tiles.workload), (tiles.vertical, tiles.horizontal), strict=True
    ):
        few = axis.stride > 1 and axis.taps == 2
        usual = _AMPLIFICATION[matrices.n]
        grown *= _OF_TWO_TAPS.get(matrices.n, usual) if few else usual
    return rounding_error(grown, channels * phase_count(tiles.workload))


def summed_blocks(workload: Conv2dWorkload, machine: Machine) -> int:
    """Blocks of input channels that the products sum over, of every phase and plane.

    A 3-D convolution is a 2-D convolution with the channels of all its planes. Output planes share
    no transformed values, so that whole volumes need not be stored.
    """
    planes = phase_count(workload) * workload.kernel_d
    return planes * machine.blocks(workload.in_channels)


def summed_products(tiles: Tiling, machine: Machine) -> int:
    """Products of a tile, each as often as its sum has blocks of input channels."""
    w = tiles.workload
    tall, wide = phases(w)
    each = tall.products(tiles.mh) * wide.products(tiles.mw)
    return each * w.kernel_d * machine.blocks(w.in_channels)


def block_channels(workload: Conv2dWorkload, machine: Machine) -> int:
    """Input channels of a block that are multiplied: a single block may have fewer than lanes.

    Integer types have whole dwords.
    """
    channels = min(machine.channel_block, workload.in_channels)
    width = transformed_multiply(workload, machine).width
    return -(-channels // width) * width


def transformed_multiply(workload: Conv2dWorkload, machine: Machine) -> Multiply:
    """How transformed data are multiplied by transformed weights: integers have 16 bits."""
    return multiply_of_shorts(machine) if workload.types.is_integer else FMA


def transformed_type(workload: Conv2dWorkload) -> str:
    """Type of transformed data and weights."""
    return "int16" if workload.types.is_integer else workload.types.accumulator


def most_products(workload: Conv2dWorkload) -> int:
    """Products of the longest tiles of one axis."""
    return MOST_INTEGER_PRODUCTS if workload.types.is_integer else MOST_PRODUCTS


def is_representable(tiles: Tiling) -> bool:
    """Whether a tile's transformed values fit their type."""
    types = tiles.workload.types
    return not types.is_integer or fits_shorts(*tiles.integer, types)


def product_step(tiles: Tiling, config: Config, machine: Machine) -> int:
    """The distance between products that are computed one after the other, modulo their number.

    Threads share consecutive products of a stage. The step divides products of different work most
    evenly. It is 1 for one thread, for equal work, and for regions.
    """
    return 1 if config.int("fused") else _even_step(tiles.work, machine.cores)


@cache
def _even_step(work: tuple[int, ...], threads: int) -> int:
    if threads == 1 or len(set(work)) == 1:
        return 1
    coprime = (step for step in range(1, len(work)) if gcd(step, len(work)) == 1)
    return min(coprime, key=lambda step: busiest(work, threads, step=step))


def busiest(work: tuple[int, ...], threads: int, panels: int = 1, step: int = 1) -> float:
    """Work of the thread with the most, over the mean.

    Threads share products in steps of ``step``, each with ``panels`` equal tasks.
    """
    ordered = (work[place * step % len(work)] for place in range(len(work)))
    tasks = [each for each in ordered for _ in range(panels)]
    most = -(-len(tasks) // threads)
    parts = (sum(tasks[at : at + most]) for at in range(0, len(tasks), most))
    return max(parts) * threads / sum(tasks)


def region_tiles(tiles: Tiling, config: Config) -> int:
    """Tiles whose transformed values are alive at a time."""
    return config.int("rh") * config.int("rw") if config.int("fused") else tiles.count


def workspace_planes(workload: Conv2dWorkload, machine: Machine) -> tuple[tuple[int, int], ...]:
    """Channel blocks, and bytes of a value, of the transformed input and of the products."""
    return (
        (summed_blocks(workload, machine), itemsize(transformed_type(workload))),
        (machine.blocks(workload.out_channels), itemsize(workload.types.accumulator)),
    )


def plane_strides(
    tiles: Tiling, config: Config, machine: Machine
) -> tuple[tuple[int, int, int], ...]:
    """Values of a plane, distance to the next, and bytes of a value, of input and products."""
    area = region_tiles(tiles, config) * machine.channel_block
    return tuple(
        (blocks * area, plane_stride(tiles.products, blocks * area, machine, size), size)
        for blocks, size in workspace_planes(tiles.workload, machine)
    )


def by_strips(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether the columns of a row of tiles are transformed first."""
    return machine.code.transforms_strips or workload.types.is_integer
