"""Which tiles of an output axis touch the padding or the axis' end."""

from __future__ import annotations

from dataclasses import dataclass


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
