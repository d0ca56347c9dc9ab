"""The element-wise steps that a kernel applies before it stores its sums."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import WorkloadError

# kind -> number of parameters it carries in the text form
EPILOGUE_KINDS: dict[str, int] = {
    "bias": 0,
    "add": 0,
    "relu": 0,
    "leakyrelu": 1,
    "clip": 2,
    "sigmoid": 0,
    "hardsigmoid": 2,
    "hardswish": 0,
    "silu": 0,
    "gelu": 0,
    "gelutanh": 0,
    "tanh": 0,
}
# INT8 layers only: a value that the model rounds to 8 bits and reads back between other steps
QUANTISE = "quantise"
_KINDS = {**EPILOGUE_KINDS, QUANTISE: 0}


@dataclass(frozen=True)
class EpilogueOp:
    """One element-wise step applied to the accumulator before it is stored.

    Parameters
    ----------
    kind
        One of :data:`EPILOGUE_KINDS`, or :data:`QUANTISE`. ``bias`` adds a per-channel vector,
        ``add`` a residual tensor of the output's shape; the rest are activations.
    params
        ``leakyrelu``: (slope,); ``clip``: (low, high); ``hardsigmoid``: (alpha, beta). Kept with
        the nine digits of the text form, which restore a float32.
    """

    kind: str
    params: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            known = ", ".join(_KINDS)
            raise WorkloadError(f"epilogue step {self.kind!r} is unknown; use one of {known}")
        if len(self.params) != _KINDS[self.kind]:
            raise WorkloadError(
                f"epilogue step {self.kind!r} takes {_KINDS[self.kind]} parameter(s), "
                f"got {self.params}"
            )
        object.__setattr__(self, "params", tuple(nine_digits(p) for p in self.params))

    def __str__(self) -> str:
        if not self.params:
            return self.kind
        # "e+" would collide with the step separator
        return f"{self.kind}({','.join(f'{p:.9g}'.replace('e+', 'e') for p in self.params)})"


# the largest FP32 number, and its nine digits, which exceed it
_FLOAT32_MAX, _FLOAT32_MAX_DIGITS = 2.0**128 - 2.0**104, 3.40282347e38


def nine_digits(value: float) -> float:
    """The value of a number's nine digits, which restore an FP32 number exactly."""
    rounded = float(f"{value:.9g}")
    if abs(rounded) == _FLOAT32_MAX_DIGITS:
        return math.copysign(_FLOAT32_MAX, rounded)
    return rounded


def parse_step(text: str) -> EpilogueOp:
    """One step of a workload's text form; raises :class:`WorkloadError` for other texts."""
    match = re.fullmatch(r"([a-z]+)(?:\(([^()]*)\))?", text)
    try:
        params = tuple(float(p) for p in match[2].split(",")) if match and match[2] else ()
    except ValueError:
        match = None
    if not match:
        raise WorkloadError(f"cannot read the epilogue step {text!r}; an example is 'clip(0,6)'")
    return EpilogueOp(match[1], params)


def without_fixed_point(epilogue: Sequence[EpilogueOp]) -> str | None:
    """Why steps have no form in integers alone, as a clause; None where they have one."""
    others = [op.kind for op in epilogue if op.kind not in ("bias", "add", QUANTISE)]
    return f"fixed point has no {others[0]!r} step" if others else None
