"""im2col convolution as a packed matrix product.

The five-loop product of Goto and van de Geijn (GEBP) as FTEngine uses it (Tan 2023, chapter 4).
Pixels are the rows of the product, output channels its columns, and channels times taps the
reduction. The input matrix is gathered into packed panels of ``mr`` pixels,
``A[p / mr][channel block, tap][p mod mr][channel]``. A block of ``mc`` panels and ``kc`` channel
blocks is packed at a time, or all at once (``mc=0``), the classic im2col buffer.

INT8 layers have the same panels, of bytes or of the 16-bit integers that the CPU multiplies. The
packed product of Wen (2020, chapter 3) has tiles of ``mr=8`` and ``mr=4`` by 8 channels.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, images_only, reduction_axes
from tvmconv.algorithms.direct.channels import first_block, input_span
from tvmconv.algorithms.direct.direct import WholeBlocks
from tvmconv.algorithms.integer.dwords import Factors, is_negated
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import Operands, input_shape, split_outputs
from tvmconv.algorithms.padding import zero_unless
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor


class Im2col(Algorithm):
    """Convolution by one matrix product, from blocked or plain input.

    From blocked input a panel's innermost axis is the channel block (windows as columns). From
    plain NCHW input it has one element, so that pixels are contiguous (taps as columns).

    The expression reads the parameters ``mr``, the pixels of a panel, and ``oc``. A register tile
    and a group of packed weights have ``oc`` output blocks. ``mc`` and ``kc``: see the module.
    """

    name = "im2col"
    integers = True
    blocks = ("pack", "conv2d", "output")
    stages = (("packing", ("pack",)), ("product", ("conv2d", "output")))

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Depthwise layers, and plain input with groups, INT8 or matrix instructions."""
        if workload.is_depthwise:
            return "a depthwise layer would multiply by zeros; use the depthwise algorithm"
        if workload.data_layout == "NCHW" and workload.groups > 1:
            return f"from plain NCHW it has no groups; this layer has {workload.groups}"
        if workload.types.is_integer:
            if workload.data_layout == "NCHW":
                return "from plain NCHW it computes in float32; use direct_first"
            if multiply_of(workload, machine).is_matrix:
                return "its panels have single pixels, and this CPU multiplies pairs; use direct"
        return images_only(workload)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class; pixels are numbered over the image, and padded to whole panels."""
        from tvmconv.tvm_api import te

        w, lanes = workload, machine.channel_block
        mr, oc = config.int("mr"), config.int("oc")
        plain = w.data_layout == "NCHW"
        packed = self.packed_weight_shape(w, machine, config)
        given = Operands.of(w, machine, packed)
        factors, element = Factors(given), panel_type(w, machine)
        packs, negated = multiply_of(w, machine).is_packed, is_negated(w, machine)
        border = None if given.zero is None else given.zero[0]
        in_blocks, out_blocks = input_shape(w, machine)[1], machine.blocks(w.out_channels)
        pixels = w.out_height * w.out_width
        panels = -(-pixels // mr)

        def gather(n: Expr, t: Expr, cb: Expr, r: Expr, s: Expr, i: Expr, c: Expr) -> Expr:
            p = t * mr + i
            y = p // w.out_width * w.stride_h + r * w.dilation_h - w.pad_top
            x = p % w.out_width * w.stride_w + s * w.dilation_w - w.pad_left
            inside = [p < pixels] if pixels % mr else []
            if w.has_padding:
                inside += [y >= 0, y < w.in_height, x >= 0, x < w.in_width]
            place = (n, cb, y, x, *(() if plain else (c,)))
            value = zero_unless(inside, given.data[place], border).astype(element)
            return -value if negated else value

        shape = (w.batch, panels, in_blocks, w.kernel_h, w.kernel_w, mr, 1 if plain else lanes)
        panel = te.compute(shape, gather, name="pack")
        # each part of a reduction would begin with the bias
        begun = not config.int("kc")
        cb = te.reduce_axis((0, packed[3 if packs else 1]), "cb")
        r, s, c = reduction_axes(r=w.kernel_h, s=w.kernel_w, c=packed[4])

        def multiply(n: Expr, kb: Expr, p: Expr, k: Expr) -> Expr:
            block = (0 if plain else first_block(workload, machine, kb)) + cb
            place = (n, p // mr, block, r, s, p % mr, c)
            value = factors.value(panel, place, moved=config.int("mc") > 0)
            order = (r, s, cb) if packs else (cb, r, s)
            product = factors.product(value, factors.weight(kb // oc, *order, c, kb % oc, k))
            axes = [cb, r, s, c]
            return given.summed(product, axes, (n, kb, 0, 0, k)) if begun else te.sum(product, axes)

        total = self.reduction((w.batch, out_blocks, panels * mr, lanes), multiply)

        def finish(n: Expr, kb: Expr, p: Expr, k: Expr) -> Expr:
            place = (n, kb, p // w.out_width, p % w.out_width, k)
            return given.finished(total[n, kb, p, k], place, begun)

        rows = te.compute((w.batch, out_blocks, pixels, lanes), finish, name="output")
        return given.arguments(given.unflattened(rows))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/nr, C/c, R, S, c, oc, k)`` with ``nr = oc * k``; ``c`` is 1 for plain input.

        Blocked input has the shape of direct convolution.
        """
        if workload.data_layout == "NCHWc":
            return WholeBlocks().packed_weight_shape(workload, machine, config)
        oc = config.int("oc")
        groups = -(-machine.blocks(workload.out_channels) // oc)
        taps = (workload.kernel_h, workload.kernel_w)
        return (groups, workload.in_channels, *taps, 1, oc, machine.channel_block)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight into :meth:`packed_weight_shape`."""
        if workload.data_layout == "NCHWc":
            return WholeBlocks().pack_weight(weight, workload, machine, config)
        groups, *_, oc, lanes = self.packed_weight_shape(workload, machine, config)
        split = split_outputs(weight[..., None], groups, oc, lanes)
        return np.ascontiguousarray(split.transpose(0, 3, 4, 5, 6, 1, 2))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Panels of one block on each core, or of all pixels; with ``kc`` also the sums."""
        w, lanes, mr = workload, machine.channel_block, config.int("mr")
        plain = w.data_layout == "NCHW"
        panels = -(-w.out_height * w.out_width // mr)
        mc, kc = config.int("mc"), config.int("kc")
        channels = w.in_channels if plain else machine.blocks(w.in_channels) * lanes
        alive = w.batch * panels if mc == 0 else mc * min(machine.cores, w.batch * (panels // mc))
        depth = channels * w.kernel_h * w.kernel_w
        if kc and mc:
            depth = kc * (1 if plain else lanes) * w.kernel_h * w.kernel_w
        sums = machine.blocks(w.out_channels) * lanes if kc else 0
        each = itemsize(panel_type(w, machine)) * depth + itemsize(w.types.accumulator) * sums
        return mr * alive * each

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """MACs with padded channels and pixels."""
        mr = config.int("mr")
        pixels = -(-workload.out_height * workload.out_width // mr) * mr
        shape = self.packed_weight_shape(workload, machine, config)
        return workload.batch * pixels * prod(shape)


def panel_type(workload: Conv2dWorkload, machine: Machine) -> str:
    """Type of a panel's elements: the data's, or the type to which INT8 data are widened."""
    return multiply_of(workload, machine).element


def depth_blocks(workload: Conv2dWorkload, machine: Machine) -> int:
    """Extent of the reduction's outermost axis, which ``kc`` cuts."""
    if workload.data_layout == "NCHW":
        return workload.in_channels
    return input_span(workload, machine)
