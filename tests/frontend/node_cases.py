"""The node cases of ``onnx.backend.test`` by the module that makes them."""

from __future__ import annotations

import pkgutil
import sys
import warnings
from functools import cache
from importlib import import_module, reload
from typing import Any


def case_modules() -> list[str]:
    """All modules, which are called as their operators are, in small letters."""
    from onnx.backend.test.case import node

    return [module.name for module in pkgutil.iter_modules(node.__path__)]


@cache
def cases_of(module: str) -> list[Any]:
    """Cases of one module.

    Importing it makes them. Cases of pooling take a second each, all others as long as one.
    """
    from onnx.backend.test.case import node

    known = len(node._NodeTestCases)
    name = f"{node.__name__}.{module}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in sys.modules:
            # onnx's own loader, which other tests call, imports all modules
            node._existing_names.clear()
            reload(sys.modules[name])
        else:
            import_module(name)
    return node._NodeTestCases[known:]
