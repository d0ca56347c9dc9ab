"""Draws operators of INT8 models: QDQ, QOperator, and sums of integers.

Most scales are powers of two. Then FP32 arithmetic with them is exact, in any order, and every
integer has one value. With other ones a few results may be a step off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.draft import Draft, Undrawable, Value
from tests.fuzz.draw_windows import groups_of, image, window_of

_TYPES = ("uint8", "uint8", "int8")
# runtimes round results of these before rounding to 8 bits, each in its own way
_CURVED = ("Sigmoid", "Softmax", "Tanh", "HardSwish")


def sandwich(d: Draft) -> None:
    """A float operator between DequantizeLinear and QuantizeLinear."""
    x = _quantised(d)
    (real,) = _linear(d, "DequantizeLinear", x)
    drawn: Callable[[Draft, Value], Value] = d.pick(
        (_conv, _conv, _conv, _dense, _joined, _joined, _simple, _simple, _pool)
    )
    y = drawn(d, real)
    if y.dtype != "float32":
        raise Undrawable("no float")
    if d.chance(0.85):
        largest = 16.0 if drawn in (_conv, _dense) else 3.0
        _quantise(d, y, largest)


def qlinear(d: Draft) -> None:
    """An operator of the QOperator format."""
    kind = d.pick(("conv", "matmul", "join", "one", "one", "concat"))
    # a matrix for QGemm
    shape = d.shape(2, 2) if kind == "one" and d.chance(0.3) else None
    x = _quantised(d, shape)
    dtype = x.dtype
    scale, zero = d.quantised[x.name]
    xs = [x, d.constant(scale), d.constant(zero)]
    # with an even zero point a half rounds to the same, if it is added before or after
    even = _zero(d, dtype) // 2 * 2 if kind in ("join", "one") else _zero(d, dtype)
    out = [d.constant(_scale(d, 12.0)), d.constant(even)]
    if kind == "conv" and x.rank in (3, 4):
        groups = groups_of(d, x.shape[1])
        window = window_of(d, x.shape[2:], kernels=(1, 2, 3, 3))
        kernel = window["kernel_shape"]
        weight = _weight(d, (groups * d.pick((1, 2, 5)), x.shape[1] // groups, *kernel), 0)
        bias = []
        if d.chance(0.5):
            bias = [d.constant(d.numbers.integers(-900, 900, weight[0].shape[0], dtype=np.int32))]
        (y,) = d.call("QLinearConv", [*xs, *weight, *out, *bias], group=groups, **window)
    elif kind == "matmul" and x.rank > 1:
        weight = _weight(d, (x.shape[-1], d.pick((1, 4, 9, 16))), 1)
        if weight[1].rank:
            weight = _weight(d, weight[0].shape, None)
        (y,) = d.call("QLinearMatMul", [*xs, *weight, *out])
    elif kind == "join":
        other = d.constant(d.array(x.shape, dtype))
        others = [other, d.constant(_scale(d, 3.0)), d.constant(_zero(d, dtype))]
        op = d.pick(("QLinearAdd", "QLinearMul"))
        y = d.foreign(op, [*xs, *others, *out], x.shape, dtype)
    elif kind == "concat" and x.rank > 1:
        shape = (x.shape[0], d.pick((1, 3, 8)), *x.shape[2:])
        others = [d.constant(d.array(shape, dtype)), d.constant(_scale(d, 3.0)),
                  d.constant(_zero(d, dtype))]  # fmt: skip
        joined = (x.shape[0], x.shape[1] + shape[1], *x.shape[2:])
        y = d.foreign("QLinearConcat", [*out, *xs, *others], joined, dtype, axis=1)
    else:
        y = _one(d, x, xs, out)
    known = (d.constants.get(out[0].name), d.constants.get(out[1].name))
    if all(part is not None for part in known) and kind != "one":
        d.quantised[y.name] = known


def _one(d: Draft, x: Value, xs: list[Value], out: list[Value]) -> Value:
    """Operators of com.microsoft with one operand, or few: their results may be a step off."""
    d.rounds = True
    kinds = ["LeakyRelu", "Sigmoid", "Softmax", "Where"]
    kinds += {2: ["Gemm"] * 2, 4: ["GlobalAveragePool", "AveragePool"]}.get(x.rank, [])
    kind = d.pick(kinds)
    op = f"QLinear{kind}"
    if kind == "Gemm":
        weight = _weight(d, (x.shape[1], d.pick((1, 4, 9))), None)
        bias = d.constant(d.numbers.integers(-900, 900, weight[0].shape[1], dtype=np.int32))
        shape = (x.shape[0], weight[0].shape[1])
        return d.foreign("QGemm", [*xs, *weight, bias, *out], shape, x.dtype)
    if kind == "Where":
        mask, other = d.operand(x.shape, "bool"), d.constant(d.array(x.shape, x.dtype))
        others = [other, d.constant(_scale(d, 3.0)), d.constant(_zero(d, x.dtype))]
        return d.foreign(op, [mask, *xs, *others, *out], x.shape, x.dtype)
    if kind == "Softmax":
        out = [d.constant(np.float32(1 / 256)), out[1]]
        return d.foreign(op, [*xs, *out], x.shape, x.dtype, axis=-1, opset=13)
    if kind == "Sigmoid":
        return d.foreign(op, [*xs, *out], x.shape, x.dtype)
    if kind == "LeakyRelu":
        return d.foreign(op, [*xs, *out], x.shape, x.dtype, alpha=d.pick((0.25, 0.5)))
    if kind == "GlobalAveragePool":
        return d.foreign(op, [*xs, *out], (*x.shape[:2], 1, 1), x.dtype)
    shape = tuple(n - 1 if i > 1 else n for i, n in enumerate(x.shape))
    if min(shape) < 1:
        raise Undrawable("too small")
    return d.foreign(op, [*xs, *out], shape, x.dtype, kernel_shape=[2, 2])


def sums(d: Draft) -> None:
    """ConvInteger and MatMulInteger, with zero points of all kinds."""
    dtype = d.pick(_TYPES)
    if d.chance(0.5):
        x = image(d, "ConvInteger", dtype=dtype)
        groups = groups_of(d, x.shape[1])
        window = window_of(d, x.shape[2:], kernels=(1, 2, 3, 3))
        shape = (groups * d.pick((1, 2, 5)), x.shape[1] // groups, *window["kernel_shape"])
        weight = d.constant(d.array(shape, d.pick(_TYPES)))
        zeros = [d.constant(d.array((), dtype))] if d.chance(0.7) else []
        if zeros and d.chance(0.5):
            zeros.append(d.constant(d.array(d.pick(((), (shape[0],))), weight.dtype)))
        d.call("ConvInteger", [x, weight, *zeros], group=groups, **window)
        return
    a = d.input(d.shape(2, 3), dtype)
    b = d.operand((a.shape[-1], d.pick((1, 4, 9, 16))), d.pick(_TYPES))
    zeros = [d.constant(d.array((), dtype))] if d.chance(0.7) else []
    if zeros and d.chance(0.5):
        zeros.append(d.constant(d.array(d.pick(((), (b.shape[1],))), b.dtype)))
    d.call("MatMulInteger", [a, b, *zeros])


def dynamic(d: Draft) -> None:
    """DynamicQuantizeLinear, and what uses it."""
    d.rounds = True
    x = d.value(("float32",), 2, 4)
    q, scale, zero = d.call("DynamicQuantizeLinear", [x], 3)
    if d.chance(0.5):
        weight = d.constant(d.array((x.shape[-1], d.pick((1, 4, 9))), d.pick(_TYPES)))
        (total,) = d.call("MatMulInteger", [q, weight, zero])
        (real,) = d.call("Cast", [total], to=1)
        d.call("Mul", [real, scale])
    else:
        d.call("DequantizeLinear", [q, scale, zero])


def _conv(d: Draft, x: Value) -> Value:
    if not 3 <= x.rank <= 5:
        raise Undrawable("no image")
    groups = groups_of(d, x.shape[1])
    window = window_of(d, x.shape[2:], kernels=(1, 1, 2, 3, 3))
    outputs = groups * d.pick((1, 1, 2) if groups == x.shape[1] else (1, 2, 3, 5, 8, 16))
    shape = (outputs, x.shape[1] // groups, *window.pop("kernel_shape"))
    weight = _real_weight(d, shape, 0)
    bias = [d.constant(np.rint(d.array((outputs,), "float32") * 64) / 64)] * d.pick((0, 1))
    bias = [d.constant(d.constants[b.name].astype(np.float32)) for b in bias
            if b.name in d.constants]  # fmt: skip
    (y,) = d.call("Conv", [x, weight, *bias], group=groups, **window)
    if d.chance(0.4):
        (y,) = d.call("Relu", [y])
    return y


def _dense(d: Draft, x: Value) -> Value:
    columns = d.pick((1, 4, 9, 16))
    if x.rank != 2 or d.chance(0.5):
        if x.rank < 2:
            raise Undrawable("no matrix")
        matrix = _real_weight(d, (x.shape[-1], columns), 1)
        return d.call("MatMul", [x, matrix])[0]
    matrix = _real_weight(d, (columns, x.shape[-1]), 0)
    bias = d.constant((d.numbers.integers(-200, 200, columns) / 64).astype(np.float32))
    return d.call("Gemm", [x, matrix, bias], transB=1)[0]


def _joined(d: Draft, x: Value) -> Value:
    other = _quantised(d, x.shape)
    (real,) = _linear(d, "DequantizeLinear", other)
    op = d.pick(("Add", "Add", "Mul", "Concat", "Sub", "Max"))
    operands = d.pick(([x, real], [real, x]))
    if op == "Concat":
        return d.call(op, operands, axis=d.generator.randrange(x.rank))[0]
    return d.call(op, operands)[0]


def _simple(d: Draft, x: Value) -> Value:
    op = d.pick(("Relu", "LeakyRelu", "Clip", "Transpose", "Identity", *_CURVED))
    if op in _CURVED:
        d.rounds = True
    if op == "Softmax" and d.opset < 13 and x.rank == 1:
        raise Undrawable("the default is the second axis")
    if op == "LeakyRelu":
        return d.call(op, [x], alpha=0.25)[0]
    if op == "Clip":
        if d.opset < 11:
            return d.call(op, [x], min=0.0, max=1.5)[0]
        return d.call(op, [x], min=np.float32(d.pick((0, -0.5))), max=np.float32(1.5))[0]
    return d.call(op, [x])[0]


def _pool(d: Draft, x: Value) -> Value:
    if not 3 <= x.rank <= 5:
        raise Undrawable("no image")
    op = d.pick(("MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    if op.startswith("Global"):
        d.rounds |= op == "GlobalAveragePool"
        return d.call(op, [x])[0]
    window = window_of(d, x.shape[2:], kernels=(1, 2, 2, 3))
    if "dilations" not in d.schema(op).attributes:
        window.pop("dilations", None)
    d.rounds |= op == "AveragePool"
    return d.call(op, [x], **window)[0]


def _quantised(d: Draft, shape: tuple[int, ...] | None = None) -> Value:
    """An 8-bit value with a known scale: one that exists, or a new one."""
    known = [v for v in d.values if v.name in d.quantised and shape in (None, v.shape)]
    if known and d.chance(0.7):
        return d.pick(known[-2:])
    if shape is None:
        shape = image(d, "Relu", dtype="float32").shape if d.chance(0.75) else d.shape(1, 3)
    if d.chance(0.3):
        value = d.input(shape, d.pick(_TYPES))
        d.quantised[value.name] = (_scale(d, 3.0), _zero(d, value.dtype))
        return value
    same = [v for v in d.values if (v.shape, v.dtype) == (shape, "float32")]
    x = d.pick(same) if same and d.chance(0.7) else d.input(shape, "float32")
    return _quantise(d, x, 3.0)


def _quantise(d: Draft, x: Value, largest: float) -> Value:
    dtype = d.pick(_TYPES)
    scale, zero = _scale(d, largest), _zero(d, dtype)
    (y,) = d.call("QuantizeLinear", [x, d.constant(scale), d.constant(zero)])
    d.quantised[y.name] = (scale, zero)
    return y


def _linear(d: Draft, op: str, x: Value) -> list[Value]:
    scale, zero = d.quantised[x.name]
    return d.call(op, [x, d.constant(scale), d.constant(zero)])


def _scale(d: Draft, largest: float, shape: tuple[int, ...] = ()) -> np.ndarray:
    """With which numbers up to the given size are 127 steps or so."""
    exponent = np.round(np.log2(largest / 127)) + d.numbers.integers(-1, 2, shape)
    scale = np.exp2(exponent)
    if d.odd_scales:
        d.rounds = True
        scale = scale * d.numbers.uniform(0.7, 1.4, shape)
    return np.asarray(scale, np.float32)


def _zero(d: Draft, dtype: str) -> np.ndarray:
    ends = np.iinfo(dtype)
    middle = 128 if dtype == "uint8" else 0
    return np.array(d.pick((middle, middle, ends.min, ends.max, d.array((), dtype))), dtype)


def _weight(d: Draft, shape: tuple[int, ...], axis: int | None) -> list[Value]:
    """Weight, scale and zero point; one for each channel of an axis, if there is one."""
    dtype = d.pick(("int8", "int8", "int8", "uint8"))
    per_channel = axis is not None and d.chance(0.5)
    count = (shape[axis],) if per_channel and axis is not None else ()
    zero = np.zeros(count, dtype)
    if d.chance(0.3):
        zero = d.array(count, dtype)
    elif dtype == "uint8":
        zero = zero + np.uint8(128)
    values = d.numbers.integers(*((0, 256) if dtype == "uint8" else (-128, 128)), shape)
    if d.chance(0.2):
        values = np.clip(values, -9, 9) if dtype == "int8" else values
    scale = _scale(d, 1.0, count)
    return [
        d.constant(values.astype(dtype)),
        d.constant(scale),
        d.constant(np.asarray(zero, dtype)),
    ]


def _real_weight(d: Draft, shape: tuple[int, ...], axis: int) -> Value:
    """A weight after its DequantizeLinear, which knows channels since operator set 13."""
    if d.opset < 13:
        return d.call("DequantizeLinear", _weight(d, shape, None))[0]
    return d.call("DequantizeLinear", _weight(d, shape, axis), axis=axis)[0]


STEPS = (*(sandwich,) * 6, *(qlinear,) * 3, sums, dynamic)
