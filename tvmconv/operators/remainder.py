"""The remainder of FP32 divisions, with the dividend's sign: C's ``fmodf``, by vectors."""

from __future__ import annotations

from typing import Any

from tvmconv.operators.far_elements import FarElements
from tvmconv.operators.vector_loops import ramp, spread, vector_type
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Expr, Tensor

# Below this quotient, a quotient in FP64 is rounded to the right integer. The product of that
# integer and the divisor is exact, and so is the difference.
_LIMIT = float(1 << 28)
_SIGN = -(1 << 31)


def remainder(dividend: Tensor, divisor: Tensor, lanes: int) -> Tensor:
    """``fmodf`` of each pair of elements, bit for bit.

    Parameters
    ----------
    dividend, divisor
        FP32 vectors of one length, or of one element.
    lanes
        Elements of a vector.
    """
    size = max(int(dividend.shape[0]), int(divisor.shape[0]))

    def write(ins: Any, outs: Any) -> Any:
        buffers = [T.buffer_proxy(buffer) for buffer in (*ins, *outs)]
        single = [size > 1 == int(operand.shape[0]) for operand in (dividend, divisor)]
        return _Remainder(buffers, single, size, lanes).write()

    result: Any = te.extern(
        [[size]], [dividend, divisor], write, dtype=["float32"], name="remainder"
    )
    return result


class _Remainder(FarElements):
    """The loops; an element is far if its quotient is large or not finite."""

    def __init__(self, buffers: list[Any], single: list[bool], size: int, lanes: int) -> None:
        super().__init__(size, lanes)
        *self.operands, self.result = buffers
        self.single = single

    def element(self, place: Any) -> None:
        a, b = self._pair(place, 1)
        with T.If(tirx.Not(self._quotient(a, b, 1) < _LIMIT)), T.Then():
            self.result[place] = tirx.truncmod(a, b)

    def vector(self, place: Any, width: int) -> None:
        a, b = self._pair(place, width)
        wide, number = vector_type("float64", width), vector_type("int32", width)
        quotient = self._quotient(a, b, width)
        whole = tirx.trunc(quotient) * tirx.abs(tirx.Cast(wide, b))
        rest = tirx.Cast(vector_type("float32", width), tirx.abs(tirx.Cast(wide, a)) - whole)
        # also where the divisor is infinite
        rest = tirx.Select(tirx.abs(a) < tirx.abs(b), tirx.abs(a), rest)
        sign = tirx.reinterpret(number, a) & spread(tirx.const(_SIGN, "int32"), width)
        bits = tirx.reinterpret(number, rest) | sign
        self.result[ramp(place, width)] = tirx.reinterpret(vector_type("float32", width), bits)
        one, zero = (spread(tirx.const(value, "int32"), width) for value in (1, 0))
        fits = quotient < spread(tirx.const(_LIMIT, "float64"), width)
        marks = ramp(0, width)
        self.far[marks] = self.far[marks] | tirx.Select(fits, zero, one)

    def _pair(self, place: Any, width: int) -> list[Expr]:
        """The dividends and the divisors."""
        return [
            spread(data[0], width) if single else data[ramp(place, width)]
            for data, single in zip(self.operands, self.single, strict=True)
        ]

    def _quotient(self, a: Expr, b: Expr, width: int) -> Expr:
        wide = vector_type("float64", width)
        return tirx.abs(tirx.Cast(wide, a)) / tirx.abs(tirx.Cast(wide, b))
