"""How further attributes and types of operators are drawn: see :mod:`tests.sweeps.draws`."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tests.sweeps import layers, operators, windows
from tests.sweeps.draws import DIVISION, Case, Draw, Draws, Given, drawn

DRAWS: Draws = {}

_EXP = 14
_GATHERED = 16
_LANES = 16


@drawn(DRAWS, "Pad.modes")
def pad(draw: Draw) -> Case:
    """Images and signals whose borders are mirrored or repeated, as before convolutions."""
    image = draw.image(64)
    shape = draw.pick(image, (1, 1, prod(image[2:])), image)
    sides = [draw.random.randint(0, min(3, size - 1)) for size in shape[2:]]
    both = [0, 0, *sides, 0, 0, *sides]
    mode = draw.pick("reflect", "edge", "reflect", "wrap")
    dtype = draw.dtype("float16", "uint8", "int64")
    return draw.case(shape, np.array(both), mode=mode, dtype=dtype, operations=2)


@drawn(DRAWS, "Slice.axes")
def part(draw: Draw) -> Case:
    """Several axes, also backwards."""
    shape = draw.shape(2)
    axes = sorted(draw.random.sample(range(len(shape)), draw.random.randint(1, len(shape))))
    begins, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        step = draw.pick(1, 1, 2, -1)
        first = draw.random.randrange(size)
        last = draw.random.randint(first + 1, size)
        begins.append(last - 1 if step < 0 else first)
        ends.append(
            first - 1 - size if step < 0 and first == 0 else first - 1 if step < 0 else last
        )
        steps.append(step)
    # a vector of a row that is not read whole is a gather
    moved = 4 if steps[-1] != 1 and axes[-1] == len(shape) - 1 else 1
    return draw.case(shape, *map(np.array, (begins, ends, axes, steps)), operations=moved)


@drawn(DRAWS, "Resize.forms")
def resize(draw: Draw) -> Case:
    """Filters and coordinates that image transforms use."""
    n, c, h, w = draw.image(64)
    scale = draw.pick(0.25, 0.5, 2, draw.random.uniform(0.3, 3))
    target = [n, c, max(1, round(h * scale)), max(1, round(w * scale))]
    while prod(target) > draw.largest:
        target[1] = c = max(1, c // 2)
    attributes: dict[str, Any] = {"mode": draw.pick("linear", "cubic")}
    if draw.pick(True, False):
        attributes["antialias"] = 1
    else:
        attributes["mode"] = "nearest"
        attributes["nearest_mode"] = draw.pick("floor", "ceil", "round_prefer_ceil")
        attributes["coordinate_transformation_mode"] = draw.pick("asymmetric", "half_pixel")
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[attributes["mode"]] * max(1.0, 1 / scale)
    gathered = _GATHERED * taps * min(n * c * h * w * scale, prod(target))
    work = float(gathered + 4 * taps * prod(target))
    return draw.case((n, c, h, w), None, None, np.array(target), work=work, **attributes)


@drawn(DRAWS, "GridSample.forms")
def sample(draw: Draw) -> Case:
    case = windows.sample(draw)
    mode = draw.pick("cubic", "linear", "nearest")
    (n, c, _, _), (_, rows, columns, _) = case.inputs
    taps = {"nearest": 1, "linear": 4, "cubic": 16}[mode]
    attributes = {
        "mode": mode,
        "padding_mode": draw.pick("zeros", "border", "reflection"),
        "align_corners": draw.pick(0, 1),
    }
    work = float(n * rows * columns * (80 + 16 * taps * (c + 2)))
    return replace(case, attributes=attributes, work=work)


@drawn(DRAWS, "TopK.typed")
def best(draw: Draw) -> Case:
    case = windows.best(draw)
    dtype = draw.pick("float16", "float64", "int32", "int64", "uint8")
    # equal values are frequent: their order is part of the result
    assert case.work is not None
    return replace(case, dtype=dtype, work=2 * case.work)


@drawn(DRAWS, "CumSum.typed")
def running_sum(draw: Draw) -> Case:
    case = operators.running_sum(draw)
    return replace(case, dtype=draw.pick("int32", "int64", "float64"), operations=16)


@drawn(DRAWS, "Softmax.typed", "LogSoftmax.typed")
def softmax(draw: Draw) -> Case:
    dtype = draw.pick("float16", "float16", "float64")
    return replace(operators.softmax(draw), dtype=dtype, operations=4 * _EXP)


@drawn(DRAWS, "LayerNormalization.half", "InstanceNormalization.half")
def normalized(draw: Draw) -> Case:
    """Float16, whose sums are float32."""
    case = (operators.layer if draw.operator[0] == "L" else operators.instance)(draw)
    (shape,) = case.inputs
    constants = [o.astype("float16") for o in case.operands[1:] if isinstance(o, np.ndarray)]
    rows = prod(shape[: case.attributes.get("axis", 2)])
    work = 12.0 * prod(shape) + 3 * DIVISION * rows
    return replace(case, operands=(shape, *constants), dtype="float16", work=work)


@drawn(DRAWS, "GlobalAveragePool.half", "GlobalMaxPool.half")
def global_pool(draw: Draw) -> Case:
    shape = draw.shape(3)
    return draw.case(shape, dtype="float16", work=8.0 * prod(shape))


@drawn(DRAWS, "MatMul.typed", "Gemm.typed")
def product(draw: Draw) -> Case:
    m, k, n = layers._product(draw, 2**21)
    dtype = draw.pick("float16", "float16", "float64", "int32")
    if dtype == "int32" and draw.operator == "Gemm":
        dtype = "float64"
    weights = (draw.values(k, n) * (50 if dtype[0] == "i" else 1)).astype(dtype)
    right = draw.pick((k, n), weights)
    # float16 is converted and added in float32
    times = 4 if dtype == "float16" else 2
    return draw.case((m, k), right, dtype=dtype, work=float(times * m * k * max(n, _LANES)))


@drawn(DRAWS, "Einsum.axes")
def einsum(draw: Draw) -> Case:
    """Equations of attention, graph convolutions and axial layers."""
    equation = draw.pick("bhid,bhjd->bhij", "bhij,bhjd->bhid", "nctv,vw->nctw", "bihd,bjhd->bhij",
                         "bchw,bkhw->bck", "bhw,hk->bkw", "bhwc,hkc->bhwk", "bij->bji",
                         "bii->bi", "bnd,d->bn")  # fmt: skip
    terms = equation.partition("->")[0].split(",")
    while True:
        letters = sorted(set("".join(terms)))
        sizes = {x: draw.size(2 ** draw.random.uniform(0, 6)) for x in letters}
        if prod(sizes.values()) <= 2**22:
            break
    shapes = [tuple(sizes[letter] for letter in term) for term in terms]
    last = equation[-1]
    sizes[last] = max(sizes[last], _LANES)
    # operands whose axes are in another order are moved first
    work = 2.0 * prod(sizes.values()) + 8 * sum(map(prod, shapes))
    return draw.case(*shapes, equation=equation, work=work)


@drawn(DRAWS, "ConvTranspose.forms")
def transposed(draw: Draw) -> Case:
    """Dilations, paddings by the size of the result, and kernels that are inputs."""
    case = layers.convolution(draw)
    shape, weights, offset = case.operands
    assert isinstance(weights, np.ndarray) and case.work is not None
    kernel, strides = weights.shape[2:], case.attributes["strides"]
    attributes = {**case.attributes, "dilations": [draw.pick(1, 1, 2) for _ in kernel]}
    # the baseline's result is smaller for kernels below the stride
    if min(kernel) >= max(strides):
        attributes["auto_pad"] = draw.pick("NOTSET", "SAME_UPPER", "SAME_LOWER")
    if draw.pick(True, False):
        return replace(case, attributes=attributes)
    # each product of a kernel element is moved by its place along each axis, and added
    products = prod(case.inputs[0]) // case.inputs[0][1] * prod(weights.shape[1:])
    work = case.work + 8.0 * products * attributes["group"] * len(kernel)
    operands = (shape, Given(weights), offset)
    return replace(case, operands=operands, attributes=attributes, work=work)


@drawn(DRAWS, "GRU.torch", "LSTM.torch")
def recurrent(draw: Draw) -> Case:
    """As torch exports them: with first states, and the reset after the product."""
    case = layers.recurrent(draw)
    (steps, batch, _), ways = case.inputs[0], 2 if "bi" in case.attributes["direction"] else 1
    states = (ways, batch, case.attributes["hidden_size"])
    attributes, operands = dict(case.attributes), [*case.operands, None, states]
    if draw.operator == "GRU":
        attributes["linear_before_reset"] = 1
    else:
        operands.append(states)
    return replace(
        case,
        operands=tuple(operands),
        attributes=attributes,
        outputs=draw.pick(1, 2) if steps else 1,
    )


@drawn(DRAWS, "Pow.typed")
def power(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick("int32", "int64", "float64", "float16")
    bases = draw.numbers.integers(1, 6, shape).astype(dtype)
    exponent = np.array(draw.pick(2, 2, 3), draw.pick("float32", dtype))
    return draw.case(Given(bases), exponent, dtype=dtype, operations=4)


@drawn(DRAWS, "ReduceL1.typed", "ReduceL2.typed", "ReduceSumSquare.typed", "ReduceProd.typed")
def reduction(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick("int32", "float64", "float16")
    if draw.operator in ("ReduceL2", "ReduceProd") and dtype == "int32":
        dtype = "float64"
    axes = sorted(draw.random.sample(range(len(shape)), draw.random.randint(1, len(shape))))
    work = (8.0 if dtype == "float16" else 4.0) * prod(shape)
    return draw.case(shape, np.array(axes), keepdims=draw.pick(0, 1), dtype=dtype, work=work)


@drawn(DRAWS, "ScatterElements.forms")
def scatter_elements(draw: Draw) -> Case:
    """Indices that repeat, whose updates are combined."""
    shape = draw.shape()
    axis = draw.axis(shape)
    places = draw.part(shape, axis)
    indices = draw.numbers.integers(0, shape[axis], places)
    reduction = draw.pick("add", "mul", "max", "min")
    work = float(prod(shape) + 3 * _GATHERED * prod(places))
    dtype = draw.dtype("int64", "int32") if reduction in ("max", "min") else "float32"
    return draw.case(shape, Given(indices), tuple(places), axis=axis, reduction=reduction,
                     dtype=dtype, work=work)  # fmt: skip


@drawn(DRAWS, "Equal.typed", "Greater.typed", "Less.typed")
def comparison(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick("uint8", "int8", "float16")
    other = tuple(draw.pick(1, size) for size in shape)
    return draw.case(shape, other, dtype=dtype, operations=4)


@drawn(DRAWS, "Add.bytes", "Mul.bytes", "Sub.bytes", "Max.bytes", "Min.bytes")
def arithmetic(draw: Draw) -> Case:
    """Images of bytes, and masks."""
    shape = draw.shape()
    other = draw.pick(shape, tuple(draw.pick(1, size) for size in shape))
    return draw.case(shape, other, dtype=draw.pick("uint8", "int8"), operations=4)
