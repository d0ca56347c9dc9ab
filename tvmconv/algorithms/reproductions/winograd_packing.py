"""The packed layouts of Wang et al. (2020), Table 1, and their transform matrices.

=====================  ==================================================================
G(k, c; phi, gamma)    ``[eta/S][c/C_l1][k/K_r][c % C_l1][k % K_r][eta % S]``
D(b, c; mu, ...)       ``[eta/S][c/C_l1][b/B_r][mu][c % C_l1][b % B_r][eta % S]``
U(b, k; mu, ...)       ``[k/K_r][b/B_r][mu][eta/S][b % B_r][k % K_r][eta % S]``
=====================  ==================================================================

``eta = phi * delta + gamma`` counts the elements of the transposed tile (equations 7 to 10).
Every axis is padded to whole blocks, ``delta**2`` to whole vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from tvmconv.algorithms.winograd.matrices import Transforms, interpolation, points_of
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index

SIZES = (4, 6)
TAPS = 3

# an index of U, or its extent
Axis = TypeVar("Axis")


@lru_cache(maxsize=4)
def paper_transforms(m: int) -> Transforms:
    """The paper's matrices of F(m, 3): ``A^T``, P (here ``g``) and ``Q^T`` (``bt``), unscaled.

    Section 1.2 has the matrices of F(4, 3). F(6, 3), which the paper measures but does not print,
    has the points 0, +-1, +-2, +-1/2.
    """
    found = interpolation(m, TAPS, points_of(m + TAPS - 1)[0])
    if found.bt[0][0] > 0:
        return found
    # a row of Q^T and the same row of P may change their signs together
    bt = (tuple(-value for value in found.bt[0]), *found.bt[1:])
    g = (tuple(-value for value in found.g[0]), *found.g[1:])
    return replace(found, bt=bt, g=g)


@dataclass(frozen=True)
class Packing:
    """Extents of G, D and U, and the places of their elements.

    ``m`` is the output tile, and ``s`` the products of a vector (S). ``br`` and ``kr`` are the
    register block (B_r, K_r), ``cl1`` and ``kl2`` the cache blocks (C_l1, K_l2). With ``tiles``,
    the positions of a register block are tiles instead of samples. With ``outer_eta``, ``eta/S`` is
    U's first axis.
    """

    workload: Conv2dWorkload
    machine: Machine
    config: Config

    @property
    def delta(self) -> int:
        """Rows of an input tile."""
        return self.config.int("m") + TAPS - 1

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles: the paper's Gamma and Lambda."""
        m, w = self.config.int("m"), self.workload
        return -(-w.out_height // m), -(-w.out_width // m)

    @property
    def eta(self) -> int:
        """Vectors of ``S`` products."""
        return -(-(self.delta**2) // self.config.int("s"))

    @property
    def channels(self) -> int:
        """Blocks of ``C_l1`` input channels."""
        present = self.machine.blocks(self.workload.in_channels) * self.machine.channel_block
        return -(-present // self.config.int("cl1"))

    @property
    def groups(self) -> int:
        """Blocks of ``K_r`` output channels, in whole blocks of ``K_l2``."""
        kr, kl2 = self.config.int("kr"), self.config.int("kl2")
        present = self.machine.blocks(self.workload.out_channels) * self.machine.channel_block
        return -(-present // kl2) * (kl2 // kr)

    @property
    def positions(self) -> tuple[int, int]:
        """Blocks of ``B_r`` samples, and tiles; or blocks of ``B_r`` tiles, and 1."""
        (rows, columns), batch, br = self.tiles, self.workload.batch, self.config.int("br")
        if self.config.int("tiles"):
            return -(-batch * rows * columns // br), 1
        return -(-batch // br), rows * columns

    def place(self, n: Expr, t: Expr) -> tuple[Index, Index, Index]:
        """Block, tile axis and place in the block of a sample's tile."""
        (rows, columns), br = self.tiles, self.config.int("br")
        if self.config.int("tiles"):
            at = n * (rows * columns) + t
            return at // br, 0, at % br
        return n // br, t, n % br

    def sample_of(self, q: Expr, mu: Expr, bf: Expr) -> tuple[Expr, Expr, list[Expr]]:
        """Sample and tile of a place, and the conditions under which they exist."""
        (rows, columns), br, batch = self.tiles, self.config.int("br"), self.workload.batch
        at, count = q * br + bf, rows * columns
        if not self.config.int("tiles"):
            return at, mu, [at < batch] if batch % br else []
        return at // count, at % count, [at < batch * count] if batch * count % br else []

    def weight_shape(self) -> tuple[int, ...]:
        """Shape of G."""
        c = self.config
        return self.eta, self.channels, self.groups, c.int("cl1"), c.int("kr"), c.int("s")

    def input_shape(self) -> tuple[int, ...]:
        """Shape of D."""
        c = self.config
        return (self.eta, self.channels, *self.positions, c.int("cl1"), c.int("br"), c.int("s"))

    def output_shape(self) -> tuple[int, ...]:
        """Shape of U."""
        c, (blocks, tiles) = self.config, self.positions
        outer = self.output_place(self.eta, self.groups, blocks, tiles)
        return (*outer, c.int("br"), c.int("kr"), c.int("s"))

    def output_place(self, e: Axis, kg: Axis, q: Axis, mu: Axis) -> tuple[Axis, ...]:
        """The outer indices of U in the configuration's order."""
        return (e, kg, q, mu) if self.config.int("outer_eta") else (kg, q, mu, e)
