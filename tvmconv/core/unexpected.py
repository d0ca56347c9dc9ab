"""The last resort: an exception that nobody raised on purpose becomes an error with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .arguments import shown
from .errors import ConfigError, TvmconvError, UnexpectedError

Result = TypeVar("Result")

_LONGEST = 300


class Carried(BaseException):
    """An exception of a caller's own function, on its way through :func:`reported`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def reported(place: str | Callable[[], str]) -> Iterator[None]:
    """Turn exceptions of TVM, ONNX and Python into a :class:`UnexpectedError`.

    Errors of this package, ``MemoryError`` and interrupts pass unchanged. ``place`` names the
    operation and the node, or is a function that finds the name.
    """
    try:
        yield
    except (TvmconvError, MemoryError):
        raise
    except Exception as error:
        where = place if isinstance(place, str) else place()
        raise UnexpectedError(
            f"{where}: unexpected {type(error).__name__} ({summary(error)}); "
            "this is a defect of tvmconv or TVM. Report it to the maintainers with the model."
        ) from error


def summary(error: BaseException) -> str:
    """An exception's text on one line, of bounded length."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def carrying(function: Callable[..., Result], name: str) -> Callable[..., Result]:
    """A caller's function whose exceptions :func:`reported` lets through as they are.

    ``name`` is the argument's, for an error of its own where the function cannot be called so.
    """

    def call(*arguments: object) -> Result:
        try:
            return function(*arguments)
        except Exception as error:
            begun = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            if begun or not isinstance(error, TypeError):
                raise Carried(error) from error
            raise ConfigError(
                f"{name}={shown(function)} cannot be called with {len(arguments)} arguments "
                f"({summary(error)}); give a function that takes them"
            ) from error

    return call


@contextmanager
def delivered() -> Iterator[None]:
    """Raise what :func:`carrying` carried, as the caller's function raised it."""
    try:
        yield
    except Carried as carried:
        raise carried.error from carried.error.__cause__
