"""The selection's result for one layer, and its kernel calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .config import Config
from .launch import Launch
from .workload import Conv2dWorkload

# clock by which older manifests converted predicted cycles to seconds
_FIRST_FORM_HERTZ = 2.5e9
# operator of convolutions by vectors of pixels, which have calls but no decision
PIXEL_CONV = "pixel_conv2d"
# operator of two products and the softmax between them as one call
ATTENTION_CALL = "attention"
# why a candidate was not taken; "" is the chosen one
CAUSES = (
    *("", "unsupported", "disallowed", "memory", "error", "finite", "overflow"),
    *("slower", "overridden", "sharing"),
)


@dataclass(frozen=True)
class Candidate:
    """One way to compute a layer.

    ``cycles`` are predicted or logged for a call on the machine's cores. ``error`` estimates
    max|error| / max|reference| against FP64. ``source`` is the origin of the config: ``default`` or
    the log record. ``rejected`` is the reason against the candidate; empty for the chosen one.
    ``cause`` is the same for programs, one of :data:`CAUSES`. ``parts`` splits ``cycles`` by
    purpose, if the schedule knows. ``precision`` is the type to which operands of products are
    rounded, if narrower than their own; else empty.
    """

    algorithm: str
    config: Config
    cycles: float
    workspace_bytes: int
    packed_weight_bytes: int
    error: float
    source: str = "default"
    rejected: str = ""
    cause: str = ""
    parts: Mapping[str, float] = field(default_factory=dict, compare=False)
    precision: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        rounded = {"precision": self.precision} if self.precision else {}
        return {
            **rounded,
            "algorithm": self.algorithm,
            "config": self.config.to_json(),
            "cycles": self.cycles,
            "workspace_bytes": self.workspace_bytes,
            "packed_weight_bytes": self.packed_weight_bytes,
            "error": self.error,
            "source": self.source,
            "rejected": self.rejected,
            "cause": self.cause,
            "parts": dict(self.parts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Candidate:
        """Inverse of :meth:`to_json`; also reads what older versions wrote, in seconds."""
        fields = {**data, "config": Config.from_json(data["config"])}
        if "seconds" in fields:
            fields["cycles"] = fields.pop("seconds") * _FIRST_FORM_HERTZ
            fields["parts"] = {k: v * _FIRST_FORM_HERTZ for k, v in data.get("parts", {}).items()}
        return cls(**fields)


@dataclass(frozen=True)
class Decision:
    """The chosen candidate of one layer, the reason, and what else was considered.

    ``layer`` is the ONNX node's name, ``kernel`` the symbol of the compiled function.
    ``rounding_error`` is the measured max|error| / max|reference| against FP64 if operands are
    rounded to the chosen precision, else None.
    """

    layer: str
    workload: Conv2dWorkload
    chosen: Candidate
    reason: str
    rejected: tuple[Candidate, ...] = field(default=())
    kernel: str = ""
    rounding_error: float | None = None

    @property
    def precision(self) -> str:
        """Type of the operands of products: the chosen precision, else the workload's types."""
        return self.chosen.precision or str(self.workload.types)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest and reports."""
        measured = {} if self.rounding_error is None else {"rounding_error": self.rounding_error}
        return {
            **measured,
            "layer": self.layer,
            "workload": str(self.workload),
            "kernel": self.kernel,
            "reason": self.reason,
            "chosen": self.chosen.to_json(),
            "rejected": [c.to_json() for c in self.rejected],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decision:
        """Inverse of :meth:`to_json`."""
        return cls(
            layer=data["layer"],
            workload=Conv2dWorkload.parse(data["workload"]),
            kernel=data["kernel"],
            reason=data["reason"],
            chosen=Candidate.from_json(data["chosen"]),
            rejected=tuple(Candidate.from_json(c) for c in data["rejected"]),
            rounding_error=data.get("rounding_error"),
        )


@dataclass(frozen=True)
class Unscheduled:
    """A convolution that no algorithm took: it runs as plain loops, many times slower.

    ``layer`` is the ONNX node's name, ``operator`` the graph's name of what it computes,
    ``reason`` says why as a clause.
    """

    layer: str
    operator: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest and reports."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Unscheduled:
        """Inverse of :meth:`to_json`."""
        return cls(**data)

    def __str__(self) -> str:
        return f"{self.layer} ({self.reason})"


@dataclass(frozen=True)
class KernelCall:
    """One kernel call of a compiled model; the model's list of them is in execution order.

    Calls of a sub-graph follow the call that runs it.

    Parameters
    ----------
    layer
        Name of the ONNX node the call computes; empty for a layout change.
    kernel
        Symbol of the compiled function; empty for a copy, and for a call that runs sub-graphs.
    operator
        The graph's name of the computed operator; ``if`` or ``loop`` if the call runs sub-graphs.
    workload
        Problem string of a convolution, empty for other operators.
    flops, bytes
        Nominal floating-point operations, and bytes of all arguments. In a loop, of all its trips.
    vectors
        Scalable targets only, the vectors of the code: ``SVE``, ``SVE and NEON``, ``NEON: why`` or
        ``no vectors``.
    launches
        GPUs only: the kernels that the call launches, in order.
    note
        Why a quantized layer without a decision is computed in FP32.
    check
        Message of the error that ends a run, if the last operand's flags are not all 0.
    """

    layer: str
    kernel: str
    operator: str
    workload: str = ""
    flops: int = 0
    bytes: int = 0
    vectors: str = ""
    launches: tuple[Launch, ...] = ()
    note: str = ""
    check: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value or name not in ("vectors", "launches", "note", "check")
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KernelCall:
        """Inverse of :meth:`to_json`."""
        launches = tuple(Launch.from_json(item) for item in data.get("launches", ()))
        return cls(**{**data, "launches": launches})
