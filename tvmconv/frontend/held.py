"""Reads a model into memory, for builds at any later time."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from tvmconv.frontend.external import MARK, ExternalData, external_locations
from tvmconv.frontend.source import (
    HeldModel,
    model_folders,
    model_name,
    open_source,
    parse_source,
    read_model_file,
)

if TYPE_CHECKING:
    import onnx


def hold(model: str | os.PathLike[str] | bytes | onnx.ModelProto) -> HeldModel:
    """Read a model with its external data.

    Raises ``ModelError`` if a file cannot be read, or is not an ONNX model.
    """
    if not isinstance(model, str | os.PathLike):
        source = open_source(model)
        data = bytes(model) if isinstance(model, bytes | bytearray | memoryview) else None
        data = source.proto.SerializeToString() if data is None else data
        return HeldModel(source.name, data, None, source.digest.digest())
    path = Path(model)
    data = read_model_file(path)
    source = parse_source(data, f"file {str(path)!r}", model_name(path), model_folders(path))
    files: dict[str, bytes] = {}
    if MARK in data:
        with closing(ExternalData(source.folders, source.digest)) as external:
            for location in external_locations(source.proto):
                files[location] = b"".join(external.parts(location))
    return HeldModel(source.name, data, files, source.digest.digest())
