"""Concatenates, slices, pads and shuffles blocked tensors."""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor


def concat_channels(tensors: Sequence[Tensor], channels: Sequence[int]) -> Tensor:
    """Join blocked tensors along their channels: ``(N, ceil(sum(channels) / c), H, W, c)``.

    If ``channels``, the channels of each tensor, are all multiples of ``c`` except the last, whole
    blocks are copied; otherwise runs of lanes.
    """
    batch, _, height, width, lanes = (int(d) for d in tensors[0].shape)
    total = sum(channels)
    starts = [sum(channels[:i]) for i in range(len(channels))]
    aligned = all(count % lanes == 0 for count in channels[:-1])

    def whole_blocks(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        value = tensors[-1][n, b - starts[-1] // lanes, h, w, c]
        for i in range(len(tensors) - 2, -1, -1):
            mine = tensors[i][n, b - starts[i] // lanes, h, w, c]
            value = tirx.if_then_else(b < starts[i + 1] // lanes, mine, value)
        return value

    def single_lanes(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        channel = b * lanes + c
        value: Expr = tirx.const(0, tensors[0].dtype)
        for i in range(len(tensors) - 1, -1, -1):
            local = channel - starts[i]
            mine = tensors[i][n, local // lanes, h, w, local % lanes]
            value = tirx.if_then_else(channel < starts[i] + channels[i], mine, value)
        return value

    return te.compute(
        (batch, -(-total // lanes), height, width, lanes),
        whole_blocks if aligned else single_lanes,
        name="concat_channels",
        attrs={"tvmconv.operator": "concat" if aligned else "concat_unaligned"},
    )


def slice_blocked(
    data: Tensor,
    channels: tuple[int, int],
    rows: tuple[int, int, int] | None = None,
    columns: tuple[int, int, int] | None = None,
) -> Tensor:
    """Cut a range of channels, rows and columns out of a blocked tensor.

    ``data`` is ``(N, CB, H, W, c)``. ``channels`` are begin and end; a begin that is a multiple of
    ``c`` keeps whole blocks. ``rows`` and ``columns`` are (first, count, step), where the step may
    be negative; None keeps all.
    """
    batch, _, height, width, lanes = (int(d) for d in data.shape)
    begin, end = channels
    row, row_count, row_step = rows or (0, height, 1)
    column, column_count, column_step = columns or (0, width, 1)
    last = int(data.shape[1]) - 1

    def element(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        y, x = row + h * row_step, column + w * column_step
        if begin % lanes == 0:
            return data[n, b + begin // lanes, y, x, c]
        channel = b * lanes + c + begin
        # surplus lanes of the last block may be beyond the data
        return data[n, tirx.min(channel // lanes, last), y, x, channel % lanes]

    return te.compute(
        (batch, -(-(end - begin) // lanes), row_count, column_count, lanes),
        element,
        name="slice_blocked",
        attrs={"tvmconv.operator": "slice_unaligned" if begin % lanes else "slice"},
    )


def pad_blocked(
    data: Tensor, top: int, left: int, bottom: int, right: int, value: float = 0.0
) -> Tensor:
    """Surround the image of a blocked tensor with rows and columns of a constant.

    Negative numbers of rows and columns crop the image.
    """
    batch, blocks, height, width, lanes = (int(d) for d in data.shape)

    def element(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        inside = []
        if top > 0:
            inside.append(h >= top)
        if bottom > 0:
            inside.append(h < top + height)
        if left > 0:
            inside.append(w >= left)
        if right > 0:
            inside.append(w < left + width)
        read = data[n, b, h - top, w - left, c]
        constant = tirx.const(value, data.dtype)
        return tirx.if_then_else(tirx.all(*inside), read, constant) if inside else read

    shape = (batch, blocks, height + top + bottom, width + left + right, lanes)
    return te.compute(shape, element, name="pad_blocked", attrs={"tvmconv.operator": "pad"})


def shuffle_channels(data: Tensor, channels: int, groups: int) -> Tensor:
    """Channel shuffle of blocked data: reshape to (groups, C / groups), transpose, reshape back.

    The logical ``channels`` are a multiple of ``groups``. Surplus lanes repeat the last channel.
    """
    lanes = int(data.shape[4])
    size = channels // groups

    def element(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        channel = b * lanes + c
        if channels % lanes:
            channel = tirx.min(channel, channels - 1)
        source = channel % groups * size + channel // groups
        return data[n, source // lanes, h, w, source % lanes]

    return te.compute(
        data.shape, element, name="shuffle_channels", attrs={"tvmconv.operator": "shuffle"}
    )


def pick(data: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    """Select rows and columns of a blocked or plain image by their indices; None keeps all."""
    shape = [*data.shape]
    for axis, numbers in ((2, rows), (3, columns)):
        if numbers is not None:
            shape[axis] = numbers.shape[0]

    def element(n: Expr, b: Expr, h: Expr, w: Expr, *rest: Expr) -> Expr:
        y = h if rows is None else rows[h]
        x = w if columns is None else columns[w]
        return data[(n, b, y, x, *rest)]

    return te.compute(shape, element, name="pick", attrs={"tvmconv.operator": "pick"})
