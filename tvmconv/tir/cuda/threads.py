"""The threads and blocks of a kernel."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.general.rewrite import nodes_of, substitute


def thread_extents(body: Any) -> list[tuple[Any, str, int]]:
    """Variables of thread and block indices, with their tags and extents."""
    found: list[tuple[Any, str, int]] = []

    def look(node: Any) -> None:
        if node.attr_key == "thread_extent":
            found.append((node.node.var, str(node.node.thread_tag), int(node.value)))

    tvm_ffi.structural_walk(body, (tirx.AttrStmt, look))
    return found


def block_threads(body: Any) -> int:
    """The number of threads of a block."""
    return prod(count for _, tag, count in thread_extents(body) if tag.startswith("threadIdx"))


def kernel_analyzer(body: Any) -> Any:
    """An analyzer that knows how many threads and blocks a kernel has."""
    analyzer = sym.Analyzer()
    for var, _, count in thread_extents(body):
        analyzer.bind(var, ir.Range(0, count))
    return analyzer


def bound_values(body: Any) -> dict[Any, Any]:
    """Values of the variables that a body binds, without references to earlier variables."""
    bound = nodes_of(body, tirx.Bind)
    values: dict[Any, Any] = {}
    for bind in bound:
        values[bind.var] = substitute(bind.value, values)
    return values
