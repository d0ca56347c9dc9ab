"""The node cases of ``onnx.backend.test`` by the module that makes them."""

from __future__ import annotations

import pkgutil
import warnings
from functools import cache
from importlib import import_module
from typing import Any


@cache
def cases_by_module() -> dict[str, list[Any]]:
    """All cases. Importing a module makes its cases, once for a process: only this does it."""
    from onnx.backend.test.case import node

    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.iter_modules(node.__path__):
            known = len(node._NodeTestCases)
            import_module(f"{node.__name__}.{module.name}")
            found[module.name] = node._NodeTestCases[known:]
    return found
