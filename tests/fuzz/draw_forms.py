"""Draws operators in the forms that their own families leave out: rare attributes and operands."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from tests.fuzz.draft import Draft, Undrawable, Value
from tests.fuzz.draw_places import rounded_between
from tests.fuzz.draw_windows import image, window_of

_SHORT = ("uint8", "int8", "uint16", "int16")


def einsum(d: Draft) -> None:
    """Has one to three operands: diagonals, implicit results, ellipses, spaces."""
    count = d.pick((1, 1, 2, 3))
    sizes = {c: d.pick((1, 2, 3, 5)) for c in d.generator.sample(string.ascii_letters, 4)}
    dots = (2, 3)[: d.pick((0, 0, 0, 1, 2))]
    dtype = d.dtype(d.allowed("Einsum"))
    terms, operands = [], []
    for _ in range(count):
        letters = d.generator.sample(sorted(sizes), d.generator.randint(1, 3))
        if count == 1 and d.chance(0.3):
            letters.append(letters[0])
        lead = "..." if dots and d.chance(0.8) else ""
        shape = (*(dots if lead else ()), *(sizes[c] for c in letters))
        terms.append(lead + "".join(letters))
        operands.append(d.operand(shape, dtype))
    used = sorted({c for term in terms for c in term if c != "."})
    kept = [c for c in used if d.chance(0.6)]
    d.generator.shuffle(kept)
    lead = "..." if any("." in term for term in terms) else ""
    equation = d.pick((",", ", ")).join(terms)
    if d.chance(0.7):
        equation += d.pick(("->", " -> ")) + lead + "".join(kept)
    d.call("Einsum", operands, equation=equation)


def dropout(d: Draft) -> None:
    """Which passes its input on, with or without its mask."""
    given: dict[str, Any] = {}
    if d.chance(0.5):
        given["ratio"] = 0.3 if d.opset < 12 else np.array(0.3, np.float32)
    if d.opset >= 12 and d.chance(0.4):
        given["training_mode"] = np.array(False)
    # before, onnxruntime's mask keeps nothing
    outputs = d.pick((1, 2)) if d.opset >= 12 else 1
    d.call("Dropout", [d.source("Dropout")], outputs, **given)


def bounded(d: Draft) -> None:
    """Clip by bounds that are computed, or one of them."""
    if d.opset < 11:
        raise Undrawable("bounds are attributes")
    x = d.source("Clip")
    bounds = {n: d.operand((), x.dtype) for n in d.pick((("min",), ("max",), ("min", "max")))}
    d.call("Clip", [x], **bounds)


def quantised(d: Draft) -> None:
    """One scale for all, each channel or each block; of 8 or 16 bits, with and without zero."""
    x = d.value(("float32",), 1, 4)
    axis = d.generator.randrange(x.rank)
    dtype = d.pick(_SHORT[: 4 if d.opset >= 21 else 2])
    kind = d.pick(("one", "channels", "blocks"))
    given: dict[str, Any] = {}
    shape: tuple[int, ...] = ()
    if kind != "one":
        given["axis"] = axis - x.rank if d.chance(0.3) else axis
        shape = (x.shape[axis],)
    if kind == "blocks":
        block = given["block_size"] = d.pick((1, 2, 4))
        shape = (*x.shape[:axis], -(-x.shape[axis] // block), *x.shape[axis + 1 :])
    # powers of two, as everywhere in INT8 models
    step = np.log2(3 / np.iinfo(dtype).max).round()
    scale = np.exp2(step + d.numbers.integers(-1, 2, shape)).astype(np.float32)
    parameters = [d.constant(scale)]
    if dtype == "uint8" and d.chance(0.3):
        # the default type
        pass
    elif d.opset >= 21 and d.chance(0.3):
        given["output_dtype"] = {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5}[dtype]
    else:
        parameters.append(d.constant(d.array(shape, dtype)))
    (q,) = d.call("QuantizeLinear", [x, *parameters], **given)
    given.pop("output_dtype", None)
    if d.chance(0.3):
        d.call("Transpose", [q])
    else:
        d.call("DequantizeLinear", [q, *parameters], **given)


def accumulated(d: Draft) -> None:
    """DequantizeLinear of sums, which have no zero point."""
    x = d.input(d.shape(0, 3), "int32")
    scale = d.constant(np.float32(d.pick((0.5, 2**-9, 1.0))))
    d.call("DequantizeLinear", [x, scale])


def resized(d: Draft) -> None:
    """By scales of some axes, in any order."""
    x = d.source("Resize", 1, 4)
    axes = d.generator.sample(range(x.rank), d.generator.randint(1, min(x.rank, 2)))
    scales = [d.pick((1.0, 2.0, 0.5, 1.5)) for _ in axes]
    if any(x.shape[axis] * scale < 1 for axis, scale in zip(axes, scales, strict=True)):
        raise Undrawable("empty")
    axes = [axis - x.rank if d.chance(0.3) else axis for axis in axes]
    mode = d.pick(("nearest", "linear"))
    rounded_between(d, x, mode)
    d.call("Resize", [x], scales=np.array(scales, np.float32), axes=axes, mode=mode)


def indexed(d: Draft) -> None:
    """MaxPool whose places nobody reads."""
    x = image(d, "MaxPool")
    window = window_of(d, x.shape[2:], kernels=(1, 2, 3))
    order = {"storage_order": 1} if d.chance(0.3) else {}
    y, *places = d.call("MaxPool", [x], 2, **window, **order)
    if places:
        # no output of the model
        d.values.remove(places[0])
        d.nodes[-1].output[1] = ""
    d.call("Abs", [y])


def plain(d: Draft) -> None:
    """Operators with all their defaults."""
    op = d.pick(("LRN", "HardSigmoid", "LpPool", "Gemm", "Flatten", "Selu", "TopK", "Concat"))
    if op == "LRN":
        d.call(op, [d.source(op, 3, 4)], size=d.pick((1, 3)))
    elif op == "LpPool":
        d.call(op, [image(d, op)], kernel_shape=[1])
    elif op == "Gemm":
        a = d.source(op, 2, 2)
        d.call(op, [a, d.operand((a.shape[1], 3), a.dtype)])
    elif op == "TopK":
        x = d.source(op, 1)
        d.call(op, [x], 2, K=np.array([d.generator.randint(1, x.shape[-1])]))
    elif op == "Concat":
        x = d.source(op, 1)
        d.call(op, [x], axis=0)
    else:
        d.call(op, [d.source(op, 1)])


def cast_as_one(d: Draft) -> None:
    """Casts there and back, which may not be left out."""
    x = d.source("Cast")
    (y,) = d.call("Cast", [x], to=d.pick((6, 7, 9, 1)))
    d.call("CastLike", [y, x])


def written(d: Draft) -> Value:
    """A constant in another of the ways to write one."""
    name, number = d.pick((("value_float", 0.5), ("value_floats", [0.5, -1.0]), ("value_int", 3)))
    (y,) = d.call("Constant", [], **{name: number})
    (real,) = d.call("Cast", [y], to=1)
    return d.call("Mul", [d.input((3, 2), "float32"), real])[0]


def nothing(d: Draft) -> None:
    """A part of no elements, what operators make of it, and what it adds to others."""
    x = d.source("Concat", 1, 4)
    axis = d.generator.randrange(x.rank)
    d.empties = True
    given: dict[str, Any] = {"starts": [1], "ends": [1], "axes": [axis]}
    if d.opset >= 10:
        given = {name: np.array(value) for name, value in given.items()}
    (y,) = d.call("Slice", [x], **given)
    for _ in range(d.generator.randrange(3)):
        y = _of_nothing(d, y, axis)
    if y.shape == (*x.shape[:axis], 0, *x.shape[axis + 1 :]) and y.dtype == x.dtype:
        d.call("Concat", d.pick(([x, y], [y, x], [x, y, x])), axis=axis)
    d.empties = False


def _of_nothing(d: Draft, y: Value, axis: int) -> Value:
    op = d.pick(("Tile", "Cast", "Add", "CumSum", "Unsqueeze", "MatMul", "ReduceSum", "ReduceMax"))
    if op == "Tile":
        return d.call(op, [y], repeats=np.array([1] * y.rank))[0]
    if op == "Cast":
        return d.call(op, [y], to=1)[0]
    if op == "Add":
        return d.call(op, [y, d.operand((), y.dtype)])[0]
    if op == "CumSum":
        return d.call(op, [y], axis=np.array(0))[0]
    if op == "Unsqueeze":
        return d.call(op, [y], axes=[0])[0]
    if op == "MatMul":
        return d.call(op, [y, d.constant(d.array((y.shape[-1], 3), y.dtype))])[0]
    if op == "ReduceMax" and not y.dtype.startswith("float"):
        raise Undrawable("the largest integer of none is left open")
    # which has elements where that axis is the empty one
    d.call(op, [y], axes=[axis])
    return y


STEPS = (
    *(einsum, einsum, dropout, bounded, quantised, quantised, accumulated, resized, indexed),
    *(plain, cast_as_one, written, nothing, nothing),
)
