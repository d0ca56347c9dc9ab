"""The problem description of a GEMM; :mod:`tvmconv.core.workload` describes convolutions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite

from .datatypes import FLOAT32, DataTypes, itemsize
from .epilogue_op import nine_digits
from .errors import WorkloadError

PREFIX = "gemm:"
_TEXT = re.compile(
    r"gemm:m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)(?P<types>(?::(?!alpha|beta)[a-z0-9]+)*)"
    r"(?::alpha(?P<alpha>[^:]+))?(?::beta(?P<beta>[^:]+))?"
)


@dataclass(frozen=True)
class GemmWorkload:
    """``C = alpha A B + beta C``; A is (m, k), B (k, n), C (m, n), all row-major.

    The text form is ``gemm:m64n48k32``. Marks follow: the types of A, B, accumulator and C if they
    are not FP32, ``:alpha0.5`` if not 1, and ``:beta1`` if not 0.
    """

    m: int
    n: int
    k: int
    alpha: float = 1.0
    beta: float = 0.0
    types: DataTypes = FLOAT32

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            if not 1 <= getattr(self, name) < 2**24:
                raise WorkloadError(f"{name}={getattr(self, name)} must be from 1 to 2**24 - 1")
        for name in ("alpha", "beta"):
            if not isfinite(getattr(self, name)):
                raise WorkloadError(f"{name}={getattr(self, name)} must be finite")
            object.__setattr__(self, name, nine_digits(getattr(self, name)))

    @property
    def flops(self) -> int:
        """Nominal operations: two for each MAC."""
        return 2 * self.m * self.n * self.k

    @property
    def tensor_bytes(self) -> int:
        """Bytes of A, B and C."""
        a, b, _, c = (itemsize(name) for name in self.types.names)
        return a * self.m * self.k + b * self.k * self.n + c * self.m * self.n

    def __str__(self) -> str:
        text = f"{PREFIX}m{self.m}n{self.n}k{self.k}{self.types.text}"
        if self.alpha != 1:
            text += f":alpha{self.alpha:.9g}"
        return text + (f":beta{self.beta:.9g}" if self.beta else "")

    @classmethod
    def parse(cls, text: str) -> GemmWorkload:
        """Read the text form.

        Raises ``WorkloadError`` if it is not one, or a size is out of range.
        """
        match = _TEXT.fullmatch(text)
        try:
            if match is None:
                raise ValueError
            factors = {name: float(match[name]) for name in ("alpha", "beta") if match[name]}
        except ValueError:
            raise WorkloadError(
                f"cannot read the matrix product {text!r}; write gemm:m64n48k32, then :alpha0.5 or "
                ":beta1 if needed"
            ) from None
        types = DataTypes.parse(match["types"].split(":")[1:])
        return cls(int(match["m"]), int(match["n"]), int(match["k"]), **factors, types=types)
