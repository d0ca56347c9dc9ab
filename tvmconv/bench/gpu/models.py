"""Whole models for a GPU: built, or taken from a folder of built ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmconv.core.errors import ArtifactError
from tvmconv.core.version import __version__

if TYPE_CHECKING:
    from tvmconv.model import CompiledModel


def built_model(
    onnx: Path,
    target: str,
    shapes: Mapping[str, Sequence[int]] | None,
    folder: str | Path | None = None,
    *,
    algorithms: Sequence[str] | None = None,
    log: str | None = None,
    fold_budget: int | None = None,
    precision: str = "float32",
) -> CompiledModel:
    """A model from the folder; built, and kept there, where it is missing.

    Parameters
    ----------
    onnx, target, shapes, algorithms, log, fold_budget, precision
        As of ``tvmconv.build``; a file's content tells models apart, not that of data beside it.
    folder
        Of compiled kernels and models, if there is one.

    Raises
    ------
    ArtifactError
        If it is not there and nothing here builds it.
    """
    import tvmconv

    path = None
    if folder:
        known = {
            "version": __version__,
            "model": onnx.name,
            "sha256": hashlib.sha256(onnx.read_bytes()).hexdigest(),
            "target": target,
            "shapes": {name: list(shape) for name, shape in sorted((shapes or {}).items())},
            "algorithms": list(algorithms or ()),
            "log": _log_digest(log),
            "precision": precision,
        }
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
        path = Path(folder) / f"{onnx.stem}-{digest[:16]}.so"
        if path.is_file():
            return tvmconv.load(path)
    try:
        model = tvmconv.build(
            onnx,
            target,
            shapes=dict(shapes) if shapes else None,
            algorithms=algorithms,
            log=log,
            fold_budget=fold_budget,
            precision=precision,
        )
    except ImportError as error:
        raise ArtifactError(
            f"no model of {onnx.name} stands in {folder or 'a folder of --kernels'}; prepare it by "
            f"bench --compile-only where TVM and nvcc are ({error})"
        ) from None
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return model


def _log_digest(log: str | None) -> str | None:
    """What tells builds with other tuning logs apart: the named file's content."""
    named = log and Path(log)
    return hashlib.sha256(named.read_bytes()).hexdigest() if named and named.is_file() else log
