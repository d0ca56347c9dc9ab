"""Element-wise arithmetic, comparison and logic with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op

_BINARY: dict[str, Callable[[RelaxExpr, RelaxExpr], RelaxExpr]] = {
    "Add": op.add,
    "Sub": op.subtract,
    "Mul": op.multiply,
    "Equal": op.equal,
    "Greater": op.greater,
    "GreaterOrEqual": op.greater_equal,
    "Less": op.less,
    "LessOrEqual": op.less_equal,
    "And": op.logical_and,
    "Or": op.logical_or,
    "Xor": op.logical_xor,
}
_UNARY: dict[str, Callable[[RelaxExpr], RelaxExpr]] = {
    "Abs": op.abs,
    "Acos": op.acos,
    "Acosh": op.acosh,
    "Asin": op.asin,
    "Asinh": op.asinh,
    "Atan": op.atan,
    "Atanh": op.atanh,
    "Ceil": op.ceil,
    "Cos": op.cos,
    "Cosh": op.cosh,
    "Erf": op.erf,
    "Exp": op.exp,
    "Floor": op.floor,
    "IsNaN": op.isnan,
    "Log": op.log,
    "Neg": op.negative,
    "Round": op.round,
    "Sigmoid": op.sigmoid,
    "Sign": op.sign,
    "Sin": op.sin,
    "Sinh": op.sinh,
    "Sqrt": op.sqrt,
    "Tan": op.tan,
    "Tanh": op.tanh,
}
_EQUAL = ("Equal", "GreaterOrEqual", "LessOrEqual")
_VARIADIC: dict[str, Callable[[RelaxExpr, RelaxExpr], RelaxExpr]] = {
    "Max": op.maximum,
    "Mean": op.add,
    "Min": op.minimum,
    "Sum": op.add,
}


@converts(*_BINARY, attrs="axis broadcast", inputs=2)
def binary(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """An operator of two operands."""
    a, b = operands_of(e, node)
    if node.op == "Equal" and e.dtype(node.inputs[0]) == "bool":
        # TVM compares vectors of booleans as floating-point numbers
        return negated(e.emit(op.logical_xor(a, b), "differs"))
    if node.op in _EQUAL and a is b and e.dtype(node.inputs[0]).startswith("float"):
        # TVM takes a value for equal to itself, which a NaN is not
        return negated(e.emit(op.isnan(a), "nan"))
    return zero_rank(e, node, _BINARY[node.op](a, b))


@converts("IsInf", attrs="detect_negative detect_positive", inputs=1)
def is_infinite(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Whether values are infinite, of the signs that the attributes select."""
    (name,) = node.inputs
    value, dtype = e.value(name), e.dtype(name)
    signs = (("detect_positive", np.inf), ("detect_negative", -np.inf))
    wanted = [number for attribute, number in signs if node.attrs.get(attribute, 1)]
    found = [e.emit(op.equal(value, e.scalar(number, dtype)), "infinite") for number in wanted]
    if not found:
        return op.broadcast_to(e.scalar(False, "bool"), e.shape(name))
    return found[0] if len(found) == 1 else op.logical_or(*found)


def operands_of(e: RelaxWriter, node: OnnxNode) -> tuple[RelaxExpr, RelaxExpr]:
    """Both operands; before opset 7 ``axis`` says where the second one's dimensions belong."""
    left, right = node.inputs
    a, b = e.value(left), e.value(right)
    rank, other = len(e.shape(left)), len(e.shape(right))
    if node.attrs.get("broadcast", 0) and "axis" in node.attrs and other:
        axis = int(node.attrs["axis"]) % max(rank, 1)
        if axis + other > rank:
            raise node.error(f"axis={axis} does not fit the operands")
        shape = e.shape(right) + (1,) * (rank - axis - other)
        b = e.emit(op.reshape(b, shape), "aligned")
    a, b = (
        # a tensor of one element
        constant(e.graph.constants[name].reshape(1)) if _is_stored(e, node, name) else value
        for name, value in ((left, a), (right, b))
    )
    return a, b


