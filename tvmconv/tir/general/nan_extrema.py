"""Puts constants first in ``max`` and ``min``, so that they propagate NaN."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvmconv.tir.general.rewrite import function_pass


def ConstantsFirst() -> Any:
    """A pass that puts the constant of ``max`` and ``min`` first.

    Pattern: ``max(x, c)`` or ``min(x, c)`` with a float constant ``c`` and a variable ``x``.

    Rewrite: ``max(c, x)``, ``min(c, x)``.

    Why here: TVM and LLVM treat both forms as equal, and compile either to one instruction. For
    ``x`` NaN only the second form returns NaN; see :func:`tvmconv.operators.math.at_least`.
    """
    return function_pass("ConstantsFirst", _constants_first)


def _constants_first(func: Any) -> Any:
    def swap(node: Any) -> Any:
        if isinstance(node.b, tirx.FloatImm) and not isinstance(node.a, tirx.FloatImm):
            return type(node)(node.b, node.a)
        return node

    body = tvm_ffi.structural_map(func.body, ((tirx.Max, tirx.Min), swap), order="post")
    return func.with_body(body)
