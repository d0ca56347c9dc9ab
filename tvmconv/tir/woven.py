"""Packed panels whose width is that of a tile of scalable vectors, whatever their length is.

A part of :func:`tvmconv.tir.segments.Segments`. Until there, a panel is as wide as one segment: its
steps follow each other, and the panel of the next segment lies behind them. Of a tile of vectors
the panels are woven: a step of all of them, then the next one, so that a tile reads one stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmconv.tir.vectors import SEGMENT


@dataclass(frozen=True)
class Woven:
    """The panels of one vector of a tile.

    Parameters
    ----------
    steps
        Steps of a panel: the distance of neighbouring ones, in segments, before they are woven.
    vectors, vector
        How many a tile has, and which of them this is.
    tile
        The variable that numbers the tiles.
    found
        Buffers of panels that are accessed in the loop over tiles; they are added here.
    """

    steps: int
    vectors: int
    vector: int
    tile: Any
    found: set[Any]

    def place(self, buffer: Any, step: Any) -> Any:
        """The index of the vector's first value.

        Parameters
        ----------
        buffer
            The buffer, of float32 or of vectors of four.
        step
            The index that the first panel of all has in this step.
        """
        from tvm import tirx

        self.found.add(buffer)
        each = SEGMENT // int(buffer.dtype.lanes)
        wide = self.vectors * tirx.vscale()
        first = self.tile * (self.steps * each) + step
        return first * wide + self.vector * tirx.vscale() * each


@dataclass
class Weaving:
    """Which buffers of a function are woven, and whether all that accesses them is.

    Parameters
    ----------
    accesses
        How often each buffer that is no argument is accessed in the function.
    """

    accesses: Mapping[Any, int]
    _forms: dict[Any, set[tuple[int, int]]] = field(default_factory=dict)
    _counted: dict[Any, int] = field(default_factory=dict)

    def add(self, found: set[Any], form: tuple[int, int], accesses: Mapping[Any, int]) -> None:
        """Note the woven buffers of one loop, its vectors and steps, and what it accesses."""
        for buffer in found:
            self._forms.setdefault(buffer, set()).add(form)
            self._counted[buffer] = self._counted.get(buffer, 0) + accesses[buffer]

    @property
    def whole(self) -> bool:
        """Whether every access goes by the same tiles."""
        return all(
            len(forms) == 1 and self._counted[buffer] == self.accesses.get(buffer)
            for buffer, forms in self._forms.items()
        )
