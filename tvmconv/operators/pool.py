"""Pooling on the channel-blocked layout.

Padding is never materialized. Max pooling clamps the coordinate into the image, because repeating a
value does not change a maximum. Average pooling skips taps outside the image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.tirx import const
from tvmconv.tvm_api.types import Expr, Index, Tensor

# Windows up to this many taps become one expression, a tree, so that taps do not wait for each
# other. Larger windows are a reduction over rows of taps.
_UNROLLED_TAPS = 25
# name of the block of maxima over the rows of windows
LINES = "max_pool_lines"


@dataclass(frozen=True)
class PoolWindow:
    """A pooling window along one spatial axis.

    ``kernel``, ``stride`` and ``dilation`` are in elements; dilation 1 is dense. ``ceil_mode``
    rounds the output size up, as long as the last window starts inside the image or the padding
    before it (ONNX's rule).
    """

    kernel: int
    stride: int = 1
    pad_before: int = 0
    pad_after: int = 0
    dilation: int = 1
    ceil_mode: bool = False

    @property
    def span(self) -> int:
        """Elements from the first to the last tap."""
        return (self.kernel - 1) * self.dilation + 1

    def output(self, size: int) -> int:
        """Output elements for an input of this size."""
        room = size + self.pad_before + self.pad_after - self.span
        if not self.ceil_mode:
            return room // self.stride + 1
        count = -(-room // self.stride) + 1
        return count - ((count - 1) * self.stride >= size + self.pad_before)

    def tap(self, out: Expr, index: Index) -> Expr:
        """Input coordinate of a tap, possibly outside of the image."""
        return out * self.stride + (index * self.dilation - self.pad_before)

    def inside(self, size: int) -> bool:
        """Whether no tap of any window falls outside of the image."""
        last = (self.output(size) - 1) * self.stride + self.span - 1 - self.pad_before
        return self.pad_before == 0 and last < size

    def clampable(self, size: int) -> bool:
        """Whether clamping a coordinate into the image always stays within the window."""
        last_start = (self.output(size) - 1) * self.stride - self.pad_before
        return self.dilation == 1 and self.pad_before < self.kernel and last_start < size

    def count(self, out: Expr, size: int, include_pad: bool) -> Index:
        """Taps of a window that an average divides by, as an integer expression or constant."""
        low = -self.pad_before if include_pad else 0
        high = size + self.pad_after if include_pad else size
        last = (self.output(size) - 1) * self.stride + self.span - 1 - self.pad_before
        if low <= -self.pad_before and last < high:
            return self.kernel
        start = out * self.stride - self.pad_before
        if self.dilation == 1:
            return tirx.min(start + self.kernel, high) - tirx.max(start, low)
        taps = [start + k * self.dilation for k in range(self.kernel)]
        return sum(tirx.Select(tirx.all(t >= low, t < high), 1, 0) for t in taps)


def tree(values: list[Expr], combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """Combine pairwise, so that the depth is logarithmic."""
    while len(values) > 1:
        values = [
            combine(values[i], values[i + 1]) if i + 1 < len(values) else values[i]
            for i in range(0, len(values), 2)
        ]
    return values[0]


def max_pool(data: Tensor, rows: PoolWindow, columns: PoolWindow) -> Tensor:
    """Maximum over windows of ``(N, CB, H, W, c)``; padding is ignored."""
    height, width = int(data.shape[2]), int(data.shape[3])
    # the identity of the maximum, also below an infinity
    lowest = tirx.min_value(data.dtype) if "int" in str(data.dtype) else const(-inf, data.dtype)
    clamp = rows.clampable(height) and columns.clampable(width)
    few = rows.kernel * columns.kernel <= _UNROLLED_TAPS
    if data.dtype in ("int8", "uint8") and clamp and few:
        return _max_of_lines(data, rows, columns)

    def read(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        if clamp:
            h = h if rows.inside(height) else tirx.min(tirx.max(h, 0), height - 1)
            w = w if columns.inside(width) else tirx.min(tirx.max(w, 0), width - 1)
            return data[n, b, h, w, c]
        return _guarded(data, n, b, h, w, c, lowest, rows, columns)

    return _windows(data, rows, columns, read, te.max, tirx.max, "max_pool")


def _max_of_lines(data: Tensor, rows: PoolWindow, columns: PoolWindow) -> Tensor:
    """Maximum over windows of INT8: over rows first, by vectors of several positions.

    Schedules without a rule for the block ``max_pool_lines`` inline it.
    """
    batch, blocks, height, width, lanes = (int(d) for d in data.shape)
    lowest = tirx.min_value(data.dtype)

    def line(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        taps = [rows.tap(h, k) for k in range(rows.kernel)]
        if not rows.inside(height):
            taps = [tirx.min(tirx.max(tap, 0), height - 1) for tap in taps]
        return tree([data[n, b, tap, w, c] for tap in taps], tirx.max)

    shape = (batch, blocks, rows.output(height), width, lanes)
    lines = te.compute(shape, line, name=LINES)

    def element(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        taps = [columns.tap(w, k) for k in range(columns.kernel)]
        values = [lines[n, b, h, tap, c] for tap in taps]
        if not columns.inside(width):
            values = [
                tirx.if_then_else(tirx.all(tap >= 0, tap < width), value, lowest)
                for tap, value in zip(taps, values, strict=True)
            ]
        return tree(values, tirx.max)

    shape = (*shape[:3], columns.output(width), lanes)
    return te.compute(shape, element, name="max_pool", attrs={"tvmconv.operator": "max_pool"})


def avg_pool(
    data: Tensor, rows: PoolWindow, columns: PoolWindow, count_include_pad: bool = False
) -> Tensor:
    """Mean over windows of ``(N, CB, H, W, c)``.

    It divides by the taps in the image, or with ``count_include_pad`` in the image or its padding.
    """
    height, width = int(data.shape[2]), int(data.shape[3])
    zero = const(0, data.dtype)

    def read(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        return _guarded(data, n, b, h, w, c, zero, rows, columns)

    def scale(value: Expr, h: Expr, w: Expr) -> Expr:
        down = rows.count(h, height, count_include_pad)
        across = columns.count(w, width, count_include_pad)
        if isinstance(down, int) and isinstance(across, int):
            return value * const(1.0 / (down * across), data.dtype)
        return value * (const(1.0, data.dtype) / tirx.Cast(data.dtype, down * across))

    return _windows(data, rows, columns, read, te.sum, lambda a, b: a + b, "avg_pool", finish=scale)


def _guarded(
    data: Tensor,
    n: Expr,
    b: Expr,
    h: Expr,
    w: Expr,
    c: Expr,
    other: Expr,
    rows: PoolWindow,
    columns: PoolWindow,
) -> Expr:
    """An element of the image, or ``other`` outside of it."""
    height, width = int(data.shape[2]), int(data.shape[3])
    inside = []
    if not rows.inside(height):
        inside += [h >= 0, h < height]
    if not columns.inside(width):
        inside += [w >= 0, w < width]
    value = data[n, b, h, w, c]
    return tirx.if_then_else(tirx.all(*inside), value, other) if inside else value


def _windows(
    data: Tensor,
    rows: PoolWindow,
    columns: PoolWindow,
    read: Callable[..., Expr],
    reduce: Callable[..., Expr],
    combine: Callable[[Expr, Expr], Expr],
    name: str,
    finish: Callable[[Expr, Expr, Expr], Expr] | None = None,
) -> Tensor:
    batch, blocks, height, width, lanes = (int(d) for d in data.shape)
    shape = (batch, blocks, rows.output(height), columns.output(width), lanes)
    # for schedules, which see neither the windows nor their padding
    sizes = [rows.kernel, columns.kernel, rows.stride, columns.stride]
    padded = [int(not rows.inside(height)), int(not columns.inside(width))]
    attrs = {"tvmconv.operator": name, "tvmconv.window": [*sizes, *padded]}

    def row(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr, tap: Index) -> list[Expr]:
        line = rows.tap(h, tap)
        return [read(n, b, line, columns.tap(w, k), c) for k in range(columns.kernel)]

    def done(value: Expr, h: Expr, w: Expr) -> Expr:
        return finish(value, h, w) if finish else value

    if rows.kernel * columns.kernel <= _UNROLLED_TAPS:

        def element(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
            lines = [tree(row(n, b, h, w, c, k), combine) for k in range(rows.kernel)]
            return done(tree(lines, combine), h, w)

        return te.compute(shape, element, name=name, attrs=attrs)

    chunk = next(u for u in range(min(columns.kernel, 16), 0, -1) if columns.kernel % u == 0)
    tap_h = te.reduce_axis((0, rows.kernel), "tap_h")
    tap_w = te.reduce_axis((0, columns.kernel // chunk), "tap_w")

    def partial(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        line = rows.tap(h, tap_h)
        taps = [read(n, b, line, columns.tap(w, tap_w * chunk + k), c) for k in range(chunk)]
        return reduce(tree(taps, combine), axis=[tap_h, tap_w])

    total = te.compute(shape, partial, name=name, attrs=attrs)
    if finish is None:
        return total
    return te.compute(
        shape, lambda n, b, h, w, c: finish(total[n, b, h, w, c], h, w), name=f"{name}_output"
    )
