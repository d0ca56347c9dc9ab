"""Draws operators that compute numbers: element by element, along axes, and matrix products."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from tests.fuzz.draft import Draft, Undrawable, Value

_UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos"),
    *("Cosh", "Erf", "Exp", "Floor", "HardSwish", "Identity", "IsNaN", "Log", "Mish", "Neg", "Not"),
    *("Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign"),
    *("Sqrt", "Tan", "Tanh", "Relu", "Sigmoid", "Tanh"),
)
# with the attributes that each may have, and values of them
_CURVES = {
    "Celu": {"alpha": (1.0, 0.3, 2.5)},
    "Elu": {"alpha": (1.0, 0.3, -0.5)},
    "Gelu": {"approximate": ("none", "tanh")},
    "HardSigmoid": {"alpha": (0.2, 0.5, -0.3), "beta": (0.5, 0.1)},
    "LeakyRelu": {"alpha": (0.01, 0.3, 1.5, -0.2, 0.0)},
    "Selu": {"alpha": (1.5, 0.7), "gamma": (1.1, 0.6)},
    "Shrink": {"lambd": (0.5, 0.1, 2.0), "bias": (0.0, 0.3)},
    "Swish": {"alpha": (1.0, 0.7, -1.3)},
    "ThresholdedRelu": {"alpha": (1.0, 0.2, -0.5)},
}
_BINARY = (
    *("Add", "Sub", "Mul", "Div", "Add", "Mul", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Less"),
    *("LessOrEqual", "Greater", "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "PRelu"),
)
_VARIADIC = ("Max", "Min", "Sum", "Mean")
_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)


def unary(d: Draft) -> None:
    """A function of each element."""
    op = d.pick(_UNARY)
    d.call(op, [d.source(op)])


def curve(d: Draft) -> None:
    """One with attributes."""
    op = d.pick(sorted(_CURVES))
    chosen = {k: d.pick(v) for k, v in _CURVES[op].items() if d.chance(0.6)}
    d.call(op, [d.source(op)], **chosen)


def clip(d: Draft) -> None:
    """Either bound may be missing; the lower one may be above the other."""
    x = d.source("Clip")
    bounds = {}
    for name, low, high in (("min", -5, 1), ("max", 0, 6)):
        if d.chance(0.75):
            number = d.generator.uniform(low, high)
            whole = not x.dtype.startswith("float")
            ends = np.iinfo(x.dtype).min if whole else -9
            bounds[name] = np.array(max(round(number), ends) if whole else number, x.dtype)
    if d.opset < 11:
        bounds = {name: float(value) for name, value in bounds.items()}
    d.call("Clip", [x], **bounds)


def binary(d: Draft) -> None:
    """Two operands that broadcast, either way."""
    op = d.pick(_BINARY)
    a = d.source(op)
    shape = _broadcast(d, a.shape, longer=op != "PRelu")
    dtype = a.dtype
    if op == "Pow" and d.opset >= 12:
        dtype = d.dtype(d.allowed(op, 1))
    b = d.operand(shape, dtype)
    extra = {"fmod": 1} if op == "Mod" and (dtype.startswith("float") or d.chance(0.3)) else {}
    first = (b, a) if op not in ("PRelu", "Pow") and d.chance(0.3) else (a, b)
    d.call(op, first, **extra)


def variadic(d: Draft) -> None:
    """One to four operands."""
    op = d.pick(_VARIADIC)
    a = d.source(op)
    # operator set 7 does not broadcast them
    shapes = [_broadcast(d, a.shape) if d.opset > 7 else a.shape for _ in range(d.pick(range(4)))]
    more = [d.operand(shape, a.dtype) for shape in shapes]
    d.call(op, [a, *more])


def where(d: Draft) -> None:
    """A choice by a condition."""
    a = d.source("Where")
    b = d.operand(_broadcast(d, a.shape), a.dtype)
    d.call("Where", [d.operand(_broadcast(d, a.shape), "bool"), *d.pick(((a, b), (b, a)))])


def cast(d: Draft) -> None:
    """To any type, by its number or by an example."""
    x = d.source("Cast")
    target = d.dtype([t for t in d.allowed("Cast") if t != x.dtype])
    if x.dtype.startswith("float") and target.startswith("u"):
        # the result for a negative number is left open
        (x,) = d.call("Abs", [x])
    if d.chance(0.2):
        d.call("CastLike", [x, d.operand((1,), target)])
    else:
        d.call("Cast", [x], to=_code(target))


def reduction(d: Draft) -> None:
    """Over some axes, all, or none."""
    op = d.pick(_REDUCTIONS)
    x = d.source(op)
    given = {"keepdims": d.pick((0, 1))} if d.chance(0.6) else {}
    if d.chance(0.8) and x.rank:
        given["axes"] = _axes(d, x.rank)
    elif d.chance(0.3):
        given["noop_with_empty_axes"] = 1
    d.call(op, [x], **given)


def extremes(d: Draft) -> None:
    """Places of the largest or smallest, the largest ones, running sums."""
    op = d.pick(("ArgMax", "ArgMin", "TopK", "CumSum"))
    x = d.source(op, 1)
    axis = d.generator.randrange(-x.rank, x.rank)
    if op == "CumSum":
        flags = {name: 1 for name in ("exclusive", "reverse") if d.chance(0.5)}
        d.call(op, [x], axis=np.array(axis, d.pick(("int32", "int64"))), **flags)
    elif op == "TopK":
        k = d.generator.randint(1, x.shape[axis])
        count = k if d.opset < 10 else np.array([k])
        flags = {"largest": 0} if d.opset >= 11 and d.chance(0.5) else {}
        name = "k" if d.opset < 10 else "K"
        d.call(op, [x], 2, axis=axis, **{name: count}, **flags)
    else:
        flags = {"select_last_index": 1} if d.chance(0.3) else {}
        d.call(op, [x], axis=axis, keepdims=d.pick((0, 1)), **flags)


def soft(d: Draft) -> None:
    """Softmax and its like; before set 13 over several axes."""
    op = d.pick(("Softmax", "Softmax", "LogSoftmax", "LpNormalization"))
    x = d.source(op, 1)
    given = {"axis": d.generator.randrange(-x.rank, x.rank)} if d.chance(0.8) else {}
    if op == "LpNormalization":
        given |= {"p": d.pick((1, 2))}
    elif d.opset < 13 and x.rank == 1 and not given:
        raise Undrawable("the default is the second axis")
    d.call(op, [x], **given)


def norm(d: Draft) -> None:
    """BatchNormalization and similar operators, their parameters constant or not."""
    op = d.pick(
        ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization",
         "LRN")
    )  # fmt: skip
    x = d.source(op, 2 if op in ("BatchNormalization", "LayerNormalization") else 3)
    given = {"epsilon": d.pick((1e-5, 1e-3, 0.1))} if op != "LRN" and d.chance(0.5) else {}
    if op == "LRN":
        d.call(op, [x], size=d.pick((1, 2, 3, 5)), alpha=0.3, beta=d.pick((0.5, 0.75)), bias=1.5)
    elif op == "LayerNormalization":
        axis = d.generator.randrange(-x.rank, x.rank)
        part = x.shape[axis:]
        shapes = [part] * d.pick((1, 2))
        parameters = [d.operand(shape, x.dtype) for shape in shapes]
        d.call(op, [x, *parameters], d.pick((1, 1, 3)), axis=axis, **given)
    else:
        channels = x.shape[1]
        if op == "GroupNormalization":
            if d.opset < 21:
                raise Undrawable("onnx's checker refuses the form of operator set 18")
            groups = d.pick([g for g in range(1, channels + 1) if channels % g == 0])
            given["num_groups"] = groups
        parameters = [d.operand((channels,), x.dtype) for _ in range(2)]
        if op == "BatchNormalization":
            variance = np.abs(d.array((channels,), x.dtype)) + x_type(x)(0.5)
            parameters += [d.operand((channels,), x.dtype), d.constant(variance)]
            if d.opset >= 14 and d.chance(0.3):
                d.call(op, [x, *parameters], 3, training_mode=1, momentum=0.75, **given)
                return
        d.call(op, [x, *parameters], **given)


def x_type(x: Value) -> type:
    """The numpy type of a value."""
    return np.dtype(x.dtype).type


def product(d: Draft) -> None:
    """MatMul of any ranks, Gemm, Einsum."""
    op = d.pick(("MatMul", "MatMul", "Gemm", "Einsum"))
    if op == "Gemm":
        return _gemm(d)
    a = d.source(op, 1, 4)
    if op == "Einsum":
        return _einsum(d, a)
    columns = d.pick((1, 3, 8, 17))
    stack = a.shape[:-2]
    inner = a.shape[-1]
    shape = d.pick(((inner,), (inner, columns), (*stack, inner, columns),
                    (*[1] * len(stack), inner, columns)))  # fmt: skip
    if a.rank == 1:
        shape = d.pick(((inner,), (inner, columns), (2, inner, columns)))
    d.call(op, [a, d.operand(shape, a.dtype)])


def _gemm(d: Draft) -> None:
    a = d.source("Gemm", 2, 2)
    flags = {name: 1 for name in ("transA", "transB") if d.chance(0.4)}
    rows, inner = a.shape[::-1] if "transA" in flags else a.shape
    columns = d.pick((1, 3, 8, 17))
    shape = (columns, inner) if "transB" in flags else (inner, columns)
    operands = [a, d.operand(shape, a.dtype)]
    given: dict[str, float] = {}
    if d.chance(0.7) or d.opset < 11:
        shape = d.pick(((columns,), (1, columns), (rows, 1), (rows, columns), (1,), ()))
        operands.append(d.operand(shape, a.dtype))
        given |= {"beta": d.pick((0.5, 2.0, 0.0))} if d.chance(0.3) else {}
    if d.chance(0.3):
        given["alpha"] = d.pick((0.5, 2.0, 3.0 if a.dtype.startswith("u") else -1.0))
    if not a.dtype.startswith("float"):
        given = {name: round(value) + 0.0 for name, value in given.items()}
    d.call("Gemm", operands, **flags, **given)


def _einsum(d: Draft, a: Value) -> None:
    letters = d.generator.sample(string.ascii_letters[:6], a.rank)
    shared = d.generator.sample(range(a.rank), d.generator.randint(0, a.rank))
    fresh = [c for c in string.ascii_lowercase if c not in letters][: d.generator.randrange(3)]
    sizes = dict(zip(letters, a.shape, strict=True)) | {c: d.pick((1, 2, 5)) for c in fresh}
    other = [letters[i] for i in shared] + fresh
    d.generator.shuffle(other)
    if not other:
        raise Undrawable("no second operand")
    kept = [c for c in {**dict.fromkeys(letters), **dict.fromkeys(other)} if d.chance(0.6)]
    d.generator.shuffle(kept)
    equation = f"{''.join(letters)},{''.join(other)}->{''.join(kept)}"
    b = d.operand([sizes[c] for c in other], a.dtype)
    d.call("Einsum", [a, b], equation=equation)


def _axes(d: Draft, rank: int) -> list[int]:
    chosen = d.generator.sample(range(rank), d.generator.randint(1, rank))
    return [axis - rank if d.chance(0.3) else axis for axis in chosen]


def _broadcast(d: Draft, shape: Sequence[int], *, longer: bool = True) -> tuple[int, ...]:
    """A shape that broadcasts with another one."""
    kind = d.generator.random()
    if kind < 0.35:
        return tuple(shape)
    if kind < 0.5:
        return ()
    ones = tuple(1 if d.chance(0.4) else n for n in shape)
    if kind < 0.75:
        return ones[d.generator.randint(0, len(ones)) :]
    if kind < 0.85 and longer:
        return (d.pick((1, 2)), *ones)
    return tuple(d.pick((n, 3)) if n == 1 and longer else n for n in ones)


def _code(dtype: str) -> int:
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


STEPS = (
    *(unary, unary, curve, clip, binary, binary, variadic, where, cast, reduction, extremes),
    *(soft, norm, product),
)
