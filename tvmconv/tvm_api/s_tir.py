"""Blocks and their schedules (``tvm.s_tir``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm.s_tir import SBlock, SBlockRealize, transform
from tvm.s_tir.schedule import ScheduleError, Trace

if TYPE_CHECKING:
    from tvmconv.tvm_api import types

    def Schedule(mod: types.PrimFunc, *, enable_check: bool = ...) -> types.Schedule:
        """A schedule of one function, which is ``main`` of its module."""

    def is_output_block(sch: types.Schedule, block: types.BlockRV) -> bool:
        """Whether a block writes a parameter of the function."""
else:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule.analysis import is_output_block
