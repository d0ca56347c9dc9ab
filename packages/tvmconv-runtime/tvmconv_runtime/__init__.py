"""Runs models that tvmconv compiled: ``tvmconv_runtime.load("model.so").run(x)``."""

from __future__ import annotations

from .core.errors import ArtifactError, InputError, TvmconvError
from .core.version import __version__
from .runtime.portable import Model, load

__all__ = ["ArtifactError", "InputError", "Model", "TvmconvError", "__version__", "load"]
