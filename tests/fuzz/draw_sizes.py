"""Draws operators whose results have a size that depends on the data, and what follows them.

All values are computed for some inputs, which gives the shapes. Two of these inputs keep as many
and as few elements as possible. The others are random.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from tests.fuzz.draft import Draft, Undrawable, Value
from tests.fuzz.runtimes import results_of

_SAMPLES = 4


class Sized:
    """Nodes of a draft, and the values for all inputs."""

    def __init__(self, d: Draft) -> None:
        self.d = d
        self.known: dict[str, list[Any]] = {}

    def input(self, shape: tuple[int, ...], dtype: str = "float32") -> str:
        name = self.d.input(shape, dtype).name
        array, other = self.d.array(shape, dtype), self.d.array(shape, dtype)
        if dtype == "bool":
            self.known[name] = [array, other, np.ones_like(array), np.zeros_like(array)]
        elif dtype == "int64":
            self.known[name] = [array, other, np.full_like(array, -1), np.zeros_like(array)]
        else:
            different = np.arange(1, array.size + 1, dtype=dtype).reshape(shape)
            self.known[name] = [array, other, different, np.full_like(array, -1)]
        return name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        array = np.asarray(value, dtype)
        name = self.d.constant(array).name
        self.known[name] = [array] * _SAMPLES
        return name

    def apply(self, op: str, *names: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node; its results."""
        d = self.d
        node = helper.make_node(op, names, [d.name("v") for _ in range(outputs)], d.name(op),
                                **attributes)  # fmt: skip
        made = []
        for sample in range(_SAMPLES):
            given = {n: self.known[n][sample] for n in names if n}
            try:
                made.append(results_of(node, given, d.empty()))
            except Exception as error:  # any error of other runtimes: the node is not valid
                if not sample:
                    raise Undrawable(str(error)) from error
                # there may be no result of nothing
                made.append({})
        if any(0 in array.shape for array in made[0].values()):
            raise Undrawable("an empty result")
        d.nodes.append(node)
        self.known.update((name, [sample.get(name) for sample in made]) for name in made[0])
        d.varying += [Value(n, a.shape, a.dtype.name) for n, a in made[0].items()]
        return list(made[0])

    def one(self, op: str, *names: str, **attributes: Any) -> str:
        return self.apply(op, *names, **attributes)[0]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.known[name][0].shape)

    def fixed(self, name: str, axis: int) -> int:
        """An extent that does not vary."""
        extents = {-1 if array is None else array.shape[axis] for array in self.known[name]}
        if len(extents) > 1:
            raise Undrawable("the extent varies")
        return int(extents.pop())

    def dtype(self, name: str) -> str:
        return str(self.known[name][0].dtype.name)

    def reduced(self, op: str, name: str, axis: int, **attributes: Any) -> str:
        """A reduction, with its axes as an attribute or an input."""
        if "axes" in self.d.schema(op).attributes:
            return self.one(op, name, axes=[axis], **attributes)
        return self.one(op, name, self.constant([axis]), **attributes)

    def number(self, name: str) -> str:
        """The value in float32."""
        return name if self.dtype(name) == "float32" else self.one("Cast", name, to=1)


def boxes(s: Sized) -> str:
    """NonMaxSuppression, its number and thresholds constant or computed."""
    d = s.d
    count, classes, batch = d.pick((1, 5, 12)), d.pick((1, 2)), d.pick((1, 1, 2))
    operands = [s.input((batch, count, 4)), s.input((batch, classes, count))]
    if d.chance(0.3):
        most = s.one("Mod", s.input((1,), "int64"), s.constant([count]))
    else:
        most = s.constant([d.pick((1, 3, count, 100))])
    operands += [most, s.constant([d.pick((0.0, 0.3, 0.7))], "float32")]
    if d.chance(0.6):
        operands.append(s.input((1,)) if d.chance(0.3) else s.constant([0.2], "float32"))
    return s.one("NonMaxSuppression", *operands, center_point_box=d.pick((0, 0, 1)))


def nonzero(s: Sized) -> str:
    """NonZero of a mask, or of numbers."""
    x = _source(s)
    kind = s.d.pick(("Relu", "Greater", "Cast"))
    if kind == "Relu":
        return s.one("NonZero", s.one("Relu", x))
    mask = s.one("Greater", x, s.constant(0.3, "float32"))
    return s.one("NonZero", mask if kind == "Greater" else s.one("Cast", mask, to=7))


def elements(s: Sized) -> str:
    """The elements of a mask."""
    x = _source(s)
    mask = s.one("Greater", x, s.constant(0.3, "float32"))
    return s.one("GatherND", x, s.one("Transpose", s.one("NonZero", mask)))


