"""Saved models: a shared object that holds its manifest, and the files that belong to it.

``model.so`` is the model, and its renaming replaces the old model by the new one. Other files
follow: ``model.json``, a readable copy of the manifest; ``model.weights`` for external weights;
``model.h`` if a header is wanted. A process that is killed between the renamings leaves new files
under temporary names, and :func:`settle` renames them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tvmconv.artifact.host_target import for_host, select
from tvmconv.artifact.manifest import (
    Manifest,
    is_copy,
    is_manifest,
    manifest_path,
    parse_manifest,
    read_manifest,
)
from tvmconv.core import files, huge_pages
from tvmconv.core.errors import ArtifactError
from tvmconv.runtime.library import C_SOURCES, Library, Linked
from tvmconv.runtime.weights import map_weights, recorded, weights_path

_MAX_HEADER_BYTES = 1 << 24
# the last line of a model's header, by which a killed process's file is recognized
_HEADER_MARK = b"/* tvmconv manifest %s */\n"


@dataclass(frozen=True)
class _Follower:
    """A file that belongs to a shared object, and gets its name after it."""

    path: Path
    what: str
    replaceable: Callable[[Path], bool]  # whether a file of that name is one of ours
    belongs: Callable[[bytes, Path], bool]  # whether a file goes with a manifest


def _followers(path: Path) -> tuple[_Follower, ...]:
    return (
        _Follower(manifest_path(path), "tvmconv manifest", is_manifest, is_copy),
        _Follower(weights_path(path), "file of tvmconv's weights", _is_weights, _are_weights_of),
        _Follower(header_path(path), "header of a tvmconv model", _is_header, _is_header_of),
    )


def header_path(library: Path) -> Path:
    """The file of the header of ``model.so``: ``model.h`` in the same folder."""
    return library.with_suffix(".h")


def check_destination(path: Path, *, separate: bool = False, header: bool = False) -> None:
    """Check a name to save under, before work is spent.

    ``separate`` and ``header`` say whether a file of weights and a header are written too.
    """
    files.check_destination(path, ".so", replaced=True)
    written = (True, separate, header)
    for follower, is_written in zip(_followers(path), written, strict=True):
        file = follower.path
        if is_written and os.path.lexists(file) and not follower.replaceable(file):
            raise ArtifactError(
                f"{file} exists and is not a {follower.what}. Move the file, or save under another "
                "name."
            )
    if header:
        interface = path.with_name("tvmconv.h")
        if header_path(path) == interface:
            raise ArtifactError(
                f"cannot save {path}: the name 'tvmconv' is reserved for the interface header. "
                "Choose another name."
            )
        files.check_destination(interface)


def save_artifact(
    manifest: Manifest,
    link: Callable[[], Linked],
    path: Path,
    header: Callable[[], str] | None = None,
    separate: bool = False,
) -> Path:
    """Write all files; see :meth:`CompiledModel.save`.

    ``manifest`` is without the library's hash and size, and ``path`` is the shared object. ``link``
    makes library and weights after the destination is checked. ``header`` makes the text of the
    model's header. ``separate`` is whether a file of weights is written.
    """
    check_destination(path, separate=separate, header=header is not None)
    settle(path)
    linked = link()
    library = linked.library
    record = manifest.with_library(library.sha256, library.bytes, linked.weights_sha256)
    text = record.to_text().encode()
    names = {path: 0o777, manifest_path(path): 0o666}
    weights = weights_path(path)
    if linked.weights_sha256:
        names[weights] = 0o666
    if header is not None:
        _copy_interface(path.with_name("tvmconv.h"))
        names[header_path(path)] = 0o666
    with files.replacing(names) as descriptors:
        opened = dict(zip(names, descriptors, strict=True))
        library.write_to(opened[path], text)
        files.write_all(opened[manifest_path(path)], text)
        if linked.weights_sha256:
            huge_pages.write_blocks(opened[weights], (piece.data for piece in linked.weights))
        if header is not None:
            content = header().encode() + _HEADER_MARK % _digest(text)
            files.write_all(opened[header_path(path)], content)
    if not linked.weights_sha256 and _is_weights(weights):
        # the replaced model had them
        with contextlib.suppress(OSError):
            weights.unlink()
    return path


def _copy_interface(path: Path) -> None:
    """The C interface itself, which is the same for every model, for the header to include."""
    files.remove_abandoned(path)
    text = (C_SOURCES / "tvmconv.h").read_bytes()
    with files.replacing({path: 0o666}) as (copy,):
        files.write_all(copy, text)


def _is_weights(path: Path) -> bool:
    return recorded(path) is not None


def _are_weights_of(text: bytes, path: Path) -> bool:
    sha256 = parse_manifest(text, path).weights_sha256
    return bool(sha256) and recorded(path) == sha256


def _is_header(path: Path) -> bool:
    return _HEADER_MARK.partition(b"%s")[0] in _tail(path)


def _is_header_of(text: bytes, path: Path) -> bool:
    return _tail(path).endswith(_HEADER_MARK % _digest(text))


def _tail(path: Path) -> bytes:
    try:
        return files.read_regular(path, _MAX_HEADER_BYTES)[-200:]
    except (OSError, ArtifactError):
        return b""


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def settle(path: Path) -> None:
    """Finish or remove files that killed processes left while saving, if that is possible."""
    followers = _followers(path)
    names = [path, *(follower.path for follower in followers)]
    if not any(map(files.pending, names)):
        return
    with contextlib.suppress(OSError, ArtifactError), files.folder_lock(path.parent, 0.0):
        text = Library.open(path).manifest if path.exists() else b""
        for follower in followers:
            name = follower.path
            for file in files.pending(name):
                with files.abandoned(file) as gone:
                    # keep a file that the user has put there meanwhile
                    wanted = not name.exists() or follower.replaceable(name)
                    if gone and wanted and text and follower.belongs(text, file):
                        file.replace(name)
        for name in names:
            files.remove_abandoned(name)


def open_artifact(
    path: Path, verify: bool = True, *, here: bool = True
) -> tuple[Manifest, Library]:
    """Read and check a model's files; no code of the library is mapped.

    ``verify`` compares hashes. ``here`` checks this CPU, and selects its target of several. Raises
    ``ArtifactError`` if a file is missing or damaged, the files do not belong together, or this CPU
    lacks a feature.
    """
    if path.suffix != ".so":
        raise ArtifactError(
            f"cannot load {path}. Expected a saved .so. Use tvmconv.build for an ONNX model."
        )
    settle(path)
    record = manifest_path(path)
    before = _identity(path), _identity(record)
    library = Library.open(path)
    manifest = _own_manifest(library, record)
    if manifest is None:
        if library.manifest and (_identity(path), _identity(record)) != before:
            # another process has saved between the readings
            return open_artifact(path, verify, here=here)
        if not library.manifest and not os.path.lexists(record):
            raise ArtifactError(
                f"{path} holds no manifest: tvmconv did not save it, or it was cut short. Copy it "
                "again, or build the model again."
            )
        manifest = read_manifest(record, select)
        if library.manifest:
            raise ArtifactError(
                f"{record} is not the manifest that {path} holds: one of the two was damaged, "
                "replaced or edited. Save the model again."
            )
    if here:
        manifest = for_host(manifest, str(path))
    if fault := library.difference(manifest.library_bytes, manifest.library_sha256, verify):
        raise ArtifactError(
            f"{path} is not the file that {record} describes ({fault}): it was damaged, replaced "
            "or cut short. Save the model again."
        )
    if manifest.weights_sha256:
        size = manifest.memory.constant_bytes
        try:
            library.weights = map_weights(path, manifest.weights_sha256, size, verify)
        except ArtifactError:
            if _identity(path) == before[0]:
                raise
            # another process has saved meanwhile, perhaps two models one after the other
            return open_artifact(path, verify, here=here)
    return manifest, library


def _identity(path: Path) -> tuple[int, int] | None:
    """Identity of a file, which changes when another file replaces it; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _own_manifest(library: Library, record: Path) -> Manifest | None:
    """The manifest inside a library, if its copy is equal, not renamed yet, or missing.

    If a copy differs, one of the two was damaged or edited.
    """
    text = library.manifest
    if text and (
        not os.path.lexists(record)
        or any(is_copy(text, file) for file in (record, *files.pending(record)))
    ):
        return parse_manifest(text, record, select)
    return None
