"""Arithmetic instructions of Winograd's transforms, of one tile in one channel."""

from __future__ import annotations

from tvmconv.algorithms.winograd.tiles import Tiling

# of a sum of so many terms, those that are left where rows of opposite points share their parts
_SHARED = 0.4


def input_arithmetic(tiles: Tiling) -> float:
    """Those of ``B^T d B``."""
    tall, wide = tiles.vertical.n, tiles.horizontal.n
    return tall * wide * (tall + wide) * _SHARED


def output_arithmetic(tiles: Tiling) -> float:
    """Those of ``A^T M A``."""
    tall, wide = tiles.vertical.n, tiles.horizontal.n
    return wide * tall * tiles.mh * _SHARED + tiles.mh * wide * tiles.mw * _SHARED
