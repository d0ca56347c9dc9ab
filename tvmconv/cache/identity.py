"""Keys of entries: hashes of everything that a result depends on."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tvmconv.core.version import package_version

_ROOT = Path(__file__).parents[1]
# packages whose code makes kernels or constants
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "numpy", "ml_dtypes", "onnx")
_SUFFIXES = (".py", ".c", ".h", ".map", ".jsonl")


def key_of(what: Any, *content: bytes) -> str:
    """The key of plain data and of bytes, for this version of the code."""
    found = hashlib.sha256(code_version().encode())
    for part in (json.dumps(what, sort_keys=True, default=str).encode(), *content):
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


@lru_cache(maxsize=1)
def code_version() -> str:
    """Hash of the sources of this package, and of the versions of the libraries that it uses."""
    found = hashlib.sha256(repr([*_versions(), sys.version_info[:3]]).encode())
    for path in sorted(_sources(_ROOT)):
        name, content = path.relative_to(_ROOT).as_posix(), path.read_bytes()
        found.update(f"{name} {len(content)}\n".encode() + content)
    return found.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    # schedules and tuning logs may be links
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (Path(root, name) for name in names if name.endswith(_SUFFIXES))


def _versions() -> Iterator[str]:
    """Versions of libraries, and of TVM's own library, which contains LLVM."""
    for name in _PACKAGES:
        yield f"{name} {package_version(name)}"
    spec = find_spec("tvm")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted((*Path(place).glob("libtvm*"), *Path(place, "lib").glob("libtvm*"))):
            status = path.stat()
            yield f"{path.name} {status.st_size} {status.st_mtime_ns}"
