"""Bands and blocks of rows: splitting a layer for threads and caches."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.tvm_api.types import LoopRV, Schedule


def row_bands(pieces: int, tiles: int, cores: int, fewest: int = 2) -> int:
    """Bands of rows to cut an image into, so that every core gets at least four pieces of work.

    There are ``pieces`` of work without bands, and ``tiles`` rows of tiles in the image. A band
    keeps at least ``fewest`` of them.
    """
    if cores == 1 or pieces >= 4 * cores:
        return 1
    return min(max(1, tiles // fewest), -(-4 * cores // pieces))


def band_tiles(rows: int, tile_h: int, bands: int) -> int:
    """Row tiles of one band, if an image of ``rows`` rows is cut into ``bands`` bands.

    A band holds whole tiles, because two threads must not write the same row. If the tiles do not
    divide, there are more bands. The last tile's rows may exceed the image.
    """
    tiles = -(-rows // tile_h)
    return max(1, tiles // bands)


def cache_block(schedule: Schedule, tiles: LoopRV, config: Config) -> tuple[LoopRV, LoopRV]:
    """Split a loop over tile rows (or tiles) into cache blocks."""
    count = int(schedule.get(tiles).extent)
    outer, inner = schedule.split(tiles, [None, min(config.int("rows"), count) or count])
    return outer, inner
