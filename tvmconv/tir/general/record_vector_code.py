"""Records whether a function uses scalable vectors or fixed ones, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tvm import tirx

from tvmconv.tir.general.rewrite import function_pass, nodes_of

# attribute of functions: why a loop marked for scalable vectors does not use them
NO_SCALABLE_FORM = "tvmconv.no_scalable_form"
# where the pass writes
_RECORD: ContextVar[dict[str, str] | None] = ContextVar("vector_code", default=None)
_PLAIN = "its schedule has no scalable form, or NEON code costs less"


@contextmanager
def recorded_code() -> Iterator[dict[str, str]]:
    """The vector code of functions that are built inside the context, by symbol.

    Values are ``SVE``, ``SVE and NEON``, ``NEON: reason`` or ``no vectors``.
    """
    found: dict[str, str] = {}
    token = _RECORD.set(found)
    try:
        yield found
    finally:
        _RECORD.reset(token)


def RecordVectorCode() -> Any:
    """A pass that changes nothing and records a function's vector code for :func:`recorded_code`.

    It runs after loops over spatial positions have become loops over scalable vectors. Outside a
    :func:`recorded_code` context it does nothing.
    """
    return function_pass("RecordVectorCode", _record)


def _record(func: Any) -> Any:
    record = _RECORD.get()
    if record is not None and func.attrs and "global_symbol" in func.attrs:
        record[str(func.attrs["global_symbol"])] = vector_code(func)
    return func


def vector_code(func: Any) -> str:
    """The vector code of a lowered function; see :func:`recorded_code`."""
    extents = [loop.extent for loop in nodes_of(func.body, tirx.For)]
    types = [store.value.ty.dtype for store in nodes_of(func.body, tirx.BufferStore)]
    fixed = any("vscale" not in str(dtype) and int(dtype.lanes) > 1 for dtype in types)
    if any(not isinstance(e, tirx.IntImm) and "vscale" in str(e) for e in extents):
        return "SVE and NEON" if fixed else "SVE"
    if not fixed:
        return "no vectors"
    return f"NEON: {func.attrs.get(NO_SCALABLE_FORM, _PLAIN)}"
