"""Depthwise convolution on GPUs: neighboring threads compute neighboring columns of some rows."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.memory import memory_cycles, waiting_cycles
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.cuda.threads import bind_threads, check_threads
from tvmconv.tvm_api.types import Schedule

# maximum registers of a thread's window and accumulators, which are all live at once
_MOST_VALUES = 96
# bytes that a multiprocessor loads from L1 in a cycle: four sectors
_L1_RATE = 128.0
# instructions besides loads, FMAs and stores: a thread's address, and tests of each row
_PLACE, _ROW = 30.0, 3.0
_ROWS = (1, 2, 4, 8)

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        Knob("rows", "output rows of a thread", lambda w, machine: _ROWS),
        Knob("threads", "threads of a block", lambda w, machine: (64, 128, 256)),
    )
)


def default_config(workload: Conv2dWorkload, machine: CudaMachine) -> Config:
    """The rows with the fewest predicted cycles, in blocks of 128 threads."""
    offers = [
        Config.of(rows=rows, threads=128)
        for rows in _ROWS
        if rows == 1 or _values(workload, rows) <= _MOST_VALUES
    ]
    return min(offers, key=lambda config: predicted_cycles(workload, machine, config))


def check(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
    """Whole warps, and no more values than registers."""
    rows = config.int("rows")
    check_threads(workload, machine, config.int("threads"))
    if rows < 1 or (rows > 1 and _values(workload, rows) > _MOST_VALUES):
        raise ConfigError(
            f"rows={rows} of {workload} hold {_values(workload, rows)} values in a thread's "
            f"registers, and {_MOST_VALUES} fit"
        )


def apply(
    schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
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
    # a window of many taps stays a loop: its values are in L1, not in registers
    if _values(workload, config.int("rows")) <= _MOST_VALUES:
        for loop in (row, *schedule.get_loops(sums)[2:], *schedule.get_loops(window)[2:]):
            schedule.unroll(loop)


def _values(workload: Conv2dWorkload, rows: int) -> int:
    """Values of a thread's window, and its accumulators."""
    w = workload
    return _window_rows(w, rows) * w.kernel_w + rows


def _window_rows(workload: Conv2dWorkload, rows: int) -> int:
    w = workload
    return (rows - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1


def predicted_cycles(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> float:
    """Cycles of one call, by :func:`explain_cost`."""
    return sum(explain_cost(workload, machine, config).values())


def explain_cost(
    workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> dict[str, float]:
    """Instructions on the multiprocessor with the most blocks, and waits for memory."""
    w, rows, threads = workload, config.int("rows"), config.int("threads")
    strips = w.batch * w.out_channels * -(-w.out_height // rows) * w.out_width
    blocks = -(-strips // threads)
    loads = _window_rows(w, rows) * w.kernel_w
    steps = 2 + len(w.epilogue)
    instructions = _PLACE + _ROW * _window_rows(w, rows) + loads
    instructions += rows * (w.kernel_h * w.kernel_w + steps) + w.kernel_h * w.kernel_w
    most = -(-blocks // machine.multiprocessors) * threads
    issued = most * max(instructions / machine.lanes, 4 * loads / _L1_RATE)
    return {
        "arithmetic": issued,
        "memory": waiting_cycles(memory_cycles(w, machine), issued),
        "call": machine.launch_cycles,
    }
