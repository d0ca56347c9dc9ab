"""Draws operators that are computed while a model is read, as their operands are constants."""

from __future__ import annotations

import numpy as np

from tests.fuzz.draft import Draft, Undrawable, Value


def folded(d: Draft) -> None:
    """One such operator, and what joins its result with a value."""
    (y, *_) = d.pick((_of_shape, _picked, _scattered, _marked, _counted))(d)
    if y.dtype == "bool":
        (y,) = d.call("Cast", [y], to=1)
    d.call("Mul", [y, d.input(y.shape, y.dtype)])


def _of_shape(d: Draft) -> list[Value]:
    """Shapes of values, and constants made of shapes."""
    op = d.pick(("ConstantOfShape", "EyeLike", "Shape", "Size"))
    if op == "ConstantOfShape":
        shape = d.constant(np.array(d.shape(1, 3), np.int64))
        return d.call(op, [shape])
    if op == "EyeLike":
        return d.call(op, [d.constant(d.array(d.shape(2, 2), "float32"))], k=d.pick((-1, 0, 2)))
    given = {"start": d.pick((0, -2)), "end": d.pick((2, -1))} if d.opset >= 15 else {}
    return d.call(op, [d.value(d.allowed(op), 2, 4)], **(given if op == "Shape" else {}))


def _picked(d: Draft) -> list[Value]:
    """Elements by places."""
    x = d.constant(d.array((4, 5), "float32"))
    op = d.pick(("GatherElements", "GatherND", "ReverseSequence", "Compress"))
    if op == "GatherElements":
        places = d.numbers.integers(0, 4, (3, 4))
        return d.call(op, [x, d.constant(places)], axis=d.pick((0, 1)))
    if op == "GatherND":
        return d.call(op, [x, d.constant(d.numbers.integers(0, 4, (3, d.pick((1, 2)))))])
    if op == "Compress":
        keep = d.constant(np.array([True, False, True, True]))
        return d.call(op, [x, keep], axis=0)
    lengths = d.constant(d.numbers.integers(1, 4, 5))
    return d.call(op, [x, lengths], batch_axis=1, time_axis=0)


def _scattered(d: Draft) -> list[Value]:
    """Updates at places, which are all different."""
    x = d.constant(d.array((4, 5), "float32"))
    places = d.numbers.permuted(np.tile(np.arange(4), (5, 1)), axis=1)[:, :3].T
    if d.chance(0.5):
        update = d.constant(d.array((3, 5), "float32"))
        return d.call("ScatterElements", [x, d.constant(places), update])
    update = d.constant(d.array((3, 5), "float32"))
    return d.call("ScatterND", [x, d.constant(places[:, :1]), update])


def _marked(d: Draft) -> list[Value]:
    """Marks of elements."""
    op = d.pick(("Hardmax", "IsInf", "OneHot"))
    if op == "OneHot":
        places = d.constant(d.numbers.integers(-5, 5, (2, 3)))
        values = d.constant(np.float32([d.pick((0, -1)), 3]))
        return d.call(op, [places, d.constant(np.array(5)), values], axis=d.pick((-1, 0, 1)))
    x = d.array((2, 5), "float32")
    if op == "IsInf":
        x[0, :3] = np.inf, -np.inf, np.nan
        return d.call(op, [d.constant(x)], detect_negative=d.pick((0, 1)))
    if d.opset < 13:
        raise Undrawable("onnx's reference has the newer Hardmax alone, which folding goes by")
    return d.call(op, [d.constant(x)], axis=d.pick((0, 1, -1)))


def _counted(d: Draft) -> list[Value]:
    """Ranges, places that are not zero, shifted bits."""
    op = d.pick(("Range", "NonZero", "BitShift"))
    if op == "Range":
        ends = ((0, 7, 2), (5, -3, -3), (0.5, 3, 0.75))
        dtype = d.pick(("int64", "float32", "int32"))
        numbers = ends[2] if dtype == "float32" else d.pick(ends[:2])
        return d.call(op, [d.constant(np.array(n, dtype)) for n in numbers])
    if op == "NonZero":
        return d.call(op, [d.constant(d.numbers.integers(0, 2, (3, 4)).astype(np.float32))])
    x, by = d.array((3, 4), "uint32"), d.numbers.integers(0, 32, (3, 4)).astype(np.uint32)
    return d.call(op, [d.constant(x), d.constant(by)], direction=d.pick(("LEFT", "RIGHT")))


STEPS = (folded,) * 4
