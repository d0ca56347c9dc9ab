"""The places of NVIDIA's programs and libraries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

# folders of NVIDIA's wheels
_WHEELS = ("cu13", "cuda_nvcc", "cuda_nvdisasm", "cuda_nvrtc")


def find_program(name: str) -> str | None:
    """A program from the variable of its name, the path, ``CUDA_HOME``, or NVIDIA's wheels."""
    named = os.environ.get(name.upper()) or shutil.which(name)
    places = (home / "bin" / name for home in _homes())
    return named or next((str(place) for place in places if place.is_file()), None)


def libraries() -> Iterator[Path]:
    """NVIDIA's libraries below ``CUDA_HOME``, in NVIDIA's wheels, and of the system."""
    folders = [home / part for home in _homes() for part in ("lib64", "lib")]
    folders += [Path(f"/usr/lib/{os.uname().machine}-linux-gnu")]
    for folder in folders:
        if folder.is_dir():
            yield from folder.glob("libnv*.so*")


def _homes() -> list[Path]:
    """Folders with ``bin``, and ``lib`` or ``lib64``, in the order of the search."""
    named = [os.environ.get(variable, "") for variable in ("CUDA_HOME", "CUDA_PATH")]
    homes = [Path(home) for home in (*named, "/usr/local/cuda") if home]
    found = find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        homes += [Path(folder) / wheel for wheel in _WHEELS]
    return homes
