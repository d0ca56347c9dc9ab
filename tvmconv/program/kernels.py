"""The functions that programs call, each once, under a symbol of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tvmconv.core.decision import KernelCall
from tvmconv.core.errors import ModelError
from tvmconv.tvm_api import ffi, ir

SYMBOL = "global_symbol"


class Kernels:
    """Functions of one or several programs, by symbol.

    Functions that compute the same way are one function, also if different programs call them.
    Functions of another target are linked with a ``first`` target's, and have other names.
    """

    def __init__(self, first: Kernels | None = None) -> None:
        self.functions: dict[str, Any] = {}
        self._known: dict[Any, str] = {}
        # the symbols of each target
        self._taken: list[dict[str, Any]] = first._taken if first else []
        self._end = f"_t{len(self._taken)}" if first else ""
        self._taken.append(self.functions)

    def add(self, var: Any, func: Any, decided: Iterable[str]) -> str:
        """The symbol of a function with its variable; names in ``decided`` stay as they are.

        Other names, such as ``exp``, get a suffix, because kernels may call the C library's
        function.
        """
        key = ffi.StructuralKey(func.without_attr(SYMBOL))
        if key not in self._known:
            # Python's lambdas are called <lambda>
            name = re.sub(r"\W", "_", str(var.name_hint), flags=re.ASCII)
            if name not in decided and not name.endswith("_kernel"):
                name += "_kernel"
            symbol = self._known[key] = self._free(name + self._end, set(decided) - {name})
            self.functions[symbol] = func.with_attr(SYMBOL, symbol)
        return self._known[key]

    def _free(self, name: str, reserved: set[str]) -> str:
        """The name, with a number if another function has it."""
        symbol, count = name, 1
        while symbol in reserved or any(symbol in taken for taken in self._taken):
            count += 1
            symbol = f"{name}_{count}"
        return symbol


def check_self_contained(func: Any, record: KernelCall) -> None:
    """Refuse code that calls functions of TVM's runtime."""
    called = []

    def look(call: Any) -> None:
        if "packed" in getattr(call.op, "name", ""):
            called.append(call.args[0])

    ffi.structural_walk(func.body, (ir.Call, look))
    if called:
        raise ModelError(
            f"layer {record.layer or record.kernel!r}: operator {record.operator!r} is computed "
            f"by {called[0]} of TVM's runtime, which a saved model does not have"
        )
