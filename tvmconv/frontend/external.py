"""Reads external tensor data, and only from inside the model's folders.

A model file is untrusted input that names other files. The rules follow the layers of onnx's
``docs/ExternalDataSecurity.md``. The location must be a plain relative path. Symbolic links are
resolved first. The result must be inside the folder of the model, or of the file that the model's
name links to, as in a download cache. Every step of the resolved path
is opened without following symbolic links, so a link that changes meanwhile leads nowhere. The
file must be regular and have one hard link, so that it cannot be another name of a file outside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmconv.core.errors import ModelError
from tvmconv.core.files import open_regular
from tvmconv.frontend.graph import Array
from tvmconv.frontend.limits import MAX_EXTERNAL_BYTES

if TYPE_CHECKING:
    import onnx

# the name of an entry that every tensor with external data has
MARK = b"location"
_PART_BYTES = 1 << 20
_KEYS = {"location", "offset", "length", "checksum"}


class ExternalData:
    """Opens the external files of one model once each.

    ``folders`` are the model file's folder and the folder of its target, without symbolic links.
    Every byte that is read is added to the ``hashlib`` object ``digest``. ``size`` is the total
    size of the opened files.
    """

    def __init__(self, folders: tuple[Path, ...], digest: Any) -> None:
        self.size = 0
        self._folders = folders
        self._digest = digest
        self._files: dict[str, int] = {}

    def close(self) -> None:
        """Close all files."""
        for handle in self._files.values():
            os.close(handle)
        self._files.clear()

    def read(self, tensor: onnx.TensorProto, size: int, where: str) -> Array:
        """The tensor's bytes as an array of ``uint8``; ``size`` is what its shape needs."""
        entries = [(entry.key, entry.value) for entry in tensor.external_data]
        fields = dict(entries)
        if len(fields) != len(entries) or not set(fields) <= _KEYS or "location" not in fields:
            raise ModelError(
                f"{where}: external data entries {[key for key, _ in entries]} must be location, "
                "and at most one each of offset, length, checksum. Export the model again."
            )
        location = fields["location"]
        offset = _count(fields.get("offset", "0"), "offset", where)
        length = _count(fields.get("length", str(size)), "length", where)
        if length != size:
            raise ModelError(
                f"{where}: external data length={length}, but the tensor's shape needs {size} "
                "bytes. Export the model again."
            )
        available = self._available(location, where)
        if offset + length > available:
            raise ModelError(
                f"{where}: external data ends at byte {offset + length}, but file {location!r} "
                f"has {available} bytes; it may be truncated. Export or download it again."
            )
        data = self._part(location, offset, length, where)
        self._digest.update(data)
        return data

    def parts(self, location: str) -> Iterator[bytes]:
        """A whole file in parts, which are added to the digest."""
        handle, offset = self._open(location, "external data"), 0
        while part := os.pread(handle, _PART_BYTES, offset):
            self._digest.update(part)
            offset += len(part)
            yield part

    def _available(self, location: str, where: str) -> int:
        """The size of a file."""
        return os.fstat(self._open(location, where)).st_size

    def _part(self, location: str, offset: int, length: int, where: str) -> Array:
        handle = self._open(location, where)
        data = np.empty(length, np.uint8)
        view = memoryview(data.data)
        done = 0
        while done < length:
            count = os.preadv(handle, [view[done:]], offset + done)
            if count == 0:
                raise ModelError(
                    f"{where}: file {location!r} became shorter while it was read. Stop the "
                    "program that writes it"
                )
            done += count
        return data

    def _open(self, location: str, where: str) -> int:
        if location in self._files:
            return self._files[location]
        parts = location.split("/")
        if (
            not location
            or re.match(r"[A-Za-z]:", location)
            or any(part in ("", "..") or "\\" in part or "\0" in part for part in parts)
        ):
            raise ModelError(
                f"{where}: external data location {location!r} must be a relative path inside "
                "the model's folder, without '..'. Export the model again."
            )
        handles: list[int] = []
        try:
            folder, parts = self._resolved(location)
            handles.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for part in parts[:-1]:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                handles.append(os.open(part, flags, dir_fd=handles[-1]))
            file = open_regular(
                parts[-1], MAX_EXTERNAL_BYTES, ModelError, flags=os.O_NOFOLLOW, dir_fd=handles[-1]
            )
        except ModelError as error:
            raise ModelError(f"{where}: external data file {location!r}: {error}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ModelError(
                f"{where}: cannot open external data file {location!r} in the model's folder: "
                f"{reason}. Expected a file there. Put the file next to the model, under the "
                "name that the model gives"
            ) from None
        finally:
            for handle in handles:
                os.close(handle)
        if os.fstat(file).st_nlink != 1:
            os.close(file)
            raise ModelError(
                f"{where}: external data file {location!r} has more than one hard link, so it "
                "may be in another folder. Put a copy of it in the model's folder."
            )
        self._files[location] = file
        self.size += os.fstat(file).st_size
        return file

    def _resolved(self, location: str) -> tuple[Path, list[str]]:
        """One of the model's folders, and the path inside it without symbolic links."""
        first = next((f for f in self._folders if os.path.lexists(f / location)), self._folders[0])
        path = Path(os.path.realpath(first / location))
        for folder in self._folders:
            if path.is_relative_to(folder) and path != folder:
                return folder, list(path.relative_to(folder).parts)
        raise ModelError(
            "it is a symbolic link out of the model's folder. Expected a file inside the folder. "
            "Put a copy of the file there"
        )


class HeldData(ExternalData):
    """External data whose files are in memory: their content by location."""

    def __init__(self, files: Mapping[str, bytes], digest: Any) -> None:
        super().__init__((), digest)
        self._held = files
        self.size = sum(map(len, files.values()))

    def _available(self, location: str, where: str) -> int:
        if location not in self._held:
            raise ModelError(
                f"{where}: external data file {location!r} was not read with the model. Build the "
                "model again."
            )
        return len(self._held[location])

    def _part(self, location: str, offset: int, length: int, where: str) -> Array:
        return np.frombuffer(self._held[location], np.uint8, length, offset).copy()


def external_locations(model: onnx.ModelProto) -> list[str]:
    """The files that hold external data, as the model names them."""
    nodes = [node for function in model.functions for node in function.node]
    return sorted(
        {
            entry.value
            for tensor in (*_tensors(model.graph), *_tensors_of(nodes))
            for entry in tensor.external_data
            if entry.key == "location"
        }
    )


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_of(graph.node)


def _tensors_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            sparse = (attribute.sparse_tensor, *attribute.sparse_tensors)
            yield from (tensor for each in sparse for tensor in (each.values, each.indices))
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors(graph)


def _count(text: str, key: str, where: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ModelError(
            f"{where}: external data {key}={text[:40]!r} must be a number of bytes. "
            "Export the model again."
        )
    return int(text)
