"""The cost model of im2col: register tiles over packed panels of pixels."""

from __future__ import annotations

from dataclasses import replace

from tvmconv.algorithms.direct.direct import flattened
from tvmconv.algorithms.gemm.im2col import depth_blocks, panel_type
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.microkernel import most_pixels
from tvmconv.costs.cpu.panel_blocks import PanelBlocks, rate_of
from tvmconv.costs.cpu.partition import Partition
from tvmconv.costs.cpu.products import heights
from tvmconv.costs.cuts import divisors
from tvmconv.machines.record import Machine

# registers for dwords that LLVM broadcasts ahead, if one serves several blocks: 2x14 spilled
_DWORDS_AHEAD = 2
# heights of a tile that are compared
_HEIGHTS = 2


def panel_registers(workload: Conv2dWorkload, machine: Machine, oc: int, mr: int) -> int:
    """Vector registers of a tile of ``oc`` output blocks by ``mr`` pixels of a panel."""
    w, pixels = workload, workload.out_height * workload.out_width
    # a panel's pixels are contiguous, and each has separate taps
    one_row = replace(
        w, in_height=1, in_width=pixels, kernel_h=1, kernel_w=1, stride_h=1, stride_w=1,
        dilation_h=1, dilation_w=1, pad_top=0, pad_left=0, pad_bottom=0, pad_right=0,
    )  # fmt: skip
    return TileModel(one_row, machine, skips=False).registers(oc, 1, mr)


def tile_heights(workload: Conv2dWorkload, machine: Machine, oc: int) -> list[int]:
    """Heights of a register tile of ``oc`` output blocks that a default may have."""
    pixels = workload.out_height * workload.out_width
    if not multiply_of(workload, machine).is_packed:
        # the block model was fitted to panels of two heights with one register to spare; a third
        # height would change many measured choices. By lane the number of registers is exact
        spare = 0 if machine.code.by_lane else 1
        return heights(pixels, most_pixels(machine, oc, spare), _HEIGHTS)
    limit, most = machine.vector_registers, 1
    if oc > 1 and not machine.code.by_lane and multiply_of(workload, machine).steps == 1:
        limit -= _DWORDS_AHEAD
    while panel_registers(workload, machine, oc, most + 1) <= limit:
        most += 1
    return heights(pixels, most, _HEIGHTS)


def parts_of_depth(workload: Conv2dWorkload, machine: Machine, mr: int) -> list[int]:
    """Values of ``kc`` that a default may have: parts, if a single panel exceeds L2."""
    depth, taps = depth_blocks(workload, machine), workload.kernel_h * workload.kernel_w
    block = 1 if workload.data_layout == "NCHW" else machine.channel_block
    size = itemsize(panel_type(workload, machine)) * mr * depth * block * taps
    fits = size <= constants.BLOCK_STAYS * machine.l2_bytes
    return [0] if fits or workload.types.is_integer else [0, *divisors(depth)[:-1]]


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The products of :class:`TileModel` over pixels of one row; as transforms, the panels."""
    w, mr, oc = workload, config.int("mr"), config.int("oc")
    model = TileModel(w, machine, skips=False)
    panels = -(-w.out_height * w.out_width // mr)
    groups = -(-machine.blocks(w.out_channels) // oc)
    taps, channels = w.kernel_h * w.kernel_w, depth_blocks(w, machine)
    each = machine.code.pack_element * w.in_channels
    if w.data_layout == "NCHWc":
        channels *= machine.channel_block
        each = machine.code.pack_vector * machine.blocks(w.in_channels)
    size = itemsize(panel_type(w, machine)) * mr * channels * taps
    block = config.int("mc") or panels
    parts = depth_blocks(w, machine) // (config.int("kc") or depth_blocks(w, machine))
    blocks = PanelBlocks(machine, panels, size // parts, groups, model.weight_bytes, block)
    products = w.batch * panels * groups * model.tile_cycles(oc, mr)
    # each further part begins its tiles again and adds its sums to the sums in memory
    begun = constants.TILE_CYCLES + constants.PART_SUM * oc * mr
    products += w.batch * panels * groups * (parts - 1) * begun
    if multiply_of(w, machine).is_packed:
        products *= _slower_than_direct(w, machine)
    gathered = w.batch * panels * mr * taps * each
    tasks = w.batch * blocks.count
    idle = -(-tasks // machine.cores) * machine.cores / tasks
    cycle = idle / machine.cores
    computing = (products + gathered) * cycle
    written = 0.0
    if parts > 1:
        # the whole depth of a block is written before the first part is read
        moved = w.batch * panels * size * (1 + constants.PANEL_WRITE)
        written = constants.TRAFFIC_SHOWN * moved / rate_of(machine, block * size)
    passed = max(0.0, model.activation_cycles * constants.SLOWER_STREAM - computing)
    # blocks are bands of rows: each thread reads all weights
    shared = Partition(machine, w.batch, blocks.count, 1, 1).weights_again(model.weight_bytes)
    return {
        "arithmetic": products * cycle,
        "transforms": gathered * cycle,
        "activations": passed + (w.batch * parts * blocks.panel_cycles + written) * cycle,
        "weights": model.weight_cycles + w.batch * blocks.weight_cycles * cycle + shared,
    }


def _slower_than_direct(workload: Conv2dWorkload, machine: Machine) -> float:
    """The factor of a layer's integer products."""
    if not machine.code.by_lane:
        return constants.BROADCAST_DWORDS
    gathers = flattened(workload) == workload and not multiply_of(workload, machine).spread
    return 1.0 if gathers else constants.BY_LANE
