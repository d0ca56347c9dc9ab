"""Direct INT8 convolution by matrix multiplications in tile registers (AMX).

One instruction multiplies up to 16 positions, of 64 bytes each, by the weights of these bytes for a
block of 16 outputs. The image is copied so that the bytes of a position are contiguous
(:mod:`~tvmconv.algorithms.integer.tile_copies`). Weights are packed in the order of the products.

Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20 (Intel AMX).
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, dense_bytes_only, reduction_axes
from tvmconv.algorithms.integer.dwords import WIDEN
from tvmconv.algorithms.integer.tile_copies import is_pixelwise, padded_plane, tile_copy, tiles_of
from tvmconv.algorithms.operands import DWORD_BYTES, Operands, split_outputs
from tvmconv.core.config import Config
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# pieces of a copy up to this size are on the stack
MOST_ON_STACK = 16 * 1024


def copies_pieces(workload: Conv2dWorkload, config: Config) -> bool:
    """Whether a piece of the image is copied before its tiles, not the whole image."""
    return is_pixelwise(workload) and config.int("rows") > 0


def copied_bytes(workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
    """Bytes of the copy, or of a piece of it."""
    copy = tile_copy(workload, machine)
    if not copies_pieces(workload, config):
        return copy.bytes(config)
    pixels = config.int("rows") * config.int("side") * config.int("ow")
    return copy.bytes(config) // (workload.batch * padded_plane(workload, config)[1]) * pixels


class DirectTiles(Algorithm):
    """Dense convolution of ``uint8`` by ``int8``.

    Schedule parameters that the expression reads:

    - ``oc``: output blocks of a group of tiles,
    - ``oh``: rows of a group,
    - ``ow``: positions of a tile,
    - ``side``: tiles next to each other.

    Accumulators are computed for whole groups, and stored where the output has them.
    """

    name = "direct_tiles"
    types: tuple[DataTypes, ...] = ()
    integers = True
    blocks = (WIDEN, "conv2d", "sums", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Dense INT8 layers, if the CPU has AMX."""
        if machine.tiles is None:
            return f"{machine.name} has no AMX tiles (amx_int8)"
        return dense_bytes_only(workload)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class; blocks ``widen`` (the copy), ``conv2d``, ``sums`` and ``output``."""
        from tvmconv.tvm_api import te, tirx

        w, oc, form = workload, config.int("oc"), tile_copy(workload, machine)
        packed = self.packed_weight_shape(w, machine, config)
        given = Operands.of(w, machine, packed)
        copy = form.copied(given, config)
        steps = [te.reduce_axis((0, n), f"step{i}") for i, n in enumerate(form.steps)]
        word, byte = reduction_axes(word=packed[-3], byte=DWORD_BYTES)
        last = machine.blocks(w.out_channels) - 1

        def multiply(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            place = form.place(n, h, x, steps, config, word * DWORD_BYTES + byte)
            tap = given.weight[(kb // oc, *steps, kb % oc, word, k, byte)]
            inside = tirx.min(kb, last) if (last + 1) % oc else kb
            axes = [*steps, word, byte]
            return given.summed(given.product(copy[place], tap), axes, (n, inside, h, x, k))

        shape = (w.batch, packed[0] * oc, *padded_plane(w, config), machine.channel_block)
        total = self.reduction(shape, multiply)
        sums = te.compute(shape, lambda *place: total[place], name="sums")
        joined = is_pixelwise(w)
        return given.arguments((given.row_output if joined else given.output)(sums, begun=True))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/(oc*16), *steps, oc, 16 dwords, 16 outputs, 4)``, with the steps of the copy."""
        oc, dwords = config.int("oc"), tiles_of(machine).row_bytes // DWORD_BYTES
        groups = -(-machine.blocks(workload.out_channels) // oc)
        steps = tile_copy(workload, machine).steps
        return (groups, *steps, oc, dwords, machine.channel_block, DWORD_BYTES)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Reorder an OIHW weight to :meth:`packed_weight_shape`, padded with zeros."""
        groups, *_, oc, _words, lanes, _ = self.packed_weight_shape(workload, machine, config)
        rows = tile_copy(workload, machine).rows(weight)
        packed = split_outputs(rows, groups, oc, lanes)
        # (groups, oc, lanes, *steps, dwords, 4)
        inner = packed.ndim - 2
        order = (0, *range(3, inner), 1, inner, 2, inner + 1)
        return np.ascontiguousarray(packed.transpose(order))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The copy, or each thread's pieces of it if they are too large for the stack."""
        size = copied_bytes(workload, machine, config)
        if not copies_pieces(workload, config):
            return size
        return size * machine.cores if size > MOST_ON_STACK else 0

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """MACs of whole tiles."""
        shape = self.packed_weight_shape(workload, machine, config)
        return workload.batch * prod(padded_plane(workload, config)) * prod(shape)
