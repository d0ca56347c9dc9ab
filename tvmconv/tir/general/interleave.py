"""Interleaves the 128-bit lanes of vector registers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from tvmconv.tir.general.rewrite import local_buffer

# x86 interleaves within lanes of this size, which are the whole registers of NEON
LANE_BYTES = 16


@dataclass
class Kept:
    """Statements that keep vectors of one type in buffers, which LLVM promotes to registers."""

    dtype: str
    statements: list[Any] = field(default_factory=list)

    def __call__(self, value: Any) -> Any:
        """A value in a buffer of its own."""
        lanes = int(value.ty.dtype.lanes)
        buffer = local_buffer((lanes,), self.dtype, "square")
        ramp = [tirx.Ramp(tirx.IntImm("int32", 0), tirx.IntImm("int32", 1), lanes)]
        self.statements.append(tirx.AllocBuffer(buffer))
        self.statements.append(tirx.BufferStore(buffer, value, ramp))
        return tirx.BufferLoad(buffer, ramp)


def interleaved(vectors: list[Any], lane: int, rounds: int, kept: Kept) -> list[Any]:
    """Interleave the first half of the vectors with the second half, ``rounds`` times.

    A lane has ``lane`` elements. Number an element by its vector and its place in a lane, both in
    bits. Each round rotates these bits to the left by one.
    """
    width, half = int(vectors[0].ty.dtype.lanes), len(vectors) // 2
    low, high = (
        [i % 2 * width + i // lane * lane + start + i % lane // 2 for i in range(width)]
        for start in (0, lane // 2)
    )
    for _ in range(rounds):
        pairs = zip(vectors[:half], vectors[half:], strict=True)
        vectors = [kept(shuffle(*pair, part)) for pair in pairs for part in (low, high)]
    return vectors


def lane_indices(long: int, lane: int, short: int) -> list[list[int]]:
    """For each of ``short`` vectors, the lines whose pieces of ``short`` elements it holds."""
    pieces = lane // short
    return [
        [
            first + vector * pieces + piece
            for first in range(0, long, lane)
            for piece in range(pieces)
        ]
        for vector in range(short)
    ]


def shuffle(a: Any, b: Any, indices: list[int]) -> Any:
    """Elements of two vectors, numbered one after the other."""
    return tirx.Shuffle([a, b], indices)
