"""Bands of rows: splits a layer so that every thread has work."""

from __future__ import annotations


def row_bands(pieces: int, tiles: int, cores: int, minimum: int = 2) -> int:
    """Bands of rows to cut an image into, so that every core gets at minimum four pieces of work.

    Parameters
    ----------
    pieces
        Independent pieces of work without bands.
    tiles
        Row tiles of the image.
    cores
        Threads.
    minimum
        Minimum number of row tiles of a band.
    """
    if cores == 1 or pieces >= 4 * cores:
        return 1
    return min(max(1, tiles // minimum), -(-4 * cores // pieces))


def band_tiles(rows: int, tile_h: int, bands: int) -> int:
    """Row tiles of one band.

    A band has whole tiles. If the last tile reached into the next band, two threads would write its
    last rows, one of them without having computed them.

    Parameters
    ----------
    rows
        Rows of the image.
    tile_h
        Rows of a tile; the last tile may exceed the image.
    bands
        Number of bands; if the tiles do not divide, the result gives more bands.
    """
    tiles = -(-rows // tile_h)
    return max(1, tiles // bands)
