"""Planned memory of a compiled model, read from the program that runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

from tvmconv.core.tensor import TensorInfo

_CALL = re.compile(r"^\s*call\s+(\S+)\s+in:(.*?)\s+dst:\s+(\S+)\s*$", re.MULTILINE)
# a shape, a tensor's shape, a quoted text (quotes inside are not escaped) or a type's name
_ENTRY = re.compile(r'shapetuple\[[^\]]*\]|\[[^\]]*\]|".*?"(?=, |$)|[^,\s"\[]+', re.DOTALL)


@dataclass(frozen=True)
class MemoryReport:
    """Bytes that one model holds, and one call needs.

    Parameters
    ----------
    arena_bytes
        Peak of the activation storage that one call has allocated at a time, outputs included.
        Every concurrent call has its own.
    output_bytes
        The part of it that the caller receives as outputs.
    constant_bytes
        Packed weights and other constants, held once for all calls.
    workspace_bytes
        Largest scratch memory that one kernel allocates beside its arguments.
    padding_bytes
        The part of the constants that is zeros added to fill channel blocks.
    """

    arena_bytes: int = 0
    output_bytes: int = 0
    constant_bytes: int = 0
    workspace_bytes: int = 0
    padding_bytes: int = 0


class Planned(Protocol):
    """What :func:`memory_report` needs of ``tvmconv.program.program.Program``."""

    @property
    def outputs(self) -> Sequence[TensorInfo]:
        """The model's results."""

    @property
    def arena_bytes(self) -> int:
        """Activation memory of one call."""

    @property
    def constant_bytes(self) -> int:
        """Packed weights and other constants."""

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of one thread."""


def memory_report(program: Planned, padding_bytes: int = 0) -> MemoryReport:
    """What a program holds and takes, to the byte.

    Its arena holds no outputs: they are computed in the caller's memory.

    Parameters
    ----------
    program
        The program.
    padding_bytes
        As of the report.
    """
    return MemoryReport(
        arena_bytes=program.arena_bytes,
        output_bytes=sum(tensor.bytes for tensor in program.outputs),
        constant_bytes=program.constant_bytes,
        workspace_bytes=program.workspace_bytes,
        padding_bytes=padding_bytes,
    )


def peak_storage(statistics: str, program: str) -> int:
    """Peak bytes of live storage, from the virtual machine's ``stats`` and ``as_text``.

    The program is straight-line: ``alloc_storage`` makes a block, other calls derive tensors
    and tuples from it, ``null_value`` drops a register. A block lives while a register refers
    to something derived from it.
    """
    pool = _constant_pool(statistics)
    sizes: list[int] = []
    blocks: dict[str, frozenset[int]] = {}  # register -> blocks it keeps alive
    peak = 0
    for name, text, target in _CALL.findall(program):
        arguments = [argument.strip() for argument in text.split(",")]
        if name == "vm.builtin.null_value":
            blocks.pop(target, None)
            continue
        kept = frozenset[int]().union(*(blocks.get(a, frozenset()) for a in arguments))
        if name == "vm.builtin.alloc_storage":
            sizes.append(_storage_bytes(pool[int(arguments[1][2:-1])]))
            kept = frozenset((len(sizes) - 1,))
        if kept and target.startswith("%") and target != "%void":
            blocks[target] = kept
            live = frozenset[int]().union(*blocks.values())
            peak = max(peak, sum(sizes[index] for index in live))
    return peak


def returns_constants(program: str) -> bool:
    """Whether an output may be one of the model's constants, which callers must not write."""
    return bool(re.search(r"^\s*ret\s+c\[|make_tuple\s+in:.*c\[", program, re.MULTILINE))


def _constant_pool(statistics: str) -> list[str]:
    """Entries of the constant pool, in order, as printed."""
    match = re.search(r"Constant pool \(# (\d+)\): \[(.*)\]\n\s*Globals", statistics, re.DOTALL)
    entries = [m[0] for m in _ENTRY.finditer(match[2])] if match else []
    if not match or len(entries) != int(match[1]):
        raise ValueError("the constant pool of the virtual machine is printed in another form")
    return entries


def _storage_bytes(entry: str) -> int:
    return prod(int(n) for n in re.findall(r"\d+", entry))


def constant_bytes(module: Any) -> int:
    """Bytes of all tensor constants in a Relax module; each object counts once."""
    from tvm import relax
    from tvm.ir import GenericConst

    seen: dict[int, int] = {}

    def visit(expr: Any) -> None:
        if isinstance(expr, GenericConst) and hasattr(expr.value, "shape"):
            value = expr.value
            seen[hash(value)] = prod(value.shape) * value.dtype.itemsize

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return sum(seen.values())
