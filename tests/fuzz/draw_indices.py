"""Draws operators that read or write at computed places, and others that move few elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tests.fuzz.draft import Draft, Value

_FLOAT, _INT64 = 1, 7


def places(d: Draft, shape: Sequence[int], size: int) -> Value:
    """Indices of an axis that the model computes, in a range that is known or not.

    A few are inputs that may be outside.
    """
    if d.chance(0.06):
        return d.input(shape, d.pick(("int32", "int64")))
    (found,) = d.call("Mod", [d.input(shape, "int64"), d.constant(np.array(size))])
    if d.chance(0.3):
        (found,) = d.call("Sub", [found, d.constant(np.array(size))])
    if d.chance(0.5):
        (real,) = d.call("Cast", [found], to=_FLOAT)
        (found,) = d.call("Cast", [real], to=_INT64)
    return found


def _beside(d: Draft, x: Value, axis: int) -> list[int]:
    """A shape of indices along an axis, at most as long as a value along the others."""
    return [d.generator.randint(1, 9 if i == axis else n) for i, n in enumerate(x.shape)]


def gathered(d: Draft) -> None:
    """GatherElements, GatherND."""
    op = d.pick(("GatherElements", "GatherND"))
    x = d.source(op, 1, 5)
    axis = d.generator.randrange(x.rank)
    if op == "GatherElements":
        d.call(op, [x, places(d, _beside(d, x, axis), x.shape[axis])], axis=axis)
        return
    batch = d.generator.randrange(x.rank) if d.opset >= 12 and d.chance(0.5) else 0
    count = d.generator.randint(1, x.rank - batch)
    shape = [*x.shape[:batch], *d.shape(0, 1), count]
    index = places(d, shape, min(x.shape[batch : batch + count]))
    d.call(op, [x, index], **({"batch_dims": batch} if d.opset >= 12 else {}))


def scattered(d: Draft) -> None:
    """Scatter, ScatterElements, ScatterND; all reductions."""
    op = "Scatter" if d.opset < 11 else d.pick(("ScatterElements", "ScatterND"))
    x = d.source(op, 1, 4)
    reductions: Sequence[str] = ("none",)
    if d.opset >= 16 and x.dtype != "bool":
        reductions = ("none", "add", "mul", *(("min", "max") if d.opset >= 18 else ()))
    given: dict[str, Any] = {"reduction": d.pick(reductions)} if d.opset >= 16 else {}
    if op == "ScatterND":
        count = d.generator.randint(1, x.rank)
        shape = [*d.shape(1, 1), count]
        index = places(d, shape, min(x.shape[:count]))
        d.call(op, [x, index, d.operand((*shape[:-1], *x.shape[count:]), x.dtype)], **given)
        return
    axis = d.generator.randrange(x.rank)
    shape = _beside(d, x, axis)
    index = places(d, shape, x.shape[axis])
    d.call(op, [x, index, d.operand(shape, x.dtype)], axis=axis, **given)


def marked(d: Draft) -> None:
    """OneHot, Hardmax."""
    if d.chance(0.5):
        index = places(d, d.shape(1, 3), 5)
        values = d.operand((2,), "float32")
        d.call("OneHot", [index, d.constant(np.array(d.pick((4, 5)))), values], axis=-1)
    else:
        x = d.value(("float32",), 2, 4)
        d.call("Hardmax", [x], axis=d.generator.randrange(1, x.rank))


def reversed_(d: Draft) -> None:
    """ReverseSequence."""
    x = d.source("ReverseSequence", 2, 4)
    (length,) = d.call("Mod", [d.input((x.shape[1],), "int64"), d.constant(np.array(x.shape[0]))])
    (length,) = d.call("Add", [length, d.constant(np.array(1))])
    d.call("ReverseSequence", [x, length], batch_axis=1, time_axis=0)


def pooled(d: Draft) -> None:
    """MaxPool with Indices, MaxUnpool."""
    x = d.value(("float32",), 3, 4)
    rank = x.rank - 2
    window = {"kernel_shape": [1] * rank, "strides": [d.pick((1, 2))] * rank}
    if d.chance(0.5):
        d.call("MaxPool", [x], 2, storage_order=d.pick((0, 1)), **window)
        return
    size = prod((n - 1) * window["strides"][0] + 1 for n in x.shape[2:])
    (index,) = d.call("Mod", [d.input(x.shape, "int64"), d.constant(np.array(size))])
    d.call("MaxUnpool", [x, index], **window)


def columns(d: Draft) -> None:
    """Col2Im of images; onnxruntime is wrong for dilated rows and volumes of several channels."""
    image, block = (d.pick((5, 6)), d.pick((5, 7))), (d.pick((1, 2)), d.pick((1, 3)))
    count = prod(n - b + 1 for n, b in zip(image, block, strict=True))
    x = d.operand((d.pick((1, 2)), 2 * prod(block), count), "float32")
    d.call("Col2Im", [x, d.constant(np.array(image)), d.constant(np.array(block))])


def small(d: Draft) -> None:
    """CenterCropPad, CumProd, Det, MeanVarianceNormalization, BitShift."""
    op = d.pick(("CenterCropPad", "CumProd", "Det", "MeanVarianceNormalization", "BitShift"))
    if op == "Det":
        size = d.pick((1, 2, 3))
        d.call(op, [d.operand((d.pick((1, 4)), size, size), "float64")])
    elif op == "BitShift":
        x = d.source(op)
        d.call(op, [x, d.constant(d.numbers.integers(0, 8, x.shape).astype(x.dtype))],
               direction=d.pick(("LEFT", "RIGHT")))  # fmt: skip
    elif op == "CumProd":
        x = d.value(("float32", "int32"), 1, 3)
        d.call(op, [x, d.constant(np.array(d.generator.randrange(x.rank)))],
               exclusive=d.pick((0, 1)), reverse=d.pick((0, 1)))  # fmt: skip
    elif op == "CenterCropPad":
        x = d.source(op, 1, 4)
        axis = d.generator.randrange(x.rank)
        d.call(op, [x, d.constant(np.array([d.pick((1, 4, 9))]))], axes=[axis])
    else:
        x = d.value(("float32",), 4, 4)
        d.call(op, [x], axes=[0, 2, 3])


STEPS = (gathered, gathered, scattered, scattered, marked, reversed_, pooled, columns, small, small)
