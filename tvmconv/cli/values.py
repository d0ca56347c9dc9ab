"""The kinds of options and arguments, and how their texts are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import typer

from tvmconv.core.arguments import size_bytes
from tvmconv.core.errors import InputError

Number = TypeVar("Number", int, float)
# shapes of inputs and sizes of dimensions by name, or lists of these
ShapeOptions = dict[str, tuple[int, ...] | int | list[tuple[int, ...]] | list[int]]

_EXTERNAL = ("external", "separate")
_EMBEDDED = ("embedded", "inside")


def argument(metavar: str, *, help: str) -> Any:
    """An argument, or several of them."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


@dataclass(frozen=True)
class Panel:
    """A heading of the help, which makes the options under it."""

    heading: str = ""

    def flag(self, *names: str, help: str, **more: Any) -> Any:
        """An option that is given or not."""
        return typer.Option(*names, help=help, rich_help_panel=self.heading or None, **more)

    def value(self, metavar: str, *names: str, help: str, **more: Any) -> Any:
        """An option with a value, which the help shows as ``metavar``."""
        return self.flag(*names, metavar=metavar, help=help, **more)

    def number(self, minimum: float, *names: str, metavar: str = "N", **more: Any) -> Any:
        """An option whose value is a number of the minimum's type, not below the minimum."""
        return self.value(metavar, *names, parser=at_least(minimum), **more)


def at_least(minimum: Number) -> Callable[[str], Number]:
    """A parser of numbers that are not smaller than a minimum, and of the minimum's type."""
    kind = type(minimum)

    def number(text: str) -> Number:
        try:
            found = kind(text)
        except ValueError:
            found = None
        if found is None or not found >= minimum:
            wanted = "a whole number" if kind is int else "a number"
            raise typer.BadParameter(f"got {text!r}. Expected {wanted} of {minimum:g} or more.")
        return found

    return number


_PLAIN = Panel()
flag, value, number = _PLAIN.flag, _PLAIN.value, _PLAIN.number


def parse_weights(text: str) -> Literal["embedded", "external"]:
    """The place of the weights, also by the names of earlier releases."""
    if text not in (*_EMBEDDED, *_EXTERNAL):
        raise InputError(f"unknown --weights {text!r}. Expected embedded or external.")
    return "external" if text in _EXTERNAL else "embedded"


def parse_shapes(items: list[str] | None) -> dict[str, tuple[int, ...] | int] | None:
    """``NAME:1x3x224x224`` and ``NAME=224`` options as a mapping, for one shape of each input."""
    shapes = parse_shape_lists(items)
    if shapes is None:
        return None
    single: dict[str, tuple[int, ...] | int] = {}
    for name, value in shapes.items():
        if isinstance(value, list):
            raise InputError(
                f"--shape or --dim gives {len(value)} shapes for {name!r}. Expected one for this "
                "command. Run the command once for each shape."
            )
        single[name] = value
    return single


def parse_shape_lists(items: list[str] | None) -> ShapeOptions | None:
    """The same, with a list of shapes or sizes where an option lists several."""
    if not items:
        return None
    shapes: ShapeOptions = {}
    size = "[0-9]{1,9}(,[0-9]{1,9})*"
    for item in items:
        match = re.fullmatch(
            rf"(?P<input>.+):(?P<sizes>{size}(x{size})*)|(?P<dim>.+)=(?P<size>{size})", item
        )
        texts = (match["sizes"] or match["size"]).split("x") if match else ()
        lists = [[int(part) for part in text.split(",")] for text in texts]
        if not match or not all(number > 0 for numbers in lists for number in numbers):
            raise InputError(
                f"cannot read --shape or --dim {item!r}. Expected --shape NAME:1x3x224x224, or "
                "--dim NAME=224."
            )
        counts = {len(numbers) for numbers in lists} - {1}
        if len(counts) > 1:
            raise InputError(
                f"--shape {item!r} has lists of {' and '.join(map(str, sorted(counts)))} sizes. "
                "Expected one length. Give each list a size for every shape."
            )
        count = max(counts, default=1)
        made = [tuple(numbers[i % len(numbers)] for numbers in lists) for i in range(count)]
        if match["input"]:
            shapes[match["input"]] = made if counts else made[0]
        else:
            shapes[match["dim"]] = [sizes[0] for sizes in made] if counts else made[0][0]
    return shapes


def parse_targets(text: str) -> str | list[str]:
    """``--target`` as one target, or as a list where names of CPUs are separated by commas."""
    is_one = "," not in text or text.startswith(("llvm ", "cuda"))
    return text if is_one else [name.strip() for name in text.split(",")]


def parse_outputs(text: str | None) -> tuple[str, ...] | None:
    """``--outputs`` as names; ``None`` for the model's own outputs."""
    return None if text is None else tuple(name.strip() for name in text.split(","))


def integers(text: str, option: str) -> tuple[int, ...]:
    """A comma-separated list of positive integers, e.g. ``1,2``."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"cannot read {option} {text!r}. Expected positive integers such as 1,2.")
    return tuple(int(part) for part in parts)


def batch_sizes(text: str) -> tuple[tuple[int, ...] | None, bool]:
    """``--batch``: the sizes, None for each layer's own, and whether they are limits.

    ``fit:128`` is a limit: the batch is halved while memory is too small.
    """
    sizes = text.removeprefix("fit:")
    return (integers(sizes, "--batch") if sizes else None), sizes != text


def fold_bytes(text: str | None) -> int | None:
    """``--fold-budget`` in bytes."""
    return None if text is None else byte_count(text, "--fold-budget")


def byte_count(text: str, option: str) -> int:
    """A size such as ``64MiB``, ``1.5 MB`` or ``4096`` in bytes."""
    return size_bytes(text, option, InputError)
