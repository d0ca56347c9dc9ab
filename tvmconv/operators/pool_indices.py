"""Places of the largest elements of pooling windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvmconv.operators.pool import PoolWindow
from tvmconv.operators.vector_loops import grid, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# taps along the last axis whose loops have constant bounds
_UNROLLED = 16


def max_pool_indices(
    data: Tensor, windows: Sequence[PoolWindow], output: Sequence[int], *, first_fastest: bool
) -> Tensor:
    """The number of the first largest element of each window, counted over the whole tensor.

    ``data`` is ``(planes, *image)``. Elements of a plane are counted with the last axis fastest, or
    with the first one if ``first_fastest``. Padding is never found. A row of results is compared
    tap by tap, which LLVM vectorizes.
    """
    planes, *image = (int(size) for size in data.shape)
    *outer, last = windows
    width, columns = image[-1], output[-1]
    strides = [prod(image[:i] if first_fastest else image[i + 1 :]) for i in range(len(image))]

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, target = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])
            with shared(planes) as plane:
                best, found = scratch(columns, str(data.dtype)), scratch(columns, "int32")
                with grid(output[:-1]) as rows:
                    with T.serial(0, columns) as column:
                        found[column] = tirx.const(-1, "int32")
                    with grid([window.kernel for window in outer]) as taps:
                        places = [
                            row * w.stride + tap * w.dilation - w.pad_before
                            for row, tap, w in zip(rows, taps, outer, strict=True)
                        ]
                        inside = [
                            tirx.all(place >= 0, place < size)
                            for place, size in zip(places, image, strict=False)
                        ]
                        row_number = sum(
                            (p * s for p, s in zip(places, strides, strict=False)),
                            tirx.const(0, "int32"),
                        )
                        with T.If(tirx.all(tirx.const(True, "bool"), *inside)), T.Then():
                            compare(source, best, found, [plane, *places], row_number)
                    with T.serial(0, columns) as column:
                        whole = tirx.Cast("int64", plane) * prod(image)
                        number = whole + tirx.Cast("int64", found[column])
                        target[(plane, *rows, column)] = number
            return builder.get()

    def compare(source: Any, best: Any, found: Any, row: list[Any], number: Any) -> None:
        def tap(element: Any) -> None:
            shift = element * last.dilation - last.pad_before
            low = tirx.max(0, (last.stride - 1 - shift) // last.stride)
            high = tirx.min(columns, (width - 1 - shift) // last.stride + 1)
            with T.serial(0, tirx.max(high - low, 0)) as step:
                column = low + step
                place = column * last.stride + shift
                value = source[(*row, place)]
                better = tirx.any(found[column] < 0, value > best[column])
                here = number + place * strides[-1]
                found[column] = tirx.Select(better, here, found[column])
                best[column] = tirx.Select(found[column] == here, value, best[column])

        if last.kernel <= _UNROLLED:
            for element in range(last.kernel):
                tap(tirx.const(element, "int32"))
        else:
            with T.serial(0, last.kernel) as element:
                tap(element)

    shape = [planes, *output]
    result: Any = te.extern([shape], [data], write, dtype=["int64"], name="max_pool_indices")
    return result
