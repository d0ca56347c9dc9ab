"""Schedules a function by a trace, in place of tvmconv's own schedule."""

from __future__ import annotations

from typing import Any

from tvmconv.core.errors import ConfigError
from tvmconv.core.trace import read_trace
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ffi import structural_walk
from tvmconv.tvm_api.s_tir import Schedule, Trace
from tvmconv.tvm_api.types import PrimFunc

# MetaSchedule uses at most 64 lanes and 512 steps; much longer code takes minutes to compile
_MOST_LANES = 256
_MOST_STEPS = 1024
_TEXT = 200


@compiler_lock()
def replayed(function: PrimFunc, trace: str) -> PrimFunc:
    """A function whose loops a trace arranges.

    Raises :class:`ConfigError` if the trace is damaged, belongs to another function, or would make
    more code than a kernel may have.
    """
    data = read_trace(trace)
    schedule = Schedule(function)
    try:
        Trace.apply_json_to_schedule(data, schedule)
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")[:_TEXT]
        raise ConfigError(
            f"a trace does not fit its tensor expression: {type(error).__name__} {first}"
        ) from None
    scheduled = schedule.mod["main"]
    _check_size(scheduled)
    return scheduled


def _check_size(function: PrimFunc) -> None:
    loops: list[Any] = []
    structural_walk(function.body, (tirx.For, loops.append))
    most = {tirx.ForKind.VECTORIZED: _MOST_LANES, tirx.ForKind.UNROLLED: _MOST_STEPS}
    for loop in loops:
        limit, extent = most.get(loop.kind), loop.extent
        if limit and not (isinstance(extent, tirx.IntImm) and extent.value <= limit):
            raise ConfigError(
                f"a trace unrolls or vectorizes {extent} iterations. Expected at most {limit}."
            )
