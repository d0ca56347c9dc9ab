"""How further element-wise operators and types are drawn: see :mod:`tests.sweeps.draws`."""

from __future__ import annotations

import numpy as np

from tests.sweeps.draws import DIVISION, Case, Draw, Draws, Given, drawn

DRAWS: Draws = {}

_EXP = 14
_INTEGERS = ("int32", "int64", "int8", "uint8")


def _other(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an operand that is broadcast along some axes, or none."""
    if draw.pick(True, False):
        return shape
    return tuple(draw.pick(1, size) for size in shape)


@drawn(DRAWS, "Round", "ThresholdedRelu", "Shrink", "IsNaN", "IsInf")
def cheap(draw: Draw) -> Case:
    return draw.case(draw.shape(), operations=4)


@drawn(DRAWS, "Clip")
def clip(draw: Draw) -> Case:
    dtype = draw.dtype("int32", "int8", "uint8", "float64", "float16")
    low, high = np.array(2, dtype), np.array(40, dtype)
    return draw.case(draw.shape(), low, high, dtype=dtype, operations=2)


@drawn(DRAWS, "Acosh", "Asinh", "Atanh")
def inverse(draw: Draw) -> Case:
    return draw.case(draw.shape(), operations=2 * _EXP + 2 * DIVISION)


@drawn(DRAWS, "Pow")
def power(draw: Draw) -> Case:
    shape = draw.shape()
    exponent = draw.pick(2.0, 3.0, 0.5, -1.0, 1.7, None)
    if exponent is None:
        exponents = draw.numbers.uniform(-2, 2, _other(draw, shape)).astype("float32")
        bases = draw.numbers.uniform(0.1, 4, shape).astype("float32")
        return draw.case(Given(bases), Given(exponents), operations=5 * _EXP)
    return draw.case(shape, np.array(exponent, "float32"), operations=5 * _EXP)


@drawn(DRAWS, "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def comparison(draw: Draw) -> Case:
    shape = draw.shape()
    dtype = draw.dtype("int32", "int64", "float64")
    return draw.case(shape, _other(draw, shape), dtype=dtype, operations=2)


@drawn(DRAWS, "And", "Or", "Xor")
def logic(draw: Draw) -> Case:
    shape = draw.shape()
    operands = [draw.numbers.random(s) < 0.5 for s in (shape, _other(draw, shape))]
    # masks of short rows
    return draw.case(*map(Given, operands), dtype="bool", operations=8)


@drawn(DRAWS, "Not")
def negation(draw: Draw) -> Case:
    return draw.case(Given(draw.numbers.random(draw.shape()) < 0.5), dtype="bool", operations=2)


@drawn(DRAWS, "BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(draw: Draw) -> Case:
    shape = draw.shape()
    dtype = draw.pick(*_INTEGERS)
    return draw.case(shape, _other(draw, shape), dtype=dtype, operations=2)


@drawn(DRAWS, "Sum", "Mean")
def several(draw: Draw) -> Case:
    shape = draw.shape()
    count = draw.pick(2, 3, 4)
    return draw.case(*[_other(draw, shape) for _ in range(count - 1)], shape, operations=count)


def _typed(operator: str, dtypes: tuple[str, ...], operations: float) -> None:
    """Draws of an operator in other types, by the name ``Operator.typed``."""

    @drawn(DRAWS, f"{operator}.typed")
    def typed(draw: Draw) -> Case:
        return draw.case(draw.shape(), dtype=draw.pick(*dtypes), operations=operations)


for _operator in ("Abs", "Neg", "Relu", "Sign"):
    _typed(_operator, ("int8", "int32", "int64", "float64", "float16"), 2)
for _operator in ("Exp", "Log", "Sigmoid", "Tanh", "Erf", "Elu", "Softplus", "Cosh", "Sinh"):
    _typed(_operator, ("float64", "float16"), 4 * _EXP)
for _operator in ("Sin", "Cos", "Tan"):
    _typed(_operator, ("float64", "float16"), 8 * _EXP)
for _operator in ("Sqrt", "Floor"):
    _typed(_operator, ("float64", "float16"), 4 * DIVISION)


@drawn(DRAWS, "Add.typed", "Mul.typed", "Sub.typed", "Max.typed", "Min.typed")
def sums(draw: Draw) -> Case:
    shape = draw.shape()
    dtype = draw.pick("int32", "int64", "float64", "float16")
    return draw.case(shape, _other(draw, shape), dtype=dtype, operations=2)


@drawn(DRAWS, "Div.typed", "Mod.typed")
def quotients(draw: Draw) -> Case:
    shape = draw.shape()
    dtype = draw.pick("int32", "int64")
    divisors = draw.numbers.integers(1, 20, draw.pick((1,), _other(draw, shape))).astype(dtype)
    divisor = draw.pick(divisors, Given(divisors))
    # no vector divides integers
    return draw.case(shape, divisor, dtype=dtype, operations=8 * DIVISION)


@drawn(DRAWS, "Cast.typed")
def cast(draw: Draw) -> Case:
    dtype = draw.pick("float16", "int32", "int64", "uint8", "int8", "float64", "bool")
    codes = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}
    to = draw.pick(*[code for name, code in codes.items() if name != dtype])
    values = np.abs(draw.numbers.standard_normal(draw.shape()) * 20).astype(dtype)
    return draw.case(Given(values), to=to, dtype=dtype, operations=4)
