"""Which tiles of an output axis touch the padding or the axis' end."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.workload import Conv2dWorkload


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a convolution; sizes in elements.

    Parameters
    ----------
    size, out
        Input and output extent.
    kernel, stride, dilation
        Taps, their distance in the input, and the step between outputs.
    pad
        Zeros before the first input element.
    """

    size: int
    out: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    def border_tiles(self, tile: int, outputs: int | None = None) -> tuple[int, int]:
        """Leading and trailing tiles that need a predicate.

        A tile of ``tile`` neighbouring outputs needs one where a tap falls outside the input or
        where the tile reaches past the last output.

        Parameters
        ----------
        tile
            Outputs in one tile.
        outputs
            Outputs covered by the loop, by default all.

        Returns
        -------
        head, tail
            Counts; together at most the number of tiles.
        """
        out = self.out if outputs is None else outputs
        tiles = -(-out // tile)
        head = min(tiles, -(-self.pad // (tile * self.stride)))
        # the last output whose taps all lie inside the input
        reach = self.size - 1 + self.pad - (self.kernel - 1) * self.dilation
        inner = min(out, reach // self.stride + 1) if reach >= 0 else 0
        return head, max(0, tiles - max(head, inner // tile))


def axes(workload: Conv2dWorkload) -> tuple[Axis, Axis]:
    """The vertical and the horizontal axis of a workload."""
    w = workload
    vertical = Axis(w.in_height, w.out_height, w.kernel_h, w.stride_h, w.dilation_h, w.pad_top)
    horizontal = Axis(w.in_width, w.out_width, w.kernel_w, w.stride_w, w.dilation_w, w.pad_left)
    return vertical, horizontal


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
