"""The errors that tvmconv raises; all are a :class:`TvmconvError`."""

from __future__ import annotations

from tvmconv.core.errors import (
    ArtifactError,
    ConfigError,
    DataError,
    InputError,
    ModelError,
    ShapeError,
    TargetError,
    TvmconvError,
    UnexpectedError,
    WorkloadError,
)

__all__ = [
    "ArtifactError",
    "ConfigError",
    "DataError",
    "InputError",
    "ModelError",
    "ShapeError",
    "TargetError",
    "TvmconvError",
    "UnexpectedError",
    "WorkloadError",
]
