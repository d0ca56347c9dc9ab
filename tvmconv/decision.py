"""What the selection found for one layer: every candidate, and the one that was taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvmconv.config import Config
from tvmconv.workload import Conv2dWorkload


@dataclass(frozen=True)
class Candidate:
    """One way to compute a layer.

    ``seconds`` is the predicted (or logged) time of one call on the machine's cores,
    ``error`` an estimate of max|error| / max|reference| against fp64, ``source`` says where the
    config came from (``default`` or the log record), ``rejected`` why it was not taken; empty
    for the chosen one.
    """

    algorithm: str
    config: Config
    seconds: float
    workspace_bytes: int
    packed_weight_bytes: int
    error: float
    source: str = "default"
    rejected: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "algorithm": self.algorithm,
            "config": self.config.to_json(),
            "seconds": self.seconds,
            "workspace_bytes": self.workspace_bytes,
            "packed_weight_bytes": self.packed_weight_bytes,
            "error": self.error,
            "source": self.source,
            "rejected": self.rejected,
        }


@dataclass(frozen=True)
class Decision:
    """The chosen candidate of one layer, the reason, and what else was considered.

    ``layer`` is the ONNX node's name, ``kernel`` the symbol of the compiled function.
    """

    layer: str
    workload: Conv2dWorkload
    chosen: Candidate
    reason: str
    rejected: tuple[Candidate, ...] = field(default=())
    kernel: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data; what the manifest and every report print."""
        return {
            "layer": self.layer,
            "workload": str(self.workload),
            "kernel": self.kernel,
            "reason": self.reason,
            "chosen": self.chosen.to_json(),
            "rejected": [c.to_json() for c in self.rejected],
        }
