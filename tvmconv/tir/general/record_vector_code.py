"""Which functions are code for vectors of any length, which for fixed ones, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tvmconv.tir.general.rewrite import function_pass

# attribute of functions: why a loop that was marked for scalable vectors is not computed by them
NO_SCALABLE_FORM = "tvmconv.no_scalable_form"
# what the pass writes to
_RECORD: ContextVar[dict[str, str] | None] = ContextVar("vector_code", default=None)
_PLAIN = "its schedule has no scalable form"


@contextmanager
def recorded_code() -> Iterator[dict[str, str]]:
    """What vectors the functions have that are built inside, in words by symbol.

    ``SVE``, ``SVE and NEON``, ``NEON: why`` or ``no vectors``.
    """
    found: dict[str, str] = {}
    token = _RECORD.set(found)
    try:
        yield found
    finally:
        _RECORD.reset(token)


def RecordVectorCode() -> Any:
    """A pass that changes nothing and writes for :func:`recorded_code` what vectors there are.

    It stands where loops over pixels have become loops over scalable vectors. Inside no
    :func:`recorded_code`, it does nothing.
    """
    return function_pass("RecordVectorCode", _record)


def _record(func: Any) -> Any:
    record = _RECORD.get()
    if record is not None and func.attrs and "global_symbol" in func.attrs:
        record[str(func.attrs["global_symbol"])] = vector_code(func)
    return func


def vector_code(func: Any) -> str:
    """The words of a lowered function; see :func:`recorded_code`."""
    import tvm_ffi
    from tvm import tirx

    scalable = fixed = False

    def look(node: Any) -> None:
        nonlocal scalable, fixed
        if isinstance(node, tirx.For):
            constant = isinstance(node.extent, tirx.IntImm)
            scalable = scalable or (not constant and "vscale" in str(node.extent))
        else:
            dtype = node.value.ty.dtype
            fixed = fixed or ("vscale" not in str(dtype) and int(dtype.lanes) > 1)

    tvm_ffi.structural_walk(func.body, ((tirx.For, tirx.BufferStore), look))
    if scalable:
        return "SVE and NEON" if fixed else "SVE"
    if not fixed:
        return "no vectors"
    return f"NEON: {func.attrs.get(NO_SCALABLE_FORM, _PLAIN)}"
