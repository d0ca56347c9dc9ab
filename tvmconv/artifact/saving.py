"""Saved models: a shared object that holds its manifest, and a readable copy of the manifest.

``model.so`` is a whole model; its renaming switches from the old one to the new one.
``model.json`` follows. Between the two renamings, and after a process that was killed there,
the new copy stands beside its name, and :func:`settle` gives it the name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from tvmconv.artifact.manifest import (
    Manifest,
    check_features,
    is_copy,
    is_manifest,
    manifest_path,
    parse_manifest,
    read_manifest,
)
from tvmconv.core import files
from tvmconv.core.errors import ArtifactError
from tvmconv.runtime.library import Library


def check_destination(path: Path) -> None:
    """Refuse a name to save under before work is spent.

    Raises
    ------
    ArtifactError
        If the name is unsuitable, the folder is missing or not writable, or the manifest would
        replace a file that is none.
    """
    files.check_destination(path, ".so")
    record = manifest_path(path)
    if os.path.lexists(record) and not is_manifest(record):
        raise ArtifactError(
            f"{record} exists and is no tvmconv manifest; move it or save under another name"
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
    check_destination(path)
    settle(path)
    library = link()
    text = manifest.with_library(library.sha256, library.bytes).to_text().encode()
    with files.replacing({path: 0o777, manifest_path(path): 0o666}) as (whole, copy):
        library.write_to(whole, text)
        files.write_all(copy, text)
    return path


def settle(path: Path) -> None:
    """Finish or remove what killed processes left while they saved; nothing where it cannot."""
    record = manifest_path(path)
    if not (files.pending(path) or files.pending(record)):
        return
    with contextlib.suppress(OSError, ArtifactError), files.folder_lock(path.parent, 0.0):
        text = Library.open(path).manifest if path.exists() else b""
        for file in files.pending(record):
            with files.abandoned(file) as gone:
                # what the user put there meanwhile stays
                wanted = not record.exists() or is_manifest(record)
                if gone and wanted and text and is_copy(text, file):
                    file.replace(record)
        files.remove_abandoned(path)
        files.remove_abandoned(record)


def open_artifact(path: Path, verify: bool = True, to_run: bool = True) -> tuple[Manifest, Library]:
    """Read and check both files; no code of the library is mapped.

    Where it is not ``to_run`` here, it may be for another processor.

    Raises
    ------
    ArtifactError
        If a file is missing or damaged, the two do not belong together, or this processor or
        the installed runtime does not fit.
    """
    if path.suffix != ".so":
        raise ArtifactError(f"{path}: load takes the saved .so; use tvmconv.build for a model")
    settle(path)
    record = manifest_path(path)
    library = Library.open(path)
    manifest = _own_manifest(library, record)
    if manifest is None and library.manifest:
        # another process may have saved between the two readings
        library = Library.open(path)
        manifest = _own_manifest(library, record)
    if manifest is None:
        manifest = read_manifest(record)
        if library.manifest:
            raise ArtifactError(
                f"{record} is not the manifest that {path} holds: one of the two was damaged, "
                "replaced or edited; save the model again"
            )
    if to_run:
        check_features(manifest, str(path))
    found, expected = f"{library.bytes} bytes", f"{manifest.library_bytes} bytes"
    if verify and found == expected:
        found, expected = (f"sha256 {h[:12]}..." for h in (library.sha256, manifest.library_sha256))
        same = library.sha256 == manifest.library_sha256
    else:
        same = found == expected
    if not same:
        raise ArtifactError(
            f"{path} is not the file that {record} describes ({found}, expected {expected}): it "
            "was damaged, replaced or cut short; save the model again"
        )
    return manifest, library


def _own_manifest(library: Library, record: Path) -> Manifest | None:
    """The manifest inside a library if its copy has its name or is about to get it."""
    text = library.manifest
    if text and any(is_copy(text, file) for file in (record, *files.pending(record))):
        return parse_manifest(text, record)
    return None
