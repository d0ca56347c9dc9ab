"""Opens a model given as path, bytes or ``ModelProto``."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.core.errors import ModelError
from tvmconv.core.files import read_regular
from tvmconv.frontend.limits import MAX_FILE_BYTES

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class HeldModel:
    """The content of a model in memory, which later changes of its files do not reach.

    Attributes
    ----------
    name
        The name for reports.
    data
        The serialized model without external data.
    files
        The files of external data: their content by location. None for a model without a folder.
    sha256
        Hash of all of it, by which the cache finds built models.
    """

    name: str
    data: bytes
    files: Mapping[str, bytes] | None
    sha256: bytes


@dataclass
class Source:
    """A parsed model and its origin.

    ``folders`` may contain external data: the folder of the model file, then the folder of the file
    that it links to. Models that are not read from a file have none. ``size`` counts the model's
    bytes without external data. ``digest`` is a running SHA-256, which includes external data.
    ``files`` has the content of the files of external data, if it is in memory.
    """

    proto: onnx.ModelProto
    name: str
    folders: tuple[Path, ...]
    size: int
    digest: Any
    files: Mapping[str, bytes] | None = None


# first bytes of other files, and the remedy for each
_OTHERS = (
    (rb"\x7fELF", "a shared object; name the ONNX file, or open a saved model by tvmconv.load"),
    (rb"version https://git-lfs", "a pointer of Git LFS to it; fetch the file by `git lfs pull`"),
    (rb"PK\x03\x04", "a zip archive, as torch.save writes; export the model by torch.onnx.export"),
    (rb"\x80[\x02-\x05]", "a pickle, as torch.save wrote; export the model by torch.onnx.export"),
    (rb'(?s).{8}\{"', "weights in safetensors; export the whole model by torch.onnx.export"),
    (rb"\x1f\x8b", "compressed by gzip; unpack it first"),
    (rb"\x89HDF", "an HDF5 file, as Keras writes; convert the model by tf2onnx"),
    (rb"(?s).{4}TFL3", "a TensorFlow Lite model; convert it by tf2onnx"),
    (rb"(?s).{4}ORTM", "in onnxruntime's own format; take the ONNX file that it was made of"),
    (rb"\s*<", "a page of HTML or XML; download the file itself"),
    (rb"\s*\{", "JSON; a saved model is the .so next to its manifest"),
)


def open_source(model: str | os.PathLike[str] | bytes | onnx.ModelProto | HeldModel) -> Source:
    """Read and parse a model; nothing in it is checked yet.

    Raises ``ModelError`` if the file cannot be read, is too large, or is not an ONNX model.
    """
    import onnx

    if isinstance(model, HeldModel):
        source = parse_source(model.data, "the model", model.name, ())
        source.files = model.files
        return source
    if isinstance(model, onnx.ModelProto):
        try:
            data = model.SerializeToString()
        except Exception as error:
            raise ModelError(
                f"the ModelProto cannot be serialized ({error}). "
                "Save it with external data and pass the path."
            ) from None
        return Source(model, model.graph.name or "model", (), len(data), hashlib.sha256(data))
    if isinstance(model, bytes | bytearray | memoryview):
        return parse_source(bytes(model), "the string of bytes", "model", ())
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        data = read_model_file(path)
        return parse_source(data, f"file {str(path)!r}", model_name(path), model_folders(path))
    raise ModelError(
        f"a model is a path, bytes or an onnx.ModelProto, not {type(model).__name__}. "
        "Pass one of these."
    )


def model_name(path: Path) -> str:
    """The name of a model in a file."""
    # a file's name is bytes, which need not be text
    return os.fsencode(path.stem).decode(errors="replace")


def read_model_file(path: Path) -> bytes:
    """The content of a model's file; raises ``ModelError`` if it cannot be read."""
    try:
        return read_regular(path, MAX_FILE_BYTES, ModelError)
    except OSError as error:
        raise ModelError(
            f"cannot open the model file {str(path)!r}: {error.strerror}. Check the path."
        ) from None


def model_folders(path: Path) -> tuple[Path, ...]:
    """The folders that may hold a model's external data."""
    # a download cache links a model's name to a file in a folder of all contents
    found = (Path(os.path.realpath(path.parent)), Path(os.path.realpath(path)).parent)
    return tuple(dict.fromkeys(found))


def parse_source(data: bytes, what: str, name: str, folders: tuple[Path, ...]) -> Source:
    """Parse a serialized model, which errors call ``what``."""
    import onnx

    remedy = "it may be truncated or of another format; export or download it again"
    if not data:
        raise ModelError(f"{what} is empty; {remedy}")
    other = next((kind for mark, kind in _OTHERS if re.match(mark, data)), "")
    try:
        proto = onnx.ModelProto.FromString(data)
    except Exception as error:
        if other:
            raise ModelError(f"{what} is not an ONNX model but {other}.") from None
        raise ModelError(f"{what} is not a readable ONNX model ({error}); {remedy}") from None
    if not proto.HasField("graph") or (not proto.graph.node and not proto.graph.output):
        raise ModelError(
            f"{what} holds no ONNX graph" + (f" but is {other}" if other else f"; {remedy}")
        )
    return Source(proto, name, folders, len(data), hashlib.sha256(data))
