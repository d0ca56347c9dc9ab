"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from tvmconv.errors import InputError

# typer evaluates these at run time; Python 3.10's typer needs Optional in aliases
Model = Annotated[
    Path, typer.Argument(help="ONNX model, or a .so that `compile` wrote.", show_default=False)
]
OnnxModel = Annotated[Path, typer.Argument(help="ONNX model.", show_default=False)]
Target = Annotated[
    str,
    typer.Option(help="native, x86-64-v3, x86-64-v4, or a string such as 'llvm -mcpu=haswell'."),
]
Threads = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=1, help="Threads to build for; all CPUs of this process by default."),
]
Shape = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(metavar="NAME:1x3x224x224", help="Shape of an input; may be repeated."),
]
Inputs = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy|FILE.npz",
        help="Input values; random (seeded) ones where not given. May be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Save = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(metavar="FILE", help="Also write the JSON to a file.", show_default=False),
]


def parse_shapes(items: list[str] | None) -> dict[str, tuple[int, ...]] | None:
    """``NAME:1x3x224x224`` options as a mapping.

    Raises
    ------
    InputError
        If an item is not a name, a colon and positive sizes joined by ``x``.
    """
    if not items:
        return None
    shapes = {}
    for item in items:
        name, _, sizes = item.rpartition(":")
        parts = sizes.split("x")
        if not name or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise InputError(f"cannot read --shape {item!r}; write NAME:1x3x224x224")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def integers(text: str, option: str) -> tuple[int, ...]:
    """A comma-separated list of positive integers, e.g. ``1,2``.

    Raises
    ------
    InputError
        If an entry is not a positive integer.
    """
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"cannot read {option} {text!r}; write positive integers such as 1,2")
    return tuple(int(part) for part in parts)
