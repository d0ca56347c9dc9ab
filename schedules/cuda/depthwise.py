"""Depthwise convolution on GPUs: neighboring threads compute neighboring columns of some rows."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.depthwise import call_parts, window_rows
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.cuda.threads import bind_threads, check_threads
from tvmconv.tvm_api.types import Schedule

# maximum registers for a thread's window and accumulators, all of which are alive at once
_MOST_VALUES = 96
_ROWS = (1, 2, 4, 8)


class CudaDepthwiseSchedule(ConvSchedule[CudaMachine]):
    """Some rows of one column for each thread."""

    KNOBS = Knobs(
        (
            Knob("rows", "output rows of a thread", lambda w, machine: _ROWS),
            Knob("threads", "threads of a block", lambda w, machine: (64, 128, 256)),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: CudaMachine) -> Config:
        """The rows with the fewest predicted cycles, in blocks of 128 threads."""
        found = [
            Config.of(rows=rows, threads=128)
            for rows in _ROWS
            if rows == 1 or _values(workload, rows) <= _MOST_VALUES
        ]
        return min(found, key=lambda config: self.predicted_cycles(workload, machine, config))

    def check(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
        """Whole warps, and no more values than registers."""
        rows = config.int("rows")
        check_threads(workload, machine, config.int("threads"))
        if rows < 1 or (rows > 1 and _values(workload, rows) > _MOST_VALUES):
            raise ConfigError(
                f"rows={rows} of {workload} need {_values(workload, rows)} values in registers. "
                f"Expected at most {_MOST_VALUES}. Set fewer rows."
            )

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.cuda.depthwise.Depthwise` in place."""
        output, sums = schedule.get_sblock("output"), schedule.get_sblock("conv2d")
        window = schedule.get_sblock("window")
        n, c, h, x = schedule.get_loops(output)
        strip, row = schedule.split(h, [None, config.int("rows")])
        schedule.reorder(n, c, strip, x, row)
        thread = bind_threads(schedule, (n, c, strip, x), config.int("threads"))
        schedule.compute_at(sums, thread, preserve_unit_loops=True)
        schedule.compute_at(window, thread, preserve_unit_loops=True)
        for own in (sums, window):
            schedule.set_scope(own, 0, "local")
        # a window of many taps is left as loops: its values are then in L1, not in registers
        if _values(workload, config.int("rows")) <= _MOST_VALUES:
            for loop in (row, *schedule.get_loops(sums)[2:], *schedule.get_loops(window)[2:]):
                schedule.unroll(loop)

    explain_cost = staticmethod(call_parts)


SCHEDULE = CudaDepthwiseSchedule()


def _values(workload: Conv2dWorkload, rows: int) -> int:
    """Values of a thread's window, and its accumulators."""
    return window_rows(workload, rows) * workload.kernel_w + rows