def compressed(s: Sized) -> str:
    """Compress along an axis, or of all elements."""
    x = _source(s)
    axis = s.d.generator.randrange(len(s.shape(x)))
    given = {"axis": axis - s.d.pick((0, len(s.shape(x))))} if s.d.chance(0.7) else {}
    length = s.shape(x)[axis] if given else int(np.prod(s.shape(x)))
    length = max(length - s.d.pick((0, 0, 1)), 1)
    return s.one("Compress", x, s.input((length,), "bool"), **given)


def different(s: Sized) -> str:
    """Unique, with some of its outputs."""
    x = _source(s, varied=s.d.chance(0.3))
    dtype = s.d.pick((1, 6, 7))
    if s.d.chance(0.7):
        x = s.one("Cast", s.one("Round", x), to=dtype)
    rank = len(s.shape(x))
    given = {"axis": s.d.generator.randrange(-rank, rank)} if s.d.chance(0.5) else {}
    # onnxruntime has no integers of 32 bits, and onnx.reference sorts everything
    given["sorted"] = 1 if s.dtype(x) == "int32" else s.d.pick((1, 1, 0))
    results = s.apply("Unique", x, outputs=s.d.pick((1, 1, 4)), **given)
    return s.d.pick(results)


def largest(s: Sized) -> str:
    """TopK of a number that is computed."""
    x = _source(s)
    axis = s.d.generator.randrange(len(s.shape(x)))
    k = s.one("Mod", s.input((1,), "int64"), s.constant([s.shape(x)[axis]]))
    k = s.one("Add", k, s.constant([1]))
    given = {"largest": s.d.pick((0, 1))} if s.d.opset > 10 else {}
    return s.d.pick(s.apply("TopK", x, k, outputs=2, axis=axis, **given))


def _source(s: Sized, *, varied: bool = False) -> str:
    known = [n for n in s.known if s.dtype(n) == "float32" and s.shape(n)]
    if varied and known:
        return s.d.pick(known)
    return s.input(s.d.shape(1, 3))


def _unary(s: Sized, x: str) -> str:
    op = s.d.pick(("Abs", "Neg", "Identity", "Relu", "Sigmoid", "Exp", "Floor", "Cast"))
    x = s.number(x)
    return s.one(op, x, **({"to": s.d.pick((1, 6, 7, 11))} if op == "Cast" else {}))


def _binary(s: Sized, x: str) -> str:
    op = s.d.pick(("Add", "Mul", "Sub", "Max", "Less"))
    x = s.number(x)
    rank = len(s.shape(x))
    ones = [1] * rank
    if rank and s.d.chance(0.5):
        axis = s.d.generator.randrange(rank)
        ones[axis] = s.fixed(x, axis)
    other = s.d.pick(((), tuple(ones), (2, *ones)))
    y = s.d.pick((x, s.constant(s.d.array(other, "float32"), "float32"), s.input(other)))
    return s.one(op, *s.d.pick(((x, y), (y, x))))


def _moved(s: Sized, x: str) -> str:
    rank = len(s.shape(x))
    op = s.d.pick(("Transpose", "Unsqueeze", "Flatten", "Reshape", "Squeeze"))
    if op == "Transpose":
        return s.one(op, x, perm=s.d.generator.sample(range(rank), rank))
    if op == "Flatten":
        return s.one(op, x, axis=s.d.generator.randint(0, rank))
    if op == "Reshape":
        target = s.d.pick(([-1], [0, -1], [-1, 1], [1, -1], [-1]))
        if s.d.chance(0.2):
            target = [-1, *(s.fixed(x, axis) for axis in range(1, rank))]
        return s.one(op, x, s.constant(target))
    axis = s.d.generator.randint(0, rank)
    if op == "Squeeze" and s.fixed(x, axis) != 1:
        raise Undrawable("more than one element")
    if s.d.opset < 13:
        return s.one(op, x, axes=[axis])
    return s.one(op, x, s.constant([axis]))


def _picked(s: Sized, x: str) -> str:
    """Constant or computed places."""
    shape = s.shape(x)
    axis = s.d.generator.randrange(len(shape))
    if s.dtype(x) == "int64" and s.d.chance(0.5):
        known = [array for array in s.known[x] if array is not None]
        size = int(max(array.max(initial=0) for array in known)) + 1
        return s.one("Gather", s.input((size + s.d.pick((0, 9)), 3)), x, axis=0)
    index = s.d.pick((0, [0], [0, -1], [-1]) if s.d.opset > 10 else (0, [0]))
    return s.one("Gather", x, s.constant(index), axis=axis)


def _sliced(s: Sized, x: str) -> str:
    if s.d.opset < 10:
        raise Undrawable("bounds are attributes")
    axis = s.d.generator.randrange(len(s.shape(x)))
    start, end, step = s.d.pick(
        ((0, 1, 1), (0, 3, 1), (1, 9, 1), (0, 2**31, 2), (-1, -9, -1), (-2, 2**31, 1), (0, -1, 1))
    )
    return s.one("Slice", x, *(s.constant([value]) for value in (start, end, axis, step)))


