"""Cutting one layer into enough pieces for all threads."""

from __future__ import annotations


def row_bands(pieces: int, rows: int, cores: int) -> int:
    """Bands of rows to cut an image into, so that every core gets at least four pieces of work.

    Parameters
    ----------
    pieces
        Independent pieces of work without bands.
    rows
        Row tiles of the image; a band keeps at least two.
    cores
        Threads.
    """
    if cores == 1 or pieces >= 4 * cores:
        return 1
    return min(max(1, rows // 2), -(-4 * cores // pieces))
