"""Register tiles and cycles of convolutions by vectors of pixels."""

from __future__ import annotations

from functools import lru_cache

from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.microkernel import Microkernel
from tvmconv.machines.record import Machine
from tvmconv.operators.pixel_conv import PixelTile, flattened, is_padded

# Loads of a vector that begins inside a line: most taps of a kernel's row read such.
_MISALIGNED = 2.0
# vectors that a copy of strided pixels takes for each that it writes
_STRIDED_COPY = 8.0
# accumulators of a tile that hide the latency of multiply-adds are enough: wider ones gain nothing
_MOST_VECTORS = 16


@lru_cache(maxsize=1024)
def pixel_tile(workload: Conv2dWorkload, machine: Machine) -> PixelTile:
    """The tile that takes the fewest cycles within the registers; ``workload`` is flattened."""
    each = workload.out_channels // workload.groups
    vectors = -(-workload.out_width // machine.lanes)
    registers = machine.vector_registers
    padded = is_padded(workload, machine.lanes)
    tiles = [
        PixelTile(outputs, count, machine.lanes)
        for outputs in range(1, min(each, registers) + 1)
        for count in range(1, min(vectors, _MOST_VECTORS) + 1)
        if outputs * count + count + 1 <= registers and (padded or vectors % count == 0)
    ]
    return min(tiles, key=lambda tile: (_sums(workload, machine, tile), -tile.vectors))


def pixel_cycles(workload: Conv2dWorkload, machine: Machine) -> float:
    """Cycles of one call on the machine's cores: sums, the padded copy and the stores."""
    w = flattened(workload)
    moved = itemsize(w.types.output) * w.batch * w.out_channels * w.out_height * w.out_width
    copied = 0.0
    if is_padded(w, machine.lanes):
        vectors = w.batch * w.in_channels * w.in_height * -(-w.in_width // machine.lanes)
        copied = 2 * vectors * (_STRIDED_COPY if w.stride_w > 1 else 1.0)
    sums = _sums(w, machine, pixel_tile(w, machine))
    tasks = w.batch * w.groups
    cores = min(machine.cores, tasks) if tasks > 1 else 1
    return (sums + copied + moved / machine.rates.behind_l2) / cores


def _sums(w: Conv2dWorkload, machine: Machine, tile: PixelTile) -> float:
    vectors, taps = -(-w.out_width // machine.lanes), w.kernel_h * w.kernel_w
    steps = w.in_channels // w.groups * taps
    kernel = Microkernel(machine, tile.outputs, tile.vectors)
    # kernels of several columns read vectors that begin anywhere
    extra = (_MISALIGNED - 1) * tile.vectors * (w.kernel_w > 1)
    loads = machine.load_cycles(tile.vectors + extra, tile.outputs)
    waiting = max(0.0, loads - kernel.step_cycles())
    count = w.batch * w.groups * -(-(w.out_channels // w.groups) // tile.outputs)
    count *= w.out_height * -(-vectors // tile.vectors)
    return count * (kernel.cycles(steps) + steps * waiting)
