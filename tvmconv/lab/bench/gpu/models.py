"""Whole models for a GPU: built, or taken from a folder of built ones."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvmconv.artifact.manifest import manifest_path, read_manifest
from tvmconv.core.errors import ArtifactError
from tvmconv.core.tensor import Array, Shapes
from tvmconv.lab.bench.gpu.onnx_structure import structure_and_weights
from tvmconv.lab.bench.gpu.recipes import Recipe, recipe_of
from tvmconv.measuring.gpu.compiled import code_digest
from tvmconv.runtime.weights import recorded, weights_path

if TYPE_CHECKING:
    from tvmconv.model import CompiledModel


def built_model(
    onnx: Path,
    target: str,
    shapes: Shapes | None,
    folder: str | Path | None = None,
    *,
    algorithms: Sequence[str] | None = None,
    log: str | None = None,
    fold_budget: int | None = None,
    precision: str = "float32",
    here: bool = True,
) -> CompiledModel:
    """A model from the folder; built, and stored there, where it is missing.

    Stored models have no weights: a recipe makes them from the ONNX file of the run. Other
    arguments are as of ``tvmconv.build``; these, except the values of weights, identify a model.
    ``here`` says whether it is to run on a GPU of this machine. Raises :class:`ArtifactError` if it
    is missing and nothing here builds it.
    """
    import tvmconv

    path, weights = None, dict[str, Array]()
    if folder:
        structure, weights = structure_and_weights(onnx)
        known = {
            "code": code_digest(),
            "model": onnx.name,
            "structure": structure,
            "target": target,
            "shapes": dict(sorted((shapes or {}).items())),
            "algorithms": list(algorithms or ()),
            "log": _log_digest(log),
            "precision": precision,
        }
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
        path = Path(folder) / f"{onnx.stem}-{digest[:16]}.so"
        if _recipe_path(path).is_file():
            return _filled(path, weights, here)
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
            f"{folder or 'the folder of --kernels'} has no model of {onnx.name} ({error}). Prepare "
            "it by bench run --compile-only on a machine with TVM and nvcc."
        ) from None
    if path is not None:
        _keep(model, path, weights)
    return model


def _log_digest(log: str | None) -> str | None:
    """The content of a tuning log, which identifies builds."""
    named = log and Path(log)
    return hashlib.sha256(named.read_bytes()).hexdigest() if named and named.is_file() else log


def _keep(model: CompiledModel, path: Path, weights: Mapping[str, Array]) -> None:
    """Save a built model with a recipe instead of its weights; the recipe is written last."""
    from tvmconv.compile.program import CompiledProgram

    assert isinstance(model._library, CompiledProgram)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path, weights="external")
    content = weights_path(path)
    sha256 = recorded(content)
    assert sha256 is not None
    machine = model.machine
    recipe = recipe_of(model._library.program, model.decisions, machine, weights, sha256)
    if not np.array_equal(recipe.file(weights, machine), np.fromfile(content, np.uint8)):
        raise ArtifactError(f"{path}: its recipe makes other weights than the model has")
    content.unlink()
    recipe.write(_recipe_path(path))


def _filled(path: Path, weights: Mapping[str, Array], here: bool) -> CompiledModel:
    """A stored model with weights made by its recipe, in temporary files."""
    from tvmconv import load
    from tvmconv.artifact.saving import open_artifact
    from tvmconv.model import CompiledModel

    recipe = Recipe.read(_recipe_path(path))
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        copy = Path(folder) / path.name
        for file in (path, manifest_path(path)):
            shutil.copyfile(file, copy.with_suffix(file.suffix))
        machine = read_manifest(manifest_path(path)).machine
        recipe.file(weights, machine).tofile(weights_path(copy))
        if not here:
            return CompiledModel(*open_artifact(copy, verify=False, here=False))
        # transformed weights of another machine may differ in the last bit
        return load(copy, verify=False)


def _recipe_path(path: Path) -> Path:
    return path.with_suffix(".recipe")