def _reduced(s: Sized, x: str) -> str:
    op = s.d.pick(("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL2",
                   "ReduceLogSumExp"))  # fmt: skip
    axis = s.d.generator.randrange(-len(s.shape(x)), len(s.shape(x)))
    if s.d.chance(0.2):
        flags = (
            {"noop_with_empty_axes": 1} if s.d.opset >= (13 if op == "ReduceSum" else 18) else {}
        )
        return s.one(op, s.number(x), keepdims=s.d.pick((0, 1)), **flags)
    return s.reduced(op, s.number(x), axis, keepdims=s.d.pick((0, 1)))


def _along(s: Sized, x: str) -> str:
    op = s.d.pick(("Softmax", "LogSoftmax", "ArgMax", "ArgMin", "CumSum", "TopK", "Hardmax"))
    x, axis = s.number(x), s.d.generator.randrange(len(s.shape(x)))
    if op == "CumSum":
        return s.one(op, x, s.constant(axis), reverse=s.d.pick((0, 1)))
    if op == "TopK":
        return s.d.pick(s.apply(op, x, s.constant([1]), axis=axis, outputs=2))
    flags = {"select_last_index": 1} if op[:3] == "Arg" and s.d.chance(0.3) else {}
    return s.one(op, x, axis=axis, **(flags if s.d.opset > 11 else {}))


def _joined(s: Sized, x: str) -> str:
    shape = s.shape(x)
    axis = s.d.generator.randrange(len(shape))
    other = x
    if s.d.chance(0.5):
        fixed = [2 if i == axis else s.fixed(x, i) for i in range(len(shape))]
        other = s.constant(s.d.array(fixed, s.dtype(x)), s.dtype(x))
    return s.one("Concat", *s.d.pick(((x, other), (other, x), (x, other, x))), axis=axis)


def _measured(s: Sized, x: str) -> str:
    """Its shape or size, and what is made of that."""
    size = s.one(s.d.pick(("Shape", "Shape", "Size")), x)
    kind = s.d.pick(("plain", "Cast", "Gather", "ConstantOfShape", "Expand"))
    if kind == "Cast":
        return s.one("Cast", size, to=1)
    if s.shape(size):
        if kind == "Gather":
            return s.one("Gather", size, s.constant(s.d.pick((0, -1))), axis=0)
        if kind == "ConstantOfShape":
            return s.one(kind, size)
        if kind == "Expand":
            return s.one(kind, s.constant(0.5, "float32"), size)
    return size


def _product(s: Sized, x: str) -> str:
    x = s.number(x)
    matrix = s.constant(s.d.array((s.fixed(x, -1), 3), "float32"), "float32")
    return s.one("MatMul", x, matrix)


def _again(s: Sized, x: str) -> str:
    op = s.d.pick(("NonZero", "Unique", "Compress", "Where", "Tile", "Split"))
    if op == "Compress":
        mask = s.one("Greater", s.number(x), s.constant(0, "float32"))
        return s.one(op, x, s.one("Reshape", mask, s.constant([-1])))
    if op == "Where":
        x = s.number(x)
        return s.one(op, s.one("Less", x, s.constant(0.5, "float32")), x, s.input(()))
    if op == "Tile":
        return s.one(op, x, s.constant([s.d.pick((1, 2)) for _ in s.shape(x)]))
    if op == "Split":
        axis = s.d.generator.randrange(len(s.shape(x)))
        count = min(s.fixed(x, axis), 3)
        if s.d.opset < 18 and s.fixed(x, axis) % count:
            raise Undrawable("parts of different sizes")
        given = {"num_outputs": count} if s.d.opset >= 18 else {}
        return s.d.pick(s.apply(op, x, axis=axis, outputs=count, **given))
    return s.one(op, x)


_MAKERS: tuple[Callable[[Sized], str], ...] = (
    boxes, boxes, nonzero, elements, compressed, different, largest,
)  # fmt: skip
_FOLLOWERS: tuple[Callable[[Sized, str], str], ...] = (
    _unary, _unary, _binary, _binary, _moved, _moved, _picked, _picked, _sliced, _reduced, _along,
    _joined, _measured, _measured, _product, _again,
)  # fmt: skip


def sized(d: Draft) -> None:
    """One such operator, and up to six steps."""
    if d.opset < 11:
        raise Undrawable("not all of them")
    s = Sized(d)
    made = [d.pick(_MAKERS)(s)]
    for _ in range(d.pick((0, 1, 2, 3, 4, 6))):
        source = made[-1] if d.chance(0.7) else d.pick(made)
        nodes, varying = len(d.nodes), len(d.varying)
        try:
            made.append(d.pick(_FOLLOWERS)(s, source))
        except (Undrawable, IndexError, ValueError):
            del d.nodes[nodes:], d.varying[varying:]


STEPS = (sized,)
