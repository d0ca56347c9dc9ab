"""Data types of a workload's tensors, and how its integer sums become the output.

They are part of a workload's identity. The text form omits FP32. Otherwise it names the types of
data, weight, accumulator and output by the short names of benchdnn's ``--dt``. Marks of
:class:`Quantisation` follow where it is not the default: ``:u8s8s32u8:fixed:zpdata``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from .errors import WorkloadError

# name in numpy, TVM and ONNX -> (benchdnn's name, bytes)
_TYPES: dict[str, tuple[str, int]] = {
    "float32": ("f32", 4),
    "float16": ("f16", 2),
    "bfloat16": ("bf16", 2),
    "int32": ("s32", 4),
    "int16": ("s16", 2),
    "int8": ("s8", 1),
    "uint8": ("u8", 1),
}
_NAMES = {short: name for name, (short, _) in _TYPES.items()}
_FLOATING = ("float32", "float16", "bfloat16")
# half a unit in the last place, relative to the smallest number of a binade
_ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_EIGHT_BITS = ("int8", "uint8")
_MARK = re.compile(f"({'|'.join(_NAMES)})" * 4)

REQUANTISE = ("none", "float", "fixed")
# flag of a quantization -> its mark in the text form
_FLAGS = {"data_zero_point": "zpdata", "whole_range": "whole"}


def itemsize(name: str) -> int:
    """Bytes of one element of a type, such as ``"float32"``.

    Raises
    ------
    WorkloadError
        If tvmconv knows no such type.
    """
    if name not in _TYPES:
        raise WorkloadError(f"unknown data type {name!r}; use one of {', '.join(_TYPES)}")
    return _TYPES[name][1]


@dataclass(frozen=True)
class Quantisation:
    """How integer accumulators are corrected and rescaled; by default neither.

    Zero points, and scales or multipliers with shifts, are constants of a layer and operands of its
    kernel. Layers that differ in nothing else share one kernel and one tuning record. Scales for
    each channel and for all channels, and most zero points of the output, need the same code.

    ``requantise`` says how accumulators become the output. ``"none"``: they are the output.
    ``"float"``: times an FP32 scale, as ONNX defines it. ``"fixed"``: times an integer, shifted
    right. ``data_zero_point`` says whether padding holds a value other than 0. Elsewhere the data's
    zero point is part of the bias. ``whole_range`` says that the output has zero point 0, and that
    its bounds are the limits of its type, as after a Relu. Packing with saturation then needs no
    other instructions, which were a fifth of the end of a tile.
    """

    requantise: str = "none"
    data_zero_point: bool = False
    whole_range: bool = False

    def __post_init__(self) -> None:
        if self.requantise not in REQUANTISE:
            raise WorkloadError(
                f"requantise={self.requantise!r} must be one of {', '.join(REQUANTISE)}"
            )
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise WorkloadError(f"{name}={getattr(self, name)!r} must be true or false")


# types of 16-bit matrix products
_SHORTS = ("int16", "int16", "int32", "int32", Quantisation())


@dataclass(frozen=True)
class DataTypes:
    """Types of a workload's tensors in numpy's spelling.

    A bias has the accumulator's type, a residual the output's. All types are floating-point types,
    or data have 8 bits, weights 8 or 16, and accumulators 32. Such accumulators are the output, or
    are rescaled to 8 bits or FP32. 16-bit weights are 8-bit weights minus their zero point. Matrix
    products also have 16-bit data and weights, with 32-bit output.
    """

    data: str = "float32"
    weight: str = "float32"
    accumulator: str = "float32"
    output: str = "float32"
    quantisation: Quantisation = Quantisation()

    def __post_init__(self) -> None:
        for name in self.names:
            itemsize(name)
        if all(name in _FLOATING for name in self.names):
            if self.quantisation != Quantisation():
                raise WorkloadError(
                    f"types {self._short} cannot be quantized: they are floating-point types. "
                    "Remove the marks of quantization, or use types such as u8s8s32u8."
                )
            return
        if (*self.names, self.quantisation) == _SHORTS:
            return
        narrow = (*_EIGHT_BITS, "int16")
        sums = (self.data in _EIGHT_BITS, self.weight in narrow, self.accumulator == "int32")
        if not all(sums) or self.output == "int16":
            raise WorkloadError(
                f"unsupported types {self._short}. Expected floating-point types only, or 8-bit "
                "data and weights with sums in int32, such as u8s8s32u8."
            )
        requantise = self.quantisation.requantise
        allowed = {"int32": ("none",), "float32": ("float",)}.get(self.output, REQUANTISE[1:])
        if requantise not in allowed or self.output in ("float16", "bfloat16"):
            raise WorkloadError(
                f"unsupported types {self._short} with requantise={requantise!r}. Expected none "
                "for int32 output, float for float32 output, and float or fixed for 8-bit output."
            )
        if self.quantisation.whole_range and not self.is_requantised:
            raise WorkloadError(
                f"unsupported mark whole of types {self._short}. Expected 8-bit output. Remove it."
            )

    @property
    def is_integer(self) -> bool:
        """Whether integers are multiplied, and summed in int32."""
        return self.accumulator == "int32"

    @property
    def is_requantised(self) -> bool:
        """Whether sums become 8-bit integers."""
        return self.is_integer and self.output in _EIGHT_BITS

    @property
    def rounding(self) -> float:
        """Largest relative error of rounding floating-point sums to a narrower output."""
        return 0.0 if self.output == self.accumulator else _ROUNDING.get(self.output, 0.0)

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Types of data, weight, accumulator and output."""
        return self.data, self.weight, self.accumulator, self.output

    @property
    def _short(self) -> str:
        return "".join(_TYPES[name][0] for name in self.names)

    @property
    def text(self) -> str:
        """The marks in a problem string, each after a colon; empty for FP32."""
        if self == FLOAT32:
            return ""
        marks = [self._short]
        if self.quantisation.requantise == "fixed":
            marks.append("fixed")
        marks += [mark for flag, mark in _FLAGS.items() if getattr(self.quantisation, flag)]
        return "".join(f":{mark}" for mark in marks)

    def __str__(self) -> str:
        return self.text.lstrip(":") or "float32"

    @classmethod
    def parse(cls, marks: Sequence[str]) -> DataTypes:
        """Inverse of :attr:`text`, from the marks without colons, the types first.

        Raises
        ------
        WorkloadError
            If a mark is unknown, or the types do not belong together.
        """
        if not marks:
            return FLOAT32
        first, *rest = marks
        match = _MARK.fullmatch(first)
        flags = {mark: flag for flag, mark in _FLAGS.items()}
        unknown = [mark for mark in rest if mark != "fixed" and mark not in flags]
        if not match or unknown or len(set(rest)) != len(rest):
            raise WorkloadError(
                f"cannot read the types {':'.join(marks)!r}; an example is u8s8s32u8:zpdata, and "
                f"marks are fixed, {', '.join(flags)}, each once"
            )
        data, weight, accumulator, output = (_NAMES[short] for short in match.groups())
        rescaled = accumulator == "int32" and output != "int32"
        requantise = "fixed" if "fixed" in rest else "float" if rescaled else "none"
        given = {flags[mark]: True for mark in rest if mark != "fixed"}
        return cls(data, weight, accumulator, output, Quantisation(requantise, **given))

    @classmethod
    def from_json(cls, data: Any) -> DataTypes:
        """From what ``dataclasses.asdict`` made of it.

        Raises
        ------
        WorkloadError
            If a field is unknown, or a value is not allowed.
        """
        kind = Quantisation(**_known(Quantisation, _known(cls, data).get("quantisation", {})))
        return cls(**{**data, "quantisation": kind})


FLOAT32 = DataTypes()
# bfloat16 data and weights: sums in FP32, which are the output or are rounded once
BFLOAT16 = tuple(
    DataTypes("bfloat16", "bfloat16", "float32", output) for output in ("float32", "bfloat16")
)


def refusal(types: DataTypes, supported: Sequence[DataTypes]) -> str | None:
    """Why types cannot be computed with, as a clause; None if they are among those supported."""
    if types in supported:
        return None
    return f"it computes in {' or '.join(str(each) for each in supported)}, not {types}"


def _known(record: type, data: Any) -> dict[str, Any]:
    """The object, if it has none but the record's fields."""
    names = {field.name for field in fields(record)}
    if not isinstance(data, dict) or (set(data) - names):
        raise WorkloadError(f"types {data!r} must be an object with fields of {', '.join(names)}")
    return data
