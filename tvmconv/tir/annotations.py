"""The annotations by which schedules ask for rewrites that TVM's schedule primitives lack.

A schedule sets them through the ``mark_*`` functions here and in no other way. Each is worked off
and removed by one pass of the pipeline; a function whose annotations are ignored computes the same
values, only slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Annotation:
    """What one key in the annotations of a loop asks for.

    Parameters
    ----------
    loop
        Which loop carries it.
    value
        What its value says.
    meaning
        What the schedule asks for.
    consumer
        The pass of :mod:`tvmconv.tir.pipeline` that works it off, by its name in TVM.
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
SEGMENTS = "tvmconv.segments"
BOUND = "tvmconv.bound"
FIRST_USE = "tvmconv.first_use"
INTERIOR = "tvmconv.interior"
TILE = "tvmconv.tile"
TILE_PANEL = "tvmconv.tile_panel"

# attribute of a function for GPUs: blocks that a multiprocessor shall hold, if not the usual ones
RESIDENT = "tvmconv.blocks_resident"

_FLAG = "1"

DECLARED = {
    CASES: Annotation(
        "over tiles",
        _FLAG,
        "iterations whose predicates differ from those of the interior become separate code",
        "tvmconv.Specialize",
    ),
    INTERIOR: Annotation(
        "inside of others over tiles",
        _FLAG,
        "where loops around it are in the interior, it is separate code without their predicates",
        "tvmconv.Specialize",
    ),
    TAPS: Annotation(
        "a reduction over the rows (or planes), or the columns, of the convolution kernel",
        '"rows", "range" (of rows) or "columns"',
        "taps that read outside the image are skipped; they must contribute nothing. Rows are "
        "tested one by one; of a range the loop begins and ends where they are inside",
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
        "over whole vectors, the vectorised loop inside",
        "[lanes of a vector, elements of the last one]",
        "the last vector gets its own length instead of a test of every element",
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
        "over the tiles of a product that is summed in memory",
        _FLAG,
        "each tile prefetches what it will add to before its reduction starts",
        "tvmconv.PrefetchResults",
    ),
    TRANSPOSE: Annotation(
        "around the vectorised loop of a copy",
        _FLAG,
        "squares of the copy are transposed in registers",
        "tvmconv.TransposeCopies",
    ),
    SEGMENTS: Annotation(
        "over pixels, the unrolled blocks and the vectorised channels inside",
        "[vectors of a tile, steps between neighbouring pixels of woven buffers, or 0]",
        "so many vectors of neighbouring pixels are computed at once, of whatever length they are; "
        "of buffers whose pixels lie so many segments apart the tiles follow each other",
        "tvmconv.sve.VectorizePixels",
    ),
    BOUND: Annotation(
        "a reduction whose operands are guarded by a number of steps that is read",
        _FLAG,
        "the loop ends there, without guards",
        "tvmconv.BoundLoops",
    ),
    FIRST_USE: Annotation(
        "one of a nest around a copy, in front of the loops over tiles that read it",
        _FLAG,
        "the first tile makes the copy while it reads",
        "tvmconv.CopyOnFirstUse",
    ),
    TILE: Annotation(
        "over the pixels of a tile, the loops over its other values inside",
        _FLAG,
        "the nest becomes an instruction on registers that hold tiles",
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
    """The annotations that a pass works off."""
    return tuple(key for key, declared in DECLARED.items() if declared.consumer == name)


def mark_cases(schedule: Any, *loops: Any) -> None:
    """Let border iterations of these loops become separate code."""
    for loop in loops:
        schedule.annotate(loop, CASES, 1)


def mark_interior(schedule: Any, loop: Any) -> None:
    """Test the predicates that loops around this one decide once, outside of it."""
    schedule.annotate(loop, INTERIOR, 1)


def mark_taps(schedule: Any, rows: Any, columns: Any = None, *, bounded: bool = False) -> None:
    """Name the reduction loops over kernel rows (or planes) and, inside, columns.

    Where a read's predicate fails, the read must contribute nothing to the reduction. Columns
    left out keep their predicates in the border copies. A bounded loop over rows tests none of
    them, but LLVM does not write out its iterations either, of which it does not know how many
    there are.
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


def mark_tail(schedule: Any, outer: Any, width: int, rest: int) -> None:
    """Give the last iteration of a loop over vectors ``rest`` lanes instead of ``width``.

    Without it the code is right, but scalar.
    """
    schedule.annotate(outer, TAIL, [width, rest])


def mark_stream(schedule: Any, loop: Any, distance: int) -> None:
    """Prefetch the vector operand of an innermost reduction loop ``distance`` bytes ahead."""
    schedule.annotate(loop, STREAM, distance)


def mark_panel(schedule: Any, tiles: Any) -> None:
    """Prefetch the next panel of the vector operand in this loop over the tiles that use one."""
    schedule.annotate(tiles, PANEL, 1)


def mark_result(schedule: Any, tiles: Any) -> None:
    """Prefetch what each tile of this loop will write before its reduction starts."""
    schedule.annotate(tiles, RESULT, 1)


def mark_transpose(schedule: Any, loop: Any) -> None:
    """Copy vectors along this loop to vectors along the vectorised one inside, or the reverse."""
    schedule.annotate(loop, TRANSPOSE, 1)


def mark_segments(schedule: Any, pixels: Any, vectors: int, steps: int = 0) -> None:
    """Compute tiles of ``vectors`` scalable vectors along a loop over single pixels.

    With ``steps``, buffers of the function in which the values of neighbouring pixels lie so many
    segments apart hold the vectors of a tile together, step for step. They must have room for
    whole tiles of the longest vectors; loops that see the same one must have the same numbers.
    """
    schedule.annotate(pixels, SEGMENTS, [vectors, steps])


def mark_bound(schedule: Any, loop: Any) -> None:
    """Let a reduction end where the guards ``step < bound`` of its operands begin to fail."""
    schedule.annotate(loop, BOUND, 1)


def mark_first_use(schedule: Any, loop: Any) -> None:
    """Let the first tile that reads a copy, in a nest of loops around this one, make it."""
    schedule.annotate(loop, FIRST_USE, 1)


def mark_tile(schedule: Any, pixels: Any) -> None:
    """Let a nest of loops over the values of a tile be one instruction.

    Without the passes that know it the code is right, but scalar.
    """
    schedule.annotate(pixels, TILE, 1)


def mark_tile_panel(schedule: Any, groups: Any, count: int) -> None:
    """Let each group of tiles prefetch a share of the weights that come behind ``count`` groups."""
    schedule.annotate(groups, TILE_PANEL, count)


def mark_copy_by_registers(schedule: Any, copy: Any, two_buffers: bool) -> None:
    """Let a copy to shared memory load to registers first; two buffers take turns if asked for.

    For TVM's own passes, as :func:`mark_pipeline`.
    """
    schedule.annotate(copy, "tirx.manifest_shared_memory_local_stage", 1)
    if two_buffers:
        schedule.annotate(copy, "double_buffer_scope", 0)


def mark_pipeline(schedule: Any, loop: Any, stages: list[int], order: list[int]) -> None:
    """Let the statements of a loop's body belong to iterations ``stages`` apart, in this order."""
    schedule.annotate(loop, "software_pipeline_stage", stages)
    schedule.annotate(loop, "software_pipeline_order", order)


def mark_rolled(schedule: Any, loop: Any) -> None:
    """Let nvcc not unroll this loop of a kernel.

    For TVM's own code generator, as :func:`mark_pipeline` for its passes. Of what follows a main
    loop nvcc may otherwise order so much that it moves sums from register to register in the loop.
    """
    schedule.annotate(loop, "disable_unroll", 1)
