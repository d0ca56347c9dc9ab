"""The annotations by which schedules request rewrites that TVM's schedule primitives lack.

A schedule sets them only by the ``mark_*`` functions of this module. One pass of the pipeline
applies and removes each annotation. Without these passes a function computes the same values, but
more slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Annotation:
    """The meaning of one annotation key of loops.

    ``loop`` is the loop that carries it, ``value`` the meaning of its value, and ``meaning`` the
    rewrite that the schedule requests. The pass of :mod:`tvmconv.tir.pipeline` that applies it is
    ``consumer``, by its name in TVM.
    """

    loop: str
    value: str
    meaning: str
    consumer: str


CASES = "tvmconv.cases"
TAPS = "tvmconv.taps"
PARALLEL = "tvmconv.parallel"
PREFETCH = "tvmconv.prefetch"
TAIL = "tvmconv.tail"
STREAM = "tvmconv.stream"
PANEL = "tvmconv.panel"
RESULT = "tvmconv.result"
TRANSPOSE = "tvmconv.transpose"
TRANSPOSE_LANES = "tvmconv.transpose_lanes"
TRANSPOSE_NEIGHBORS = "tvmconv.transpose_neighbors"
COMBINE = "tvmconv.combine"
SEGMENTS = "tvmconv.segments"
BOUND = "tvmconv.bound"
RANGE = "tvmconv.range"
FIRST_USE = "tvmconv.first_use"
INTERIOR = "tvmconv.interior"
TILE = "tvmconv.tile"
TILE_PANEL = "tvmconv.tile_panel"

# attribute of a GPU function: resident blocks of a multiprocessor, if other than the default
RESIDENT = "tvmconv.blocks_resident"
# Attribute of a function: the text that it was made from, with the machine. Equal texts are equal
# functions, and a text is far shorter than a function.
ORIGIN = "tvmconv.origin"

_FLAG = "1"

DECLARED = {
    CASES: Annotation(
        "over tiles",
        _FLAG,
        "border iterations, whose predicates differ from the interior's, become separate code",
        "tvmconv.Specialize",
    ),
    INTERIOR: Annotation(
        "inside other loops over tiles",
        _FLAG,
        "in the interior of outer loops, the loop is separate code without their predicates",
        "tvmconv.Specialize",
    ),
    TAPS: Annotation(
        "a reduction over the rows (or planes), or the columns, of the convolution kernel",
        '"rows", "range" (of rows) or "columns"',
        "taps that read outside the image are skipped; they must contribute nothing. Rows are "
        "tested one by one; a range limits the loop to the rows inside the image",
        "tvmconv.Specialize",
    ),
    PARALLEL: Annotation(
        "one of a perfect nest of outer loops",
        _FLAG,
        "the marked loops of the nest are fused into one parallel loop",
        "tvmconv.Specialize",
    ),
    PREFETCH: Annotation(
        "the innermost reduction of a register tile",
        "[inputs, weights], each 0 or 1",
        "each iteration prefetches a line of the next input, of the next weights, or of both",
        "tvmconv.Specialize",
    ),
    TAIL: Annotation(
        "over whole vectors, the vectorized loop inside",
        "[lanes of a vector, elements of the last vector], and 1 if it may overlap",
        "the last vector gets its own length in place of a test of every element, or it begins "
        "earlier, inside of the vector before it",
        "tvmconv.VectorTails",
    ),
    STREAM: Annotation(
        "the innermost reduction of a register tile",
        "distance in bytes",
        "each iteration prefetches the vector operand that far ahead",
        "tvmconv.PrefetchStreams",
    ),
    PANEL: Annotation(
        "over the tiles that use one panel of the vector operand",
        _FLAG,
        "each tile prefetches its share of the next panel",
        "tvmconv.PrefetchStreams",
    ),
    RESULT: Annotation(
        "over the tiles of a GEMM that accumulates in memory",
        _FLAG,
        "each tile prefetches its accumulators in memory before its reduction starts",
        "tvmconv.PrefetchResults",
    ),
    TRANSPOSE: Annotation(
        "around the vectorized loop of a copy",
        _FLAG,
        "squares of the copy are transposed in registers",
        "tvmconv.TransposeCopies",
    ),
    TRANSPOSE_LANES: Annotation(
        "around the vectorized loop of a copy",
        _FLAG,
        "the copy is one rectangle, transposed in each 128-bit lane of the registers",
        "tvmconv.TransposeCopies",
    ),
    TRANSPOSE_NEIGHBORS: Annotation(
        "around the vectorized loop of a copy",
        _FLAG,
        "the copy is one rectangle; its short lines follow each other in memory and are one vector",
        "tvmconv.TransposeCopies",
    ),
    COMBINE: Annotation(
        "a reduction over the lanes of a vector of partial results",
        _FLAG,
        "the lanes are combined in a tree",
        "tvmconv.CombineLanes",
    ),
    SEGMENTS: Annotation(
        "over spatial positions, with the unrolled blocks and the vectorized channels inside",
        "[vectors of a tile, reduction steps of a packed panel, or 0]",
        "so many scalable vectors of neighboring positions are computed at once; panels of so many "
        "steps are interleaved, so that each tile reads one stream",
        "tvmconv.sve.VectorizePixels",
    ),
    BOUND: Annotation(
        "a reduction whose operands are guarded by a number of steps known at run time",
        _FLAG,
        "the loop ends after this number of steps, without guards",
        "tvmconv.BoundLoops",
    ),
    RANGE: Annotation(
        "a reduction whose operands are guarded by comparisons of its step",
        _FLAG,
        "the loop has only the steps for which they hold, without guards; tiles are not cut "
        "where the outcome of these guards differs",
        "tvmconv.BoundLoops",
    ),
    FIRST_USE: Annotation(
        "one of a nest around a copy, before the loops over tiles that read it",
        _FLAG,
        "the first tile makes the copy while it reads",
        "tvmconv.CopyOnFirstUse",
    ),
    TILE: Annotation(
        "over the rows of a tile, with the loops over its columns inside",
        _FLAG,
        "the nest becomes an instruction on tile registers",
        "tvmconv.amx.TileCalls",
    ),
    TILE_PANEL: Annotation(
        "over groups of tiles",
        "groups that use one panel of weights",
        "each group prefetches its share of the next panel",
        "tvmconv.amx.SoftwarePipeline",
    ),
}


def consumed_by(name: str) -> tuple[str, ...]:
    """The annotations that a pass applies."""
    return tuple(key for key, declared in DECLARED.items() if declared.consumer == name)


def mark_cases(schedule: Any, *loops: Any) -> None:
    """Make border iterations of these loops separate code."""
    for loop in loops:
        schedule.annotate(loop, CASES, 1)


def mark_interior(schedule: Any, loop: Any) -> None:
    """Test predicates that outer loops decide once, before this loop."""
    schedule.annotate(loop, INTERIOR, 1)


def mark_taps(schedule: Any, rows: Any, columns: Any = None, *, bounded: bool = False) -> None:
    """Name the reduction loops over kernel rows (or planes) and, inside, columns.

    If a read's predicate fails, the read must contribute nothing to the reduction. Unmarked columns
    keep their predicates in the border copies. A bounded loop over rows needs no tests, but LLVM
    does not unroll it, because its trip count is unknown.
    """
    schedule.annotate(rows, TAPS, "range" if bounded else "rows")
    if columns is not None:
        schedule.annotate(columns, TAPS, "columns")


def mark_parallel(schedule: Any, *loops: Any) -> None:
    """Fuse these perfectly nested outer loops into one parallel loop."""
    for loop in loops:
        schedule.annotate(loop, PARALLEL, 1)


def mark_prefetch(schedule: Any, loop: Any, *, inputs: bool, weights: bool) -> None:
    """Prefetch the next inputs, the next weights, or both in the innermost reduction loop."""
    if inputs or weights:
        schedule.annotate(loop, PREFETCH, [int(inputs), int(weights)])


def mark_tail(schedule: Any, outer: Any, width: int, rest: int, *, overlap: bool = False) -> None:
    """Give the last iteration of a loop over vectors ``rest`` lanes in place of ``width``.

    Without it the code is correct, but scalar. With ``overlap``, the last vector is a whole one
    that computes some elements again. Iterations must be serial, and must depend on nothing that
    they write.
    """
    schedule.annotate(outer, TAIL, [width, rest, *([1] if overlap else [])])


def mark_last(schedule: Any, loop: Any) -> None:
    """Give the last iteration of a loop code of its own, where its tests have constant results."""
    schedule.annotate(loop, TAIL, [1, 1])


def mark_stream(schedule: Any, loop: Any, distance: int) -> None:
    """Prefetch the vector operand of an innermost reduction loop ``distance`` bytes ahead."""
    schedule.annotate(loop, STREAM, distance)


def mark_panel(schedule: Any, tiles: Any) -> None:
    """Prefetch the next panel of the vector operand in this loop over tiles that share a panel."""
    schedule.annotate(tiles, PANEL, 1)


def mark_result(schedule: Any, tiles: Any) -> None:
    """Prefetch the destination of each tile of this loop before its reduction starts."""
    schedule.annotate(tiles, RESULT, 1)


def mark_transpose(schedule: Any, loop: Any) -> None:
    """Transpose a copy between this loop and the vectorized loop inside it."""
    schedule.annotate(loop, TRANSPOSE, 1)


def mark_combine(schedule: Any, lanes: Any) -> None:
    """Combine partial results in a tree, not in the order of the loop."""
    schedule.annotate(lanes, COMBINE, 1)


def mark_segments(schedule: Any, pixels: Any, vectors: int, steps: int = 0) -> None:
    """Compute tiles of ``vectors`` scalable vectors along a loop over single positions.

    With ``steps``, packed panels of so many reduction steps are interleaved: each step holds the
    vectors of a whole tile. Such a buffer must have space for whole tiles of the longest vectors.
    All loops that access it must have the same marks.
    """
    schedule.annotate(pixels, SEGMENTS, [vectors, steps])


def mark_bound(schedule: Any, loop: Any) -> None:
    """End a reduction where the guards ``step < bound`` of its operands begin to fail."""
    schedule.annotate(loop, BOUND, 1)


def mark_range(schedule: Any, loop: Any) -> None:
    """Run the steps of a reduction for which the guards of its operands hold.

    The guards are comparisons that are linear in the loop's variable, the same for all operands.
    """
    schedule.annotate(loop, RANGE, 1)


def mark_first_use(schedule: Any, loop: Any) -> None:
    """Make a copy, whose nest contains this loop, inside the first tile that reads it."""
    schedule.annotate(loop, FIRST_USE, 1)


def mark_tile(schedule: Any, pixels: Any) -> None:
    """Replace a nest of loops over the values of a tile by one instruction.

    Without the AMX passes the code is correct, but scalar.
    """
    schedule.annotate(pixels, TILE, 1)


def mark_tile_panel(schedule: Any, groups: Any, count: int) -> None:
    """Let ``count`` groups of tiles, which share a panel of weights, prefetch the next panel."""
    schedule.annotate(groups, TILE_PANEL, count)


def mark_copy_by_registers(schedule: Any, copy: Any, two_buffers: bool) -> None:
    """Load a copy to shared memory to registers first, optionally with double buffering.

    TVM's own passes apply this annotation, as with :func:`mark_pipeline`.
    """
    schedule.annotate(copy, "tirx.manifest_shared_memory_local_stage", 1)
    if two_buffers:
        schedule.annotate(copy, "double_buffer_scope", 0)


def mark_pipeline(schedule: Any, loop: Any, stages: list[int], order: list[int]) -> None:
    """Software-pipeline a loop: its statements run ``stages`` iterations apart, in this order."""
    schedule.annotate(loop, "software_pipeline_stage", stages)
    schedule.annotate(loop, "software_pipeline_order", order)


def mark_rolled(schedule: Any, loop: Any) -> None:
    """Prevent nvcc from unrolling this loop of a kernel.

    TVM's code generator applies this annotation. Otherwise nvcc may reorder the code after a main
    loop so far that the loop moves accumulators between registers.
    """
    schedule.annotate(loop, "disable_unroll", 1)
