"""A model argument as a compiled model: ``.so`` files are loaded, everything else is built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmconv.cli.options import Choices, parse_shapes
from tvmconv.cli.output import progress
from tvmconv.core.errors import InputError

if TYPE_CHECKING:
    from tvmconv.model import CompiledModel


def open_model(
    path: Path,
    target: str,
    threads: int | None,
    shapes: list[str] | None,
    choices: Choices | None = None,
) -> CompiledModel:
    """Load a saved module, or build an ONNX model with progress on the terminal.

    Raises
    ------
    TvmconvError
        If the file cannot be opened, or build options are given for a finished module.
    """
    import tvmconv

    if path.suffix == ".so":
        if shapes or target != "native":
            raise InputError(f"{path} is built already; --shape and --target need an ONNX model")
        if choices is not None and choices.given:
            raise InputError(
                f"{path} is built already; choosing algorithms, --log and --fold-budget need an "
                "ONNX model"
            )
        return tvmconv.load(path, threads=threads)
    choices = choices or Choices()
    with progress() as callback:
        return tvmconv.build(
            path,
            target,
            shapes=parse_shapes(shapes),
            threads=threads,
            algorithms=choices.algorithms,
            memory_budget=choices.memory_budget,
            error_budget=choices.error_budget,
            overrides=choices.overrides,
            finite=choices.finite,
            fold_budget=choices.fold_budget,
            log=choices.log,
            progress=callback,
        )
