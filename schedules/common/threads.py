"""Bands and blocks of rows: splitting a layer for threads and caches."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.tvm_api.types import LoopRV, Schedule


def row_bands(pieces: int, tiles: int, cores: int, least: int = 2) -> int:
    """Bands of rows to cut an image into, so that every core gets at least four pieces of work.

    Parameters
    ----------
    pieces
        Independent pieces of work without bands.
    tiles
        Row tiles of the image.
    cores
        Threads.
    least
        Row tiles that a band keeps.
    """
    if cores == 1 or pieces >= 4 * cores:
        return 1
    return min(max(1, tiles // least), -(-4 * cores // pieces))


def band_tiles(rows: int, tile_h: int, bands: int) -> int:
    """Row tiles of one band.

    A band holds whole tiles: the last rows of a tile that reached into the next band would be
    written by two threads, and by one of them with what it never computed.

    Parameters
    ----------
    rows
        Rows of the image.
    tile_h
        Rows of a tile; those of the last one may exceed the image.
    bands
        How many to cut into; where the tiles do not divide, more come out.
    """
    tiles = -(-rows // tile_h)
    return max(1, tiles // bands)


def cache_block(schedule: Schedule, tiles: LoopRV, config: Config) -> tuple[LoopRV, LoopRV]:
    """Split a loop over tile rows (or tiles) into cache blocks."""
    count = int(schedule.get(tiles).extent)
    outer, inner = schedule.split(tiles, [None, min(config.int("rows"), count) or count])
    return outer, inner
