"""cuDNN's fastest algorithm with products of TF32: beside kernels that are asked for as much."""

from __future__ import annotations

from dataclasses import replace

from . import cudnn
from .case import Case, Session

version, broken = cudnn.version, cudnn.broken


def prepare(case: Case, threads: int) -> Session:
    """As of cuDNN in float32; its result is not compared with those that are."""
    session = cudnn.fastest(case, tf32=True)
    return replace(session, facts={**session.facts, "precision": "tf32"})
