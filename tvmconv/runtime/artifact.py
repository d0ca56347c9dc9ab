"""Saved models: a shared object and its manifest, written and checked as a pair."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tvmconv.errors import ArtifactError
from tvmconv.runtime import engine, files
from tvmconv.runtime.library import Library
from tvmconv.runtime.manifest import (
    Manifest,
    check_features,
    check_versions,
    is_manifest,
    manifest_path,
    read_manifest,
)


def save_artifact(manifest: Manifest, link: Callable[[], Library], path: Path) -> Path:
    """Write both files; see :meth:`CompiledModel.save`.

    Parameters
    ----------
    manifest
        The model's record; the library's hash and size are filled in.
    link
        Gives the complete library; called once the destination is known to be good.
    path
        Name of the shared object.
    """
    files.check_destination(path, ".so")
    record = manifest_path(path)
    if record.exists() and not is_manifest(record):
        raise ArtifactError(
            f"{record} exists and is no tvmconv manifest; move it or save under another name"
        )
    library = link()
    text = manifest.with_library(library.sha256, library.bytes).to_text().encode()
    with files.replacing(path, record) as (library_file, record_file):
        files.create(library_file, 0o777, library.write_to)
        files.create(record_file, 0o666, partial(files.write_all, data=text))
    return path


def open_artifact(path: Path) -> tuple[Manifest, Library]:
    """Read and check both files; no code of the library is mapped.

    Raises
    ------
    ArtifactError
        If a file is missing or damaged, the two do not belong together, or this processor or
        the installed runtime does not fit.
    """
    if path.suffix != ".so":
        raise ArtifactError(f"{path}: load takes the saved .so; use tvmconv.build for a model")
    if not path.exists():
        raise ArtifactError(f"{path} does not exist")
    record = manifest_path(path)
    manifest = read_manifest(record)
    check_features(manifest, str(path))
    check_versions(manifest, engine.versions(), str(path))
    library = Library.open(path)
    if (library.bytes, library.sha256) != (manifest.library_bytes, manifest.library_sha256):
        raise ArtifactError(
            f"{path} is not the file that {record} describes (sha256 "
            f"{library.sha256[:12]}..., expected {manifest.library_sha256[:12]}...): it was "
            "damaged, replaced, or saving was interrupted; save the model again"
        )
    return manifest, library
