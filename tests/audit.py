"""A second check, in TVM itself: code from this process that this host cannot run raises an error.

Callers ask the package's own check (``tvmconv.machines.gate``). A test that takes a function from
TVM directly would not ask, pass where the processor has everything, and die of an illegal
instruction elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import tvm_ffi

from tvmconv.machines.features import enabled_features
from tvmconv.machines.gate import ensure_executable

# entrances to compiled code: any function of LLVM's, and the virtual machine
_START = "vm_load_executable"
_QUESTIONS = ("_get_", "get_", "__tvm")


@contextmanager
def executable_only() -> Iterator[None]:
    """Refuse functions of modules that were compiled for features which this host lacks."""
    take = tvm_ffi.Module.get_function

    def checked(module: Any, name: str, query_imports: bool = False) -> Any:
        if name == _START or not name.startswith(_QUESTIONS):
            _check(module, name == _START or query_imports)
        return take(module, name, query_imports)

    def _check(module: Any, with_imports: bool) -> None:
        if module.kind == "llvm":
            target = str(take(module, "_get_target_string")())
            ensure_executable(_needed(target), f"a module of this test was built for {target}")
        for other in module.imports if with_imports else ():
            _check(other, True)

    with patch.object(tvm_ffi.Module, "get_function", checked):
        yield


@cache
def _needed(target: str) -> frozenset[str]:
    """CPU flags for a target as LLVM's modules write it."""
    return enabled_features(json.loads(target))
