"""Where NVIDIA's programs are."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

# where the wheels of NVIDIA put their programs
_WHEELS = ("cu13", "cuda_nvcc", "cuda_nvdisasm")


def find_program(name: str) -> str | None:
    """One of NVIDIA's: of the variable of its name, on the path, below ``CUDA_HOME``, of wheels."""
    homes = [os.environ.get(variable, "") for variable in ("CUDA_HOME", "CUDA_PATH")]
    places = [Path(home) / "bin" / name for home in (*homes, "/usr/local/cuda") if home]
    found = find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        places += [Path(folder) / wheel / "bin" / name for wheel in _WHEELS]
    named = os.environ.get(name.upper()) or shutil.which(name)
    return named or next((str(place) for place in places if place.is_file()), None)
