"""Schedules a function by a trace, in place of tvmconv's own schedule."""

from __future__ import annotations

import math
from typing import Any

from tvmconv.core.errors import ConfigError
from tvmconv.core.trace import read_trace
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.tvm_api import tirx, types
from tvmconv.tvm_api.s_tir import Schedule, Trace
from tvmconv.tvm_api.types import PrimFunc

# limits of a block's lanes and of all blocks' steps. MetaSchedule uses at most 64 lanes and 512
# steps in a block. Much longer code takes minutes to compile
_MOST_LANES = 256
_MOST_STEPS = 4096
_UNROLL = "pragma_auto_unroll_max_step"
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
    except Exception as error:  # TVM's primitives raise many classes, its own among them
        first = next(iter(str(error).strip().splitlines()), "")[:_TEXT]
        raise ConfigError(
            f"a trace does not fit its tensor expression: {type(error).__name__} {first}"
        ) from None
    _check_size(schedule)
    return schedule.mod["main"]


def _check_size(schedule: types.Schedule) -> None:
    """Refuse what TVM cannot compile, or compiles to very long code."""
    steps = 0.0
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        loops: list[Any] = [schedule.get(loop) for loop in schedule.get_loops(block)]
        for kind in (tirx.ForKind.VECTORIZED, tirx.ForKind.PARALLEL):
            if sum(loop.kind == kind for loop in loops) > 1:
                raise ConfigError("a trace nests vectorized loops, or parallel ones")
        lanes = _iterations(loops, tirx.ForKind.VECTORIZED)
        if lanes > _MOST_LANES:
            raise ConfigError(
                f"a trace vectorizes {lanes:.0f} iterations. Expected at most {_MOST_LANES}."
            )
        asked = [int(loop.annotations[_UNROLL]) for loop in loops if _UNROLL in loop.annotations]
        steps += _iterations(loops, tirx.ForKind.UNROLLED) * max(asked, default=1)
    if steps > _MOST_STEPS:
        raise ConfigError(
            f"a trace unrolls {steps:.0f} iterations. Expected at most {_MOST_STEPS}."
        )


def _iterations(loops: list[Any], kind: int) -> float:
    """How often nested loops of a kind run; infinite if that is not constant."""
    extents = [loop.extent for loop in loops if loop.kind == kind]
    return math.prod(e.value if isinstance(e, tirx.IntImm) else math.inf for e in extents)