def _is_stored(e: RelaxWriter, node: OnnxNode, name: str) -> bool:
    """Whether an operand is a constant number that TVM must not simplify with.

    TVM takes the product of a number 0 and NaN for 0, and refuses to divide by it. It negates
    integers, which a signed type's minimum has no room for, and takes the ends of int64 for
    infinite.
    """
    array = e.array(name)
    if array is None or array.shape:
        return False
    if array.dtype.kind == "f":
        return node.op in ("Div", "Mul") and bool(array == 0)
    if array.dtype.kind not in "iu":
        return False
    number, least = int(array), int(np.iinfo(array.dtype).min)
    return number == least < 0 or abs(number) >= np.iinfo(np.int64).max


def zero_rank(e: RelaxWriter, node: OnnxNode, result: RelaxExpr) -> RelaxExpr:
    """The result without the axis that :func:`operands_of` adds to some numbers."""
    added = any(_is_stored(e, node, name) for name in node.inputs)
    if e.shape(node.outputs[0]) or not added:
        return result
    return op.reshape(e.emit(result, "tensor"), ())


@converts("Pow", attrs="axis broadcast", inputs=2)
def power(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Base to the exponent, in the base's type; small constant exponents become products."""
    return zero_rank(e, node, _power(e, node, *operands_of(e, node)))


def _power(e: RelaxWriter, node: OnnxNode, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    dtype = e.dtype(node.inputs[0])
    exponent = e.array(node.inputs[1])
    if (
        exponent is not None
        and exponent.size == 1
        and exponent.ndim <= len(e.shape(node.inputs[0]))
    ):
        value = float(exponent.reshape(-1)[0])
        if value in (2.0, 3.0):
            square = op.multiply(a, a)
            return square if value == 2.0 else op.multiply(square, a)
        if value == 1.0:
            return a
        if value == 0.5 and dtype.startswith("float"):
            return _root(e, a, dtype)
    if not dtype.startswith("float"):
        wide = op.power(op.astype(a, "float64"), op.astype(b, "float64"))
        return op.astype(wide, dtype)
    return op.power(a, op.astype(b, dtype) if e.dtype(node.inputs[1]) != dtype else b)


def _root(e: RelaxWriter, x: RelaxExpr, dtype: str) -> RelaxExpr:
    """The power of 0.5: a square root, but 0 of -0 and infinity of minus infinity."""
    low = e.emit(op.equal(x, e.scalar(-np.inf, dtype)), "low")
    positive = e.emit(op.where(low, e.scalar(np.inf, dtype), x), "positive")
    zero = e.scalar(0, dtype)
    unsigned = op.where(e.emit(op.equal(positive, zero), "is_zero"), zero, positive)
    return op.sqrt(e.emit(unsigned, "unsigned"))


@converts(*_UNARY)
def unary(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """An operator of one operand."""
    x, dtype = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    if node.op == "Sign" and dtype.startswith("uint"):
        # TVM would need -1
        return op.astype(op.not_equal(x, e.scalar(0, dtype)), dtype)
    if dtype == "float64" and node.op in ("Cosh", "Sinh"):
        return _hyperbolic(e, node, x)
    if node.op == "Erf" and not dtype.startswith("float"):
        return _integer_erf(e, x, dtype)
    return _UNARY[node.op](x)


@converts("Not")
def logical_not(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """True where the operand is false."""
    return negated(e.value(node.inputs[0]))


def negated(condition: RelaxExpr) -> RelaxExpr:
    """The opposite of booleans.

    TVM would simplify ``not (a < b)`` to ``b <= a``, which is false for a NaN.
    """
    return op.logical_xor(condition, constant(np.array(True)))


def _integer_erf(e: RelaxWriter, x: RelaxExpr, dtype: str) -> RelaxExpr:
    """Erf of integers, truncated: from 4 on, float32 has no number between the result and 1."""
    high = e.emit(op.astype(op.greater(x, e.scalar(3, dtype)), dtype), "high")
    if dtype.startswith("uint"):
        return high
    return op.subtract(high, op.astype(op.less(x, e.scalar(-3, dtype)), dtype))


def _hyperbolic(e: RelaxWriter, node: OnnxNode, x: RelaxExpr) -> RelaxExpr:
    """Cosh and Sinh of float64, which TVM does not lower."""
    size, half_e = e.emit(op.abs(x), "size"), np.e / 2
    # exp(x) / 2, which overflows no earlier than the result; the difference is exact from 0.5 on
    grown = op.exp(op.subtract(size, e.scalar(1, "float64")))
    if node.op == "Cosh":
        less = op.multiply(op.exp(op.negative(size)), e.scalar(0.5, "float64"))
        return op.add(op.multiply(grown, e.scalar(half_e, "float64")), less)
    # sinh(x) = (1 - exp(-2x)) exp(x) / 2, of the magnitude so that no product is 0 by infinity
    part = expm1(e, op.multiply(size, e.scalar(-2, "float64")))
    whole = op.multiply(op.multiply(part, e.scalar(-half_e, "float64")), grown)
    return op.multiply(op.sign(x), whole)


def expm1(e: RelaxWriter, x: RelaxExpr) -> RelaxExpr:
    """exp(x) - 1 of a float64 value without cancellation.

    Near 0 it is (u - 1) x / log(u) with u = exp(x), in which rounding errors of u cancel. Source:
    Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 1.14.1.
    """
    one = e.scalar(1, "float64")
    grown = e.emit(op.exp(x), "grown")
    less = e.emit(op.subtract(grown, one), "less")
    near = e.emit(op.divide(op.multiply(less, x), op.log(grown)), "near")
    small = e.emit(op.where(op.equal(grown, one), x, near), "small")
    return e.emit(op.where(op.less(op.abs(x), one), small, less), "expm1")


def log1p(e: RelaxWriter, x: RelaxExpr) -> RelaxExpr:
    """log(1 + x) of a float64 value from 0 to 1 without cancellation, as :func:`expm1`."""
    one = e.scalar(1, "float64")
    grown = e.emit(op.add(x, one), "grown")
    near = op.divide(op.multiply(op.log(grown), x), op.subtract(grown, one))
    return e.emit(op.where(op.equal(grown, one), x, e.emit(near, "near")), "log1p")


@converts("Shrink", attrs="bias lambd")
def shrink(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X + bias where x < -lambd, x - bias where x > lambd, else 0."""
    x, dtype = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    # neither -lambd nor a fraction is a value of every integer type
    inner = dtype if dtype.startswith("float") else "float64"
    x = x if inner == dtype else e.emit(op.astype(x, inner), "wide")
    bias = e.scalar(float(node.attrs.get("bias", 0.0)), inner)
    lambd = float(node.attrs.get("lambd", 0.5))
    above = e.emit(op.greater(x, e.scalar(lambd, inner)), "above")
    below = e.emit(op.less(x, e.scalar(-lambd, inner)), "below")
    middle = op.where(above, op.subtract(x, bias), e.scalar(0, inner))
    y = op.where(below, op.add(x, bias), middle)
    return y if inner == dtype else op.astype(e.emit(y, "shrunk"), dtype)


@converts("Reciprocal")
def reciprocal(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """1 / x."""
    return op.divide(e.scalar(1, e.dtype(node.inputs[0])), e.value(node.inputs[0]))


@converts(*_VARIADIC)
def variadic(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """An operator of any number of operands, applied from left to right."""
    result = e.value(node.inputs[0])
    for name in node.inputs[1:]:
        result = e.emit(_VARIADIC[node.op](result, e.value(name)))
    if node.op == "Mean" and len(node.inputs) > 1:
        result = op.divide(result, e.scalar(len(node.inputs), e.dtype(node.inputs[0])))
    return result


@converts("Where", inputs=3)
def where(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Choose element-wise by a condition."""
    return op.where(*(e.value(name) for name in node.inputs))


@converts("BitShift", attrs="direction", inputs=2)
def bit_shift(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Shifted bits; negative shifts, and those by the type's width or more, leave only the sign."""
    direction = str(node.attrs.get("direction", ""))
    if direction not in ("LEFT", "RIGHT"):
        raise node.error(f"direction={direction[:80]!r} is unknown", "use LEFT or RIGHT")
    x, count = (e.value(name) for name in node.inputs[:2])
    dtype = e.dtype(node.inputs[0])
    last = e.scalar(np.iinfo(dtype).bits - 1, dtype)
    is_out = e.emit(op.greater(count, last), "is_out")
    if not dtype.startswith("uint"):
        is_out = e.emit(op.logical_or(is_out, op.less(count, e.scalar(0, dtype))), "is_out")
    within = e.emit(op.where(is_out, last, count), "within")
    shift = op.left_shift if direction == "LEFT" else op.right_shift
    moved = e.emit(shift(x, within), "moved")
    if direction == "RIGHT" and not dtype.startswith("uint"):
        return moved
    return op.where(is_out, e.scalar(0, dtype), moved)
