"""Implicit zero padding: a predicate on what is read instead of a padded copy of the input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.tvm_api.types import Expr, Index

# columns of a kernel from which on tests cost more than loops over ranges of them
LONG_ROW = 16
# copies of a loop's body, one for each case, beyond which code size costs more than predicates
MOST_COPIES = 7


def zero_unless(tests: Sequence[Expr], value: Expr, zero: Expr | None = None) -> Expr:
    """The value if all tests hold, else ``zero``."""
    from tvmconv.operators.math import literal
    from tvmconv.tvm_api import tirx

    if not tests:
        return value
    outside = literal(0, value) if zero is None else zero
    return tirx.if_then_else(tirx.all(*tests), value, outside)


def image_tests(
    workload: Conv2dWorkload, row: Expr, column: Expr, lowest: int, rightmost: int
) -> list[Expr]:
    """Whether an input position is in the image, without the tests that cannot fail.

    ``lowest`` and ``rightmost`` are the largest row and column that are ever read.
    """
    tests = []
    if workload.pad_top:
        tests.append(row >= 0)
    if lowest >= workload.in_height:
        tests.append(row < workload.in_height)
    if workload.pad_left:
        tests.append(column >= 0)
    if rightmost >= workload.in_width:
        tests.append(column < workload.in_width)
    return tests


def input_plane(workload: Conv2dWorkload, image: Expr, tap: Index) -> tuple[Expr, list[Expr]]:
    """Number of the input plane that a tap along the depth reads, and tests that it exists.

    ``image`` is the number of the output plane, over all volumes of the batch. Without a depth it
    is also the number of the input plane.
    """
    w = workload
    if not w.is_volume:
        return image, []
    plane = image % w.out_depth * w.stride_d + tap * w.dilation_d - w.pad_front
    last = (w.out_depth - 1) * w.stride_d + (w.kernel_d - 1) * w.dilation_d - w.pad_front
    tests = [plane >= 0] if w.pad_front else []
    tests += [plane < w.in_depth] if last >= w.in_depth else []
    return image // w.out_depth * w.in_depth + plane, tests


def inside_image(
    value: Expr,
    row: Expr,
    column: Expr,
    workload: Conv2dWorkload,
    tests: Sequence[Expr] = (),
    zero: Expr | None = None,
) -> Expr:
    """The value if its input position is in the image, else ``zero``.

    FMAs of zero are removed if the predicate is false at compile time. Otherwise the predicate
    stays in the hot loop. There, select the product if each FMA reads one vector (depthwise).
    Select the input if one scalar feeds several FMAs (first layers).

    ``value`` reads the input at ``(row, column)``. ``tests`` are further conditions, see
    :func:`input_plane`.
    """
    w = workload
    lowest = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h - w.pad_top
    rightmost = (w.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w - w.pad_left
    return zero_unless([*tests, *image_tests(w, row, column, lowest, rightmost)], value, zero)


@lru_cache(maxsize=1024)
def computed_share(workload: Conv2dWorkload) -> float:
    """Share of the taps that kernels compute whose loops over long rows end at the padding."""
    w = workload
    if w.kernel_w < LONG_ROW:
        return 1.0
    firsts = [x * w.stride_w - w.pad_left for x in range(w.out_width)]
    taps = [first + s * w.dilation_w for first in firsts for s in range(w.kernel_w)]
    return sum(0 <= column < w.in_width for column in taps) / len(taps)
