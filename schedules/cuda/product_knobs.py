"""Schedule parameters that all schedules of a tiled GEMM share."""

from __future__ import annotations

from functools import partial

from tvmconv.algorithms.cuda.implicit_gemm import ImplicitGemm
from tvmconv.core.knobs import Knob
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.blocks import PIPELINE_KNOB, ROWS_KNOB, columns_knob
from tvmconv.costs.cuda.tiles import part_counts, slice_sizes


def product_knobs(expression: ImplicitGemm) -> tuple[Knob[Conv2dWorkload], ...]:
    """Tile, slices, parts and pipeline of an expression's GEMM."""
    kinds: Knob[Conv2dWorkload] = Knob(
        "slice",
        "what a slice holds: channels of one tap, or all channels of a row (im2win: of a column) "
        "or of the window",
        lambda w, machine: expression.slice_kinds(w),
        closed=True,
    )
    return (
        ROWS_KNOB,
        columns_knob("pixels"),
        Knob("k", "values of a slice of the reduction", partial(slice_sizes, expression)),
        *((kinds,) if expression.slice_knob else ()),
        Knob(
            "split",
            "parts of the reduction, a divisor of the slices",
            partial(part_counts, expression),
        ),
        PIPELINE_KNOB,
    )
