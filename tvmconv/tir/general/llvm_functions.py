"""LLVM functions in generated code, which LLVM inlines.

They are written as LLVM's text where TVM cannot express an operation: vectors of unknown length,
types without a form in TVM, or inline assembly.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx


def called(func: Any, prefix: str) -> list[str]:
    """The external functions with a prefix that a function calls, in order of their names."""
    names: set[str] = set()

    def look(call: Any) -> None:
        name = getattr(call.args[0], "value", None) if len(call.args) else None
        if isinstance(name, str) and name.startswith(prefix):
            names.add(name)

    tvm_ffi.structural_walk(func.body, (ir.Call, look))
    return sorted(names)


def importing(func: Any, text: str) -> Any:
    """A function together with LLVM functions that it calls, as text."""
    body = tirx.AttrStmt("default", "pragma_import_llvm", ir.StringImm(text), func.body)
    return func.with_body(body)
