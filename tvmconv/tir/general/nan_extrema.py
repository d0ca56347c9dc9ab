"""``max`` and ``min`` with a constant, written so that they keep NaN."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.general.rewrite import function_pass


def ConstantsFirst() -> Any:
    """A pass that writes ``max`` and ``min`` of a float constant with the constant first.

    Pattern: ``max(x, c)`` or ``min(x, c)``, ``c`` a float constant and ``x`` none.

    Rewrite: ``max(c, x)``, ``min(c, x)``.

    Why here: TVM and LLVM treat both forms as equal, and either compiles to one instruction, but
    where ``x`` is NaN only the second returns it; see :func:`tvmconv.operators.math.at_least`.
    """
    return function_pass("ConstantsFirst", _constants_first)


def _constants_first(func: Any) -> Any:
    import tvm_ffi
    from tvm import tirx

    def swap(node: Any) -> Any:
        if isinstance(node.b, tirx.FloatImm) and not isinstance(node.a, tirx.FloatImm):
            return type(node)(node.b, node.a)
        return node

    body = tvm_ffi.structural_map(func.body, ((tirx.Max, tirx.Min), swap), order="post")
    return func.with_body(body)
