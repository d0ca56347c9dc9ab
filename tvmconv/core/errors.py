"""Errors a user can cause; each message names the layer or file, the value and what to do."""

from __future__ import annotations

from .printed import printable


class TvmconvError(Exception):
    """Base of every error that tvmconv raises on purpose."""

    def __str__(self) -> str:
        # a message may quote names of a model
        return printable(super().__str__())


class ModelError(TvmconvError):
    """The ONNX model cannot be read or holds something that cannot be imported."""


class ShapeError(ModelError):
    """Shapes of a model that contradict each other; ``problem`` says which, without a remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}. {remedy[0].upper()}{remedy[1:]}.")
        self.problem = problem


class UnexpectedError(ModelError):
    """A defect of tvmconv or TVM that a model brought to light; its cause is the exception."""


class TargetError(TvmconvError):
    """The target string or record is unknown, or does not fit this host."""


class WorkloadError(TvmconvError):
    """A convolution problem description is malformed."""


class ConfigError(TvmconvError):
    """A schedule's knob values are unknown or break a limit of the machine."""


class ArtifactError(TvmconvError):
    """Compiled code cannot be loaded or run here: wrong hash, version or CPU features."""


class InputError(TvmconvError):
    """A tensor handed to ``run`` has the wrong name, shape or type."""


class DataError(InputError):
    """The data of a call are outside what a node allows, such as an index outside its tensor."""
