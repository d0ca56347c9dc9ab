"""TVM's runtime library, loaded without TVM's compiler.

Models do without both. Kernels that are run by themselves need ``libtvm_runtime.so`` and the
``tvm_ffi`` package only. Importing ``tvm`` would map the 260 MB compiler library and import some
hundred modules. It stays possible afterwards: the compiler finds the same runtime library loaded.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tvmconv.core.errors import ArtifactError
from tvmconv.tvm_runtime.environment import set_environment_defaults


@cache
def ffi() -> Any:
    """The ``tvm_ffi`` module, with TVM's runtime library loaded.

    Raises ``ArtifactError`` if the packages ``apache-tvm`` and ``apache-tvm-ffi`` are not
    installed.
    """
    set_environment_defaults()
    try:
        import tvm_ffi
    except ImportError as error:
        raise ArtifactError(f"{error}; install apache-tvm-ffi to run kernels") from error
    # an interrupt that falls into a Python function called by TVM would come out as RuntimeError
    tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)
    # kernels and the compiler library resolve runtime symbols from the global scope
    ctypes.CDLL(str(_runtime_library()), ctypes.RTLD_GLOBAL)
    return tvm_ffi


def _runtime_library() -> Path:
    spec = find_spec("tvm")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        library = Path(folder) / "lib" / "libtvm_runtime.so"
        if library.is_file():
            return library
    raise ArtifactError("libtvm_runtime.so was not found; install apache-tvm to run kernels")


def global_function(name: str) -> Any:
    """A function of TVM's runtime by its registered name."""
    return ffi().get_global_func(name)
