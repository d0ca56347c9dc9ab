"""Name and content of a model, by which a cache finds it; nothing in it is checked."""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from tvmconv.core.errors import ModelError
from tvmconv.core.files import open_regular
from tvmconv.frontend.external import MARK, ExternalData, external_locations
from tvmconv.frontend.limits import MAX_FILE_BYTES
from tvmconv.frontend.source import HeldModel, model_folders, model_name, read_model_file

if TYPE_CHECKING:
    import onnx

_PART_BYTES = 1 << 20


def identity(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto | HeldModel,
) -> tuple[bytes, bytes]:
    """The name that a model gets, and a hash of its content.

    Raises ``ModelError`` or ``OSError`` if a file cannot be read, ``TypeError`` for other objects.
    """
    if isinstance(model, HeldModel):
        return model.name.encode(errors="replace"), model.sha256
    digest = hashlib.sha256()
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        name = model_name(path)
        if _add_file(path, digest):
            _add_external(read_model_file(path), model_folders(path), digest)
    elif isinstance(model, bytes | bytearray | memoryview):
        name = "model"
        digest.update(model)
    else:
        data, name = _serialized(model)
        digest.update(data)
    return name.encode(errors="replace"), digest.digest()


def _add_file(path: Path, digest: hashlib._Hash) -> bool:
    """Hash a file; whether its tensors may be in other files."""
    found, tail = False, b""
    with os.fdopen(open_regular(path, MAX_FILE_BYTES, ModelError), "rb") as file:
        while part := file.read(_PART_BYTES):
            digest.update(part)
            found = found or MARK in part or MARK in tail + part[: len(MARK)]
            tail = part[-len(MARK) :]
    return found


def _serialized(model: onnx.ModelProto) -> tuple[bytes, str]:
    import onnx

    if not isinstance(model, onnx.ModelProto):
        raise TypeError(f"{type(model).__name__} is not a model")
    return model.SerializeToString(), model.graph.name or "model"


def _add_external(data: bytes, folders: tuple[Path, ...], digest: hashlib._Hash) -> None:
    """Hash the whole files that hold external data."""
    import onnx

    with closing(ExternalData(folders, digest)) as files:
        for location in external_locations(onnx.ModelProto.FromString(data)):
            for _ in files.parts(location):
                pass
