"""How products, normalizations and layers are drawn: see :mod:`tests.sweeps.draws`."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tests.sweeps.draws import DIVISION, Case, Draw, Draws, Given, drawn

DRAWS: Draws = {}

_EXP = 14
# lanes of a vector: columns fill whole ones
_LANES = 16


def _product(draw: Draw, most: float = 2**23) -> tuple[int, int, int]:
    """Rows, terms and columns of a product."""
    while True:
        m, k, n = (draw.size(2 ** draw.random.uniform(0, 9)) for _ in range(3))
        if m * k * n <= most:
            return m, k, n


@drawn(DRAWS, "MatMul")
def product(draw: Draw) -> Case:
    m, k, n = _product(draw)
    batch = draw.pick((), (draw.size(8),), (1, draw.size(8)), (2, draw.size(3)))
    while prod(batch) * m * k * n > 2**24:
        batch = batch[1:]
    left, right = (*batch, m, k), draw.pick((*batch, k, n), (*batch, k, n), (k, n))
    if draw.pick(True, False, False):
        constant = draw.values(*right)
        return draw.case(left, constant, work=float(prod(batch) * m * k * max(n, _LANES)))
    return draw.case(left, right, work=float(prod(batch) * m * k * max(n, _LANES)))


@drawn(DRAWS, "Gemm")
def gemm(draw: Draw) -> Case:
    m, k, n = _product(draw)
    first, second = draw.pick(0, 1), draw.pick(0, 1)
    left, right = (k, m) if first else (m, k), (n, k) if second else (k, n)
    offset = draw.pick(None, draw.values(n), draw.values(m, 1), (m, n))
    other, work = draw.pick(right, draw.values(*right)), float(m * k * max(n, _LANES))
    return draw.case(left, other, offset, transA=first, transB=second, work=work)


@drawn(DRAWS, "Einsum")
def einsum(draw: Draw) -> Case:
    m, k, n = _product(draw, 2**20)
    b = draw.size(4)
    sizes = {"b": b, "i": m, "j": k, "k": n}
    equation = draw.pick("bij,bjk->bik", "bij,bkj->bik", "ij,jk->ki", "bji,bjk->bik", "bij,jk->bik",
                         "ij,ij->i", "bij,bij->bi", "i,j->ij")  # fmt: skip
    terms = equation.partition("->")[0].split(",")
    shapes = [tuple(sizes[letter] for letter in term) for term in terms]
    # columns fill whole vectors
    sizes["k"] = max(n, _LANES)
    work = float(prod(sizes[letter] for letter in set("".join(terms))))
    return draw.case(*shapes, equation=equation, work=work)


@drawn(DRAWS, "Conv", "ConvTranspose")
def convolution(draw: Draw) -> Case:
    rank = draw.pick(1, 2, 2, 2, 3)
    group = draw.pick(1, 1, 2, 4, 0)
    channels, features = draw.size(2 ** draw.random.uniform(0, 7)), draw.pick(1, 1, 2, 4)
    if group == 0:
        group, outputs = channels, channels * features
    else:
        channels = -(-channels // group) * group
        outputs = -(-draw.size(2 ** draw.random.uniform(0, 7)) // group) * group
    image = [draw.size(2 ** draw.random.uniform(2, 14 / rank - 1)) for _ in range(rank)]
    kernel = [draw.random.randint(1, min(draw.pick(3, 3, 7), size)) for size in image]
    stride = draw.pick(1, 1, 2)
    dense = channels // group * outputs * prod(kernel)
    while dense * prod(image) > 2**25 and max(image) > max(kernel):
        image = [max(size // 2, k) for size, k in zip(image, kernel, strict=True)]
    attributes: dict[str, Any] = {"group": group, "strides": [stride] * rank}
    shape = (draw.pick(1, 1, 2), channels, *image)
    if draw.operator == "ConvTranspose":
        weights = draw.values(channels, outputs // group, *kernel)
        results = prod(image)
    else:
        attributes["pads"] = [k // 2 for k in kernel] * 2
        weights = draw.values(outputs, channels // group, *kernel)
        windows = zip(image, kernel, strict=True)
        results = prod((s + 2 * (k // 2) - k) // stride + 1 for s, k in windows)
    # few outputs of a group fill no vector
    lanes = 1 if channels == group else max(1, 16 * group // outputs)
    work = float(shape[0] * dense * results * lanes)
    return draw.case(shape, weights, draw.values(outputs), work=work, **attributes)


@drawn(DRAWS, "BatchNormalization")
def batch(draw: Draw) -> Case:
    shape = draw.shape(2)
    scale, offset, mean = (draw.values(shape[1]) for _ in range(3))
    return draw.case(shape, scale, offset, mean, np.abs(draw.values(shape[1])) + 1, operations=3)


@drawn(DRAWS, "LpNormalization")
def lengths(draw: Draw) -> Case:
    shape = draw.shape()
    return draw.case(shape, axis=draw.axis(shape), p=draw.pick(1, 2), operations=8 + 3 * DIVISION)


@drawn(DRAWS, "MeanVarianceNormalization")
def mean_variance(draw: Draw) -> Case:
    shape = draw.image()
    axes = draw.pick([0, 2, 3], [2, 3], [1], [0, 1, 2, 3])
    if axes == [1] and shape[1] == 1:
        # the baseline divides 0 by 0
        axes = [0, 1, 2, 3]
    return draw.case(shape, axes=axes, operations=8 + 2 * DIVISION)


@drawn(DRAWS, "LRN")
def response(draw: Draw) -> Case:
    size = draw.pick(3, 5, 5, 9)
    return draw.case(draw.image(), size=size, operations=4 * _EXP + size)


@drawn(DRAWS, "Hardmax")
def hard(draw: Draw) -> Case:
    shape = draw.shape()
    return draw.case(shape, axis=draw.axis(shape), operations=6)


@drawn(DRAWS, "GlobalLpPool")
def global_pool(draw: Draw) -> Case:
    shape = draw.shape(3)
    return draw.case(shape, p=draw.pick(1, 2), work=4 * float(prod(shape)))


@drawn(DRAWS, "ReduceLogSum")
def log_sum(draw: Draw) -> Case:
    shape = draw.shape()
    values = Given(draw.numbers.uniform(0.1, 2, shape).astype("float32"))
    axes = draw.random.sample(range(len(shape)), draw.random.randint(1, len(shape)))
    work = 2.0 * prod(shape) + 2 * _EXP * prod(s for i, s in enumerate(shape) if i not in axes)
    return draw.case(values, np.array(sorted(axes)), keepdims=draw.pick(0, 1), work=work)


@drawn(DRAWS, "ReduceSum.typed", "ReduceMean.typed", "ReduceMax.typed", "ReduceMin.typed",
       "ArgMax.typed")  # fmt: skip
def reduction(draw: Draw) -> Case:
    shape = draw.shape()
    many = ("int32", "int64", "float64", "float16")
    dtype = draw.pick(*{"ReduceMax": (*many, "int8", "uint8"), "ArgMax": ("int32", "int8")}.get(
        draw.operator, many))  # fmt: skip
    work = 4.0 * prod(shape)
    if draw.operator == "ArgMax":
        return draw.case(shape, axis=draw.axis(shape), dtype=dtype, work=work)
    axes = sorted(draw.random.sample(range(len(shape)), draw.random.randint(1, len(shape))))
    return draw.case(shape, np.array(axes), keepdims=draw.pick(0, 1), dtype=dtype, work=work)


@drawn(DRAWS, "MaxPool.typed")
def pool(draw: Draw) -> Case:
    n, c, h, w = draw.image()
    k = draw.random.randint(1, min(3, h, w))
    stride, dtype = draw.pick(1, 2), draw.pick("uint8", "int8", "float64")
    return draw.case(
        (n, c, h, w), kernel_shape=[k, k], strides=[stride, stride], dtype=dtype,
        work=float(n * c * h * w) * 6,
    )  # fmt: skip


@drawn(DRAWS, "QuantizeLinear", "DequantizeLinear")
def quantized(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(shape)
    count = draw.pick((), (shape[axis],))
    dtype = draw.pick("uint8", "int8")
    scale = draw.numbers.uniform(0.01, 0.1, count).astype("float32")
    zero = draw.numbers.integers(0, 20, count).astype(dtype)
    if draw.operator == "DequantizeLinear":
        return draw.case(shape, scale, zero, axis=axis, dtype=dtype, operations=4)
    return draw.case(shape, scale, zero, axis=axis, operations=6 + DIVISION)


@drawn(DRAWS, "DynamicQuantizeLinear")
def ranges(draw: Draw) -> Case:
    return draw.case(draw.shape(), outputs=3, operations=12)


@drawn(DRAWS, "MatMulInteger")
def integers(draw: Draw) -> Case:
    m, k, n = _product(draw)
    zero, batch = np.array(draw.pick(0, 3), "uint8"), draw.pick((), (), (draw.size(4),))
    if draw.pick(True, False):
        right = draw.numbers.integers(-127, 128, (k, n)).astype("int8")
        return draw.case((m, k), right, zero, dtype="uint8",
                         work=float(m * k * max(n, 4 * _LANES)))  # fmt: skip
    while prod(batch) * m * k * n > 2**24:
        batch = ()
    dtype = draw.pick("int8", "uint8")
    right = draw.numbers.integers(0, 128, (*batch, k, n)).astype(dtype)
    work = float(prod(batch) * m * k * max(n, 4 * _LANES))
    return draw.case((*batch, m, k), Given(right), zero, dtype="uint8", work=work)


@drawn(DRAWS, "ReduceMean.rows")
def rows(draw: Draw) -> Case:
    """Averages of a few long or many short rows, of tensors of every size."""
    count, length = draw.size(2 ** draw.random.uniform(0, 10)), draw.pick(2, 3, 5, 7, 12, 31, 1000)
    return draw.case((count, length), np.array([1]), work=2.0 * count * length)


@drawn(DRAWS, "LSTM", "GRU", "RNN")
def recurrent(draw: Draw) -> Case:
    steps, batch = draw.size(2 ** draw.random.uniform(0, 6)), draw.pick(1, 1, 2, 8)
    inputs, hidden = (draw.size(2 ** draw.random.uniform(2, 7.5)) for _ in range(2))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[draw.operator]
    direction = draw.pick("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    weights = draw.values(ways, gates * hidden, inputs) / np.float32(np.sqrt(inputs))
    past = draw.values(ways, gates * hidden, hidden) / np.float32(np.sqrt(hidden))
    offsets = draw.values(ways, 2 * gates * hidden)
    terms = gates * (inputs + hidden + 3 * _EXP)
    return draw.case(
        (steps, batch, inputs), weights, past, offsets, hidden_size=hidden, direction=direction,
        work=float(ways * steps * batch * hidden * terms),
    )  # fmt: skip


@drawn(DRAWS, "RoiAlign")
def aligned(draw: Draw) -> Case:
    n, c, h, w = draw.image(128)
    count, side = draw.pick(1, 10, 50), draw.pick(1, 3, 7, 14)
    corners = draw.numbers.uniform(0, [w / 2, h / 2], (count, 2))
    boxes = np.concatenate([corners, corners + draw.numbers.uniform(1, [w / 2, h / 2], (count, 2))],
                           axis=1).astype("float32")  # fmt: skip
    places = draw.numbers.integers(0, n, count)
    work = float(count * side * side * 4 * 16 * (c * 4 + 40))
    return draw.case(
        (n, c, h, w), Given(boxes), Given(places), output_height=side, output_width=side,
        sampling_ratio=2, work=work,
    )  # fmt: skip


@drawn(DRAWS, "MaxUnpool")
def unpooled(draw: Draw) -> Case:
    n, c, h, w = draw.image(64)
    h, w = min(h, 64), min(w, 64)
    offsets = draw.numbers.integers(0, 2, (2, n, c, h, w))
    rows, columns = np.ogrid[:h, :w]
    planes = np.arange(n * c).reshape(n, c, 1, 1)
    indices = (planes * 2 * h + 2 * rows + offsets[0]) * 2 * w + 2 * columns + offsets[1]
    return draw.case((n, c, h, w), Given(indices), kernel_shape=[2, 2], strides=[2, 2],
                     operations=16)  # fmt: skip
