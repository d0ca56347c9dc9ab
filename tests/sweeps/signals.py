"""How operators of signals, boxes and attention are drawn: see :mod:`tests.sweeps.draws`."""

from __future__ import annotations

from math import log2, prod

import numpy as np

from tests.sweeps.draws import DIVISION, Case, Draw, Draws, Given, drawn

DRAWS: Draws = {}

_EXP = 14
_GATHERED = 16
_LANES = 16


@drawn(DRAWS, "BitwiseNot")
def bits(draw: Draw) -> Case:
    return draw.case(draw.shape(), dtype=draw.pick("int32", "int64", "uint8"), operations=2)


@drawn(DRAWS, "BitShift")
def shift(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick("uint8", "uint32", "uint64")
    counts = draw.numbers.integers(0, 8, draw.pick((), shape)).astype(dtype)
    direction = draw.pick("LEFT", "RIGHT")
    count = draw.pick(counts, Given(counts))
    return draw.case(shape, count, dtype=dtype, direction=direction, operations=8)


@drawn(DRAWS, "AffineGrid")
def grid(draw: Draw) -> Case:
    n, c, h, w = draw.image(8)
    size = np.array([n, c, h, w])
    return draw.case((n, 2, 3), size, align_corners=draw.pick(0, 1), operations=4)


@drawn(DRAWS, "CenterCropPad")
def centered(draw: Draw) -> Case:
    shape = draw.image(32)
    sizes = np.array([max(1, round(s * draw.random.uniform(0.5, 1.4))) for s in shape[2:]])
    return draw.case(shape, sizes, axes=[2, 3], operations=2)


@drawn(DRAWS, "Col2Im")
def folded(draw: Draw) -> Case:
    n, c, h, w = draw.image(32)
    h, w = min(h, 64), min(w, 64)
    side, step = draw.pick((2, 2), (3, 1), (3, 2), (4, 4))
    side, step = min(side, h, w), min(step, h, w)
    blocks = [(size - side) // step + 1 for size in (h, w)]
    shape = (n, c * side * side, prod(blocks))
    while prod(shape) > draw.largest:
        shape, c = (n, max(1, c // 2) * side * side, shape[2]), max(1, c // 2)
    return draw.case(shape, np.array([h, w]), np.array([side, side]), strides=[step, step],
                     work=4.0 * prod(shape) + 2.0 * n * c * h * w)  # fmt: skip


@drawn(DRAWS, "DFT")
def spectrum(draw: Draw) -> Case:
    length = draw.pick(64, 128, 256, 400, 512, 320, 1024, 27)
    count = draw.size(2 ** draw.random.uniform(0, 7))
    parts, inverse = draw.pick((1, 0), (1, 0), (2, 0), (2, 1))
    onesided = draw.pick(0, 1) if parts == 1 else 0
    # a few operations of each element for each doubling, and as many moves
    work = 2.0 * count * length * 10 * log2(length)
    return draw.case((1, count, length, parts), None, np.array(2), inverse=inverse,
                     onesided=onesided, work=work)  # fmt: skip


@drawn(DRAWS, "STFT")
def frames(draw: Draw) -> Case:
    length = draw.pick(64, 128, 256, 400, 512)
    step = draw.pick(length // 2, length // 4, 160)
    signal = length + step * draw.size(2 ** draw.random.uniform(0, 7))
    window = np.hanning(length + 1)[:-1].astype("float32")
    count = (signal - length) // step + 1
    work = 2.0 * count * length * 10 * log2(length)
    return draw.case((1, signal, 1), np.array(step), window, np.array(length), onesided=1,
                     work=work)  # fmt: skip


@drawn(DRAWS, "Det")
def determinant(draw: Draw) -> Case:
    side, count = draw.pick(2, 3, 4, 8), draw.size(2 ** draw.random.uniform(0, 12))
    return draw.case((count, side, side), work=float(count * _LANES * (side**3 + 8 * DIVISION)))


@drawn(DRAWS, "NonMaxSuppression")
def suppressed(draw: Draw) -> Case:
    """Detections of one image, whose number depends on the data."""
    boxes = draw.size(2 ** draw.random.uniform(3, 12))
    classes = draw.pick(1, 1, 3, 20)
    corners = draw.numbers.uniform(0, 600, (1, boxes, 2))
    sides = draw.numbers.uniform(10, 200, (1, boxes, 2))
    given = np.concatenate([corners, corners + sides], 2).astype("float32")
    scores = draw.numbers.permutation(classes * boxes).reshape(1, classes, boxes) / boxes / classes
    most = draw.pick(10, 100, 300)
    limits = np.array([most]), np.array([0.5], "float32"), np.array([0.3], "float32")
    kept = min(most, boxes)
    work = float(classes * (boxes * _LANES * 16 + boxes * kept * 12))
    return draw.case(Given(given), Given(scores.astype("float32")), *limits, work=work)


@drawn(DRAWS, "NonZero")
def places(draw: Draw) -> Case:
    shape = draw.shape(1, 3, 1 << 16)
    values = draw.numbers.random(shape) < draw.pick(0.02, 0.5, 0.9)
    dtype = draw.pick("bool", "float32", "int64")
    return draw.case(Given(values.astype(dtype)), work=float(_GATHERED * prod(shape)) * len(shape))


@drawn(DRAWS, "Compress")
def chosen(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    axis = draw.axis(shape)
    kept = Given(draw.numbers.random(shape[axis]) < 0.5)
    lines = _GATHERED if prod(shape[axis + 1 :]) < _GATHERED else 2
    return draw.case(shape, kept, axis=axis, work=float(lines * prod(shape)) + 16 * shape[axis])


@drawn(DRAWS, "Unique")
def unique(draw: Draw) -> Case:
    count = draw.size(2 ** draw.random.uniform(2, 13))
    values = draw.numbers.integers(0, max(2, count // 2), count).astype(draw.dtype("int64"))
    # comparisons of a sort: many of its branches are mispredicted
    work = float(count * _LANES * (log2(count) + 4) * 12)
    return draw.case(Given(values), sorted=1, outputs=draw.pick(1, 4), work=work)


@drawn(DRAWS, "MaxRoiPool")
def pooled(draw: Draw) -> Case:
    n, c, h, w = draw.image(64)
    count, side = draw.pick(1, 10, 50), draw.pick(2, 7)
    first = draw.numbers.uniform(0, [w / 2, h / 2], (count, 2))
    last = first + draw.numbers.uniform(1, [w / 2, h / 2], (count, 2))
    image = draw.numbers.integers(0, n, (count, 1))
    boxes = np.concatenate([image, first, last], 1).astype("float32")
    return draw.case((n, c, h, w), Given(boxes), pooled_shape=[side, side],
                     work=float(count * c * (h * w / 2 + side * side * _LANES * 8)))  # fmt: skip


@drawn(DRAWS, "GroupNormalization")
def groups(draw: Draw) -> Case:
    n, c, h, w = draw.image(256)
    count = draw.pick(1, 2, 4, 8, 32)
    c = max(count, c // count * count)
    scale, offset = draw.values(c), draw.values(c)
    return draw.case((n, c, h, w), scale, offset, num_groups=count, operations=6)


@drawn(DRAWS, "RMSNormalization")
def root_mean_square(draw: Draw) -> Case:
    shape = draw.shape(2)
    work = 4.0 * prod(shape) + 3 * DIVISION * prod(shape[:-1])
    return draw.case(shape, draw.values(shape[-1]), axis=-1, work=work)


@drawn(DRAWS, "Swish")
def gated(draw: Draw) -> Case:
    return draw.case(draw.shape(), alpha=draw.pick(1.0, 1.702), operations=2 * _EXP)


@drawn(DRAWS, "RotaryEmbedding")
def rotary(draw: Draw) -> Case:
    batch, heads, length = draw.pick(1, 2), draw.pick(1, 4, 8), draw.size(64)
    size = draw.pick(16, 32, 64)
    angles = draw.numbers.uniform(0, 6, (batch, length, size // 2))
    tables = [f(angles).astype("float32") for f in (np.cos, np.sin)]
    return draw.case((batch, heads, length, size), *tables, interleaved=draw.pick(0, 1),
                     operations=6)  # fmt: skip


@drawn(DRAWS, "Attention")
def attention(draw: Draw) -> Case:
    batch, heads = draw.pick(1, 1, 2), draw.pick(1, 3, 8)
    length = draw.size(2 ** draw.random.uniform(2, 8))
    keys = draw.pick(length, length, draw.size(2 ** draw.random.uniform(2, 8)))
    size = draw.pick(16, 32, 64)
    query, key = (batch, heads, length, size), (batch, heads, keys, size)
    causal = draw.pick(0, 0, 1) if keys == length else 0
    columns = max(keys, _LANES)
    work = float(batch * heads * length * columns * (2 * size + 2 * _EXP))
    return draw.case(query, key, key, is_causal=causal, work=work)


@drawn(DRAWS, "ConvInteger")
def integer_convolution(draw: Draw) -> Case:
    channels, outputs = (draw.size(2 ** draw.random.uniform(1, 6.5)) for _ in range(2))
    h, w = (draw.size(2 ** draw.random.uniform(2, 6)) for _ in range(2))
    side = draw.pick(1, 3, 3)
    weights = draw.numbers.integers(-127, 128, (outputs, channels, side, side)).astype("int8")
    work = float(h * w * side * side * channels * max(outputs, 4 * _LANES))
    return draw.case(
        (1, channels, h, w), weights, np.array(draw.pick(0, 128), "uint8"), dtype="uint8",
        pads=[side // 2] * 4, work=work / 2,
    )  # fmt: skip


@drawn(DRAWS, "QLinearConv")
def quantized_convolution(draw: Draw) -> Case:
    case = integer_convolution(draw)
    weights = case.operands[1]
    assert isinstance(weights, np.ndarray) and case.work is not None
    scale, zero = np.array(0.02, "float32"), np.array(128, "uint8")
    scales = draw.numbers.uniform(0.001, 0.01, len(weights)).astype("float32")
    zeros = np.zeros(len(weights), "int8")
    offset = draw.numbers.integers(-1000, 1000, len(weights)).astype("int32")
    # few channels fill no vector, and each result is rounded
    rounded = 64.0 * (prod(case.inputs[0]) + len(weights) * prod(case.inputs[0][2:]))
    step = np.array(0.02 * 0.01 * 127 * np.sqrt(weights[0].size), "float32")
    return draw.case(
        case.inputs[0], scale, zero, weights, scales, zeros, step, zero, offset, dtype="uint8",
        pads=case.attributes["pads"], work=case.work + rounded,
    )  # fmt: skip


@drawn(DRAWS, "QLinearMatMul")
def quantized_product(draw: Draw) -> Case:
    m, k, n = (draw.size(2 ** draw.random.uniform(0, 8)) for _ in range(3))
    right = draw.numbers.integers(-127, 128, (k, n)).astype("int8")
    scale, zero = np.array(0.02, "float32"), np.array(128, "uint8")
    step = np.array(0.02 * 0.02 * 4000 * np.sqrt(k) / 64, "float32")
    return draw.case((m, k), scale, zero, right, scale, np.array(0, "int8"), step, zero,
                     dtype="uint8", work=float(m * max(n, 4 * _LANES) * (k + 8)))  # fmt: skip
