"""Layers that scalable vectors compute, and the limits of their tiles."""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine


def fills_segments(workload: Conv2dWorkload) -> bool:
    """Whether the values of a pixel fill a segment: FP32 in channel blocks."""
    return workload.data_layout == "NCHWc" and workload.types == FLOAT32


def vectors_knob(doc: str, most: Callable[[Conv2dWorkload, Machine], int]) -> Knob[Conv2dWorkload]:
    """The knob of scalable vectors: 0, and up to ``most`` if the layer has scalable code."""
    return Knob(
        "vectors",
        doc,
        lambda w, machine: range(most(w, machine) + 1 if fills_segments(w) else 1),
        neutral=0,
    )


def check_vectors(
    workload: Conv2dWorkload, vectors: int, most: int, tile: str, *, integers: bool = False
) -> None:
    """Raise :class:`ConfigError` for a layer without scalable code, or for too many vectors."""
    if not (integers or fills_segments(workload)):
        raise ConfigError(
            f"{tile} needs an FP32 layer with channel-blocked input. Expected vectors=0. "
            "Set vectors=0 for NEON code."
        )
    if not 0 < vectors <= most:
        raise ConfigError(f"{tile} has too many vectors. Expected 1 to {most}. Change vectors.")
