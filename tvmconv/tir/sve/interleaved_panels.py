"""Packed panels as wide as a tile of scalable vectors, for any vector length.

A part of :func:`tvmconv.tir.sve.vectorize_pixels.VectorizePixels`. Schedules make panels that are
one segment wide, with contiguous steps. The pass interleaves the panels of a tile: a step of all
panels, then the next step. A tile then reads one stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import tirx

from tvmconv.tir.general.rewrite import rebuilt, substitute
from tvmconv.tir.sve.vectors import SEGMENT, is_number, number


@dataclass(frozen=True)
class Panels:
    """The panels that a loop over segments reads or writes.

    ``steps`` is the distance of neighboring panels, in segments, before interleaving. A tile has
    ``vectors`` vectors.
    """

    buffers: frozenset[Any]
    steps: int
    vectors: int

    def place(self, buffer: Any, tile: Any, offset: Any, step: Any) -> Any:
        """The index of a segment's first value.

        The buffer is of FP32, or of vectors of four FP32 values. ``offset`` is the segment's index
        in the tile, and ``step`` the index of this step in the very first panel.
        """
        each = SEGMENT // int(buffer.dtype.lanes)
        wide = self.vectors * tirx.vscale()
        return (tile * (self.steps * each) + step) * wide + offset * each

    def by_segment(self, loop: Any, analyzer: Any) -> Any:
        """The loop without vectors, which writes interleaved panels."""
        panel, wide = loop.loop_var, self.vectors * tirx.vscale()

        def store(node: Any) -> Any:
            if node.buffer not in self.buffers:
                return node
            (index,) = node.indices
            ramp = isinstance(index, tirx.Ramp)
            value = substitute(index.base if ramp else index, {panel: number(0)})
            # a store of one value may begin inside the segment
            inside = tirx.floormod(value, SEGMENT // int(node.buffer.dtype.lanes))
            places = tirx.truncdiv(panel, wide), tirx.truncmod(panel, wide)
            step, inside = analyzer.simplify(value - inside), analyzer.simplify(inside)
            first = self.place(node.buffer, *places, step) + inside
            where = tirx.Ramp(first, index.stride, index.lanes) if ramp else first
            return tirx.BufferStore(node.buffer, node.value, [where])

        return rebuilt(loop, body=tvm_ffi.structural_map(loop.body, (tirx.BufferStore, store)))


def panels_of(loop: Any, vectors: int, steps: int, analyzer: Any) -> Panels:
    """The panels that a marked loop writes."""
    found = set()

    def look(store: Any) -> None:
        (index,) = store.indices
        first = index.base if isinstance(index, tirx.Ramp) else index
        step = substitute(first, {loop.loop_var: loop.loop_var + 1}) - first
        if is_number(analyzer.simplify(step), steps * SEGMENT // int(store.buffer.dtype.lanes)):
            found.add(store.buffer)

    # panels of one step are contiguous, interleaved or not
    if steps > 1:
        tvm_ffi.structural_walk(loop.body, (tirx.BufferStore, look))
    return Panels(frozenset(found), steps, vectors)


@dataclass
class PanelUse:
    """The panels of a function, and whether all their accesses use the same tiles.

    ``accesses`` counts accesses to each buffer in the function.
    """

    accesses: Mapping[Any, int]
    _written: dict[Any, tuple[int, int]] = field(default_factory=dict)
    _counted: dict[Any, int] = field(default_factory=dict)

    def add(self, written: Panels) -> None:
        """Note the panels that a loop writes."""
        for buffer in written.buffers:
            self._written[buffer] = (written.steps, written.vectors)

    def of(self, vectors: int, steps: int) -> Panels:
        """The panels that a loop with these marks may access."""
        form = (steps, vectors)
        return Panels(frozenset(b for b, own in self._written.items() if own == form), *form)

    def count(self, panels: Panels, accesses: Mapping[Any, int]) -> None:
        """Note the accesses of a loop to interleaved panels."""
        for buffer in panels.buffers:
            self._counted[buffer] = self._counted.get(buffer, 0) + accesses.get(buffer, 0)

    @property
    def whole(self) -> bool:
        """Whether every access uses interleaved panels."""
        return all(self._counted.get(b) == self.accesses[b] for b in self._written)
