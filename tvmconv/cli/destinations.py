"""Options that name the output of a subcommand, checked before work is spent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tvmconv.cli.values import Panel
from tvmconv.core import files
from tvmconv.core.errors import ArtifactError

OUTPUT = Panel("Output")
# names of files that hold a model
_MODEL_FILES = (".onnx", ".so", ".weights", ".h")


def result_file(*names: str, help: str, suffix: str = "") -> Any:
    """An option that names a file which the subcommand writes."""
    return _destination(names, f"FILE{suffix}", help, partial(_check_result, suffix=suffix))


def model_file(*names: str, help: str) -> Any:
    """An option that names a model's .so, which is written with its other files."""
    return _destination(names, "FILE.so", help, _check_model)


def result_folder(*names: str, help: str, panel: Panel = OUTPUT) -> Any:
    """An option that names a folder which the subcommand fills."""
    return _destination(names, "DIR", help, files.check_folder, panel)


def log_file(*names: str, help: str) -> Any:
    """An option that names a tuning log which the subcommand writes."""
    return _destination(names, "FILE", help, _check_log)


def _destination(
    names: tuple[str, ...],
    metavar: str,
    help: str,
    check: Callable[[Path], None],
    panel: Panel = OUTPUT,
) -> Any:
    def callback(path: Path | None) -> Path | None:
        if path is not None:
            check(path)
        return path

    return panel.value(metavar, *names, help=help, show_default=False, callback=callback)


def _check_result(path: Path, suffix: str) -> None:
    """Refuse a destination that is a file of a model, which would be lost."""
    from tvmconv.artifact.manifest import is_manifest

    files.check_destination(path, suffix)
    if path.suffix in _MODEL_FILES:
        raise ArtifactError(f"{path} is the name of a model's file. Name a file of results.")
    if path.is_file() and is_manifest(path):
        raise ArtifactError(f"{path} is the manifest of a saved model. Name another file.")


def check_apart(result: Path | None, model: Path) -> None:
    """Refuse a file of results that a saved model's manifest will overwrite."""
    from tvmconv.artifact.manifest import manifest_path

    if result is not None and result.resolve() == manifest_path(model).resolve():
        raise ArtifactError(f"{result} will be the manifest of {model}. Name another file.")


def _check_model(path: Path) -> None:
    from tvmconv.artifact.saving import check_destination

    check_destination(path)


def _check_log(path: Path) -> None:
    from tvmconv.records.logfile import check_destination

    check_destination(path)
    files.check_destination(path)
