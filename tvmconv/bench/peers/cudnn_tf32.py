"""cuDNN's fastest algorithm with products of TF32: beside kernels that are asked for as much."""

from __future__ import annotations

from dataclasses import replace

from . import cudnn
from .case import Case, Session

version, broken = cudnn.version, cudnn.broken


def prepare(case: Case, threads: int) -> Session:
    """As of cuDNN; beside those in float32, it is compared where TF32 is asked for."""
    return cudnn.fastest(replace(case, options={**case.options, "precision": "tf32"}))
