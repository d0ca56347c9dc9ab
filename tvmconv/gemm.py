"""Matrix products: the problem, and the scheduled function that computes it.

A product is no convolution: it has no place in a network's layers, and no algorithm has to be
chosen for it. It is what the im2col convolution is made of, measured by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any

from tvmconv.config import Config
from tvmconv.datatypes import FLOAT32, DataTypes, itemsize, refusal
from tvmconv.errors import ConfigError, WorkloadError
from tvmconv.machines.record import Machine
from tvmconv.workload import nine_digits

if TYPE_CHECKING:
    from tvmconv.algorithms.base import FloatArray

PREFIX = "gemm:"
_TEXT = re.compile(
    r"gemm:m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)(?P<types>(?::(?!alpha|beta)[a-z0-9]+)*)"
    r"(?::alpha(?P<alpha>[^:]+))?(?::beta(?P<beta>[^:]+))?"
)


@dataclass(frozen=True)
class GemmWorkload:
    """``C = alpha A B + beta C``; A is (m, k), B (k, n), C (m, n), all row-major.

    The text form is ``gemm:m64n48k32``, with the marks of ``types`` where they are not float32
    (those of A, B, sums and C), and ``:alpha0.5`` and ``:beta1`` where they differ from 1 and 0.
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
        """Two operations for every multiply-add."""
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

        Raises
        ------
        WorkloadError
            If it is not one, or a size is out of range.
        """
        match = _TEXT.fullmatch(text)
        try:
            if match is None:
                raise ValueError
            factors = {name: float(match[name]) for name in ("alpha", "beta") if match[name]}
        except ValueError:
            raise WorkloadError(
                f"cannot read the matrix product {text!r}; write gemm:m64n48k32, and :alpha0.5 or "
                ":beta1 behind it"
            ) from None
        types = DataTypes.parse(match["types"].split(":")[1:])
        return cls(int(match["m"]), int(match["n"]), int(match["k"]), **factors, types=types)


@dataclass(frozen=True)
class GemmKernel:
    """A product with the knob values that compute it on one machine.

    Its arguments are A, B (packed where the knob ``prepacked`` says so), C where ``beta`` is not
    0, and the result, which must not share memory with them.
    """

    workload: GemmWorkload
    machine: Machine
    config: Config

    def unscheduled(self) -> Any:
        """The ``tirx.PrimFunc`` of the plain tensor expression."""
        from tvm import te

        from tvmconv.algorithms.gemm import compute

        return te.create_prim_func(compute(self.workload, self.machine, self.config))

    def prim_func(self, symbol: str = "main") -> Any:
        """The scheduled ``tirx.PrimFunc``."""
        from tvm.s_tir import Schedule

        from tvmconv.compile.schedule import SCHEDULED
        from tvmconv.schedules.common.specialise import specialise

        schedule = Schedule(self.unscheduled())
        _schedules(self.machine).apply(schedule, self.workload, self.machine, self.config)
        func = specialise(schedule.mod["main"]).with_attr("global_symbol", symbol)
        return func.with_attr(SCHEDULED, True)

    def pack_b(self, matrix: FloatArray) -> FloatArray:
        """B in the panels that a ``prepacked`` kernel reads; see the expression for their form."""
        from tvmconv.algorithms.gemm import pack_b

        return pack_b(matrix, self.config)


def make_gemm(
    workload: GemmWorkload, machine: Machine, config: Config | None = None, **knobs: int | str
) -> GemmKernel:
    """A kernel with the given knobs, or the schedule's default, changed where ``knobs`` say so.

    Raises
    ------
    ConfigError
        If a knob is unknown or breaks a limit of the machine, or the product is not written for
        the workload's types.
    """
    from tvmconv.algorithms.gemm import TYPES

    if reason := refusal(workload.types, TYPES):
        raise ConfigError(f"gemm cannot compute {workload}: {reason}")
    schedules = _schedules(machine)
    config = schedules.KNOBS.complete(config or schedules.default_config(workload, machine))
    config = config.replace(**knobs)
    schedules.KNOBS.check(workload, machine, config)
    schedules.check(workload, machine, config)
    return GemmKernel(workload, machine, config)


def _schedules(machine: Machine) -> Any:
    return import_module(f"tvmconv.schedules.{machine.family}.gemm")
