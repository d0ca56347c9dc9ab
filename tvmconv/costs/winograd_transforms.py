"""Arithmetic instructions of Winograd's transforms, of one tile in one channel."""

from __future__ import annotations

from tvmconv.algorithms.winograd.tiles import Tiling
from tvmconv.costs.cpu import constants


def input_arithmetic(tiles: Tiling) -> float:
    """Instructions of ``B^T d B``."""
    tall, wide = tiles.vertical.n, tiles.horizontal.n
    return tall * wide * (tall + wide) * constants.SHARED_TERMS


def output_arithmetic(tiles: Tiling) -> float:
    """Instructions of ``A^T M A``."""
    tall, wide = tiles.vertical.n, tiles.horizontal.n
    columns = wide * tall * tiles.mh * constants.SHARED_TERMS
    return columns + tiles.mh * wide * tiles.mw * constants.SHARED_TERMS
