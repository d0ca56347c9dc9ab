"""Direct INT8 convolution by ``vpmaddubsw``, exact in spite of its saturation.

AVX2 has no instruction that adds INT8 products to 32 bits. ``vpmaddubsw`` multiplies twice as many
elements as ``vpmaddwd``, but saturates. :mod:`tvmconv.algorithms.integer.saturation` makes weights
safe: their excess takes additional steps, or they are multiplied with complemented data. Weights
take one byte.

A table after the weights has the data offset of each step, so that steps of any tap and channel
share a loop. One loop has joined steps, whose products are added in 16 bits
(:mod:`tvmconv.algorithms.integer.joined_steps`). The other loop has the remaining steps.

Data are read in place, and complemented in the second loop. Or complements are stored first: for a
tile of positions (:mod:`tvmconv.algorithms.integer.packed_pixels`), or for a padded copy
(:mod:`tvmconv.algorithms.integer.complemented_copy`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, dense_bytes_only
from tvmconv.algorithms.direct.direct import flattened
from tvmconv.algorithms.integer.byte_rows import PARTS, Rows, channels_in_dwords, regular_steps
from tvmconv.algorithms.integer.byte_steps import steps_of
from tvmconv.algorithms.integer.complemented_copy import complemented_copy, copied_dwords
from tvmconv.algorithms.integer.dwords import copied, copied_shape, copied_steps
from tvmconv.algorithms.integer.packed_pixels import (
    dwords_of_block,
    first_pixel,
    packed_dwords,
    packed_pixels,
    packs_tiles,
    pixels_of,
)
from tvmconv.algorithms.integer.saturation import DWORD, MASKS, dwords, excess_steps
from tvmconv.algorithms.operands import Operands, output_shape
from tvmconv.core.config import Config
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.multiply import saturating_multiply
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# low bits of a table entry that are an index of `MASKS`
_MASK_BITS = 2


class DirectBytes(Algorithm):
    """Dense convolution of ``uint8`` by ``int8``.

    Schedule parameters that the expression reads:

    - ``excess``: steps for the excess of weights. A kernel is exact for all weights that need no
      more.
    - ``packed``: number of byte permutations in which tiles of ``ow`` positions are packed with
      their complements; 0 for no packing. If data are copied for padding, 1 stores complements of
      the copy.
    """

    name = "direct_bytes"
    types: tuple[DataTypes, ...] = ()
    integers = True
    blocks = ("conv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Dense INT8 layers, if the CPU has a saturating instruction and no exact one."""
        if saturating_multiply(machine) is None:
            return f"{machine.name} multiplies bytes exactly, or not with saturation"
        return dense_bytes_only(workload)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class; blocks ``conv2d`` (reduction) and ``output``, ``widen`` for a copy.

        A read beyond the end of a dimension reads the next row, block or tap.
        """
        from tvmconv.operators.products import joined_dot, word
        from tvmconv.tvm_api import te, tirx

        saturating = saturating_multiply(machine)
        assert saturating is not None
        packed = self.packed_weight_shape(workload, machine, config)
        given = Operands.of(workload, machine, packed)
        rows, complements = Rows.of(workload, machine, config), config.int("packed") > 0
        reads = _packed_reads if packs_tiles(workload, config) else _plain_reads
        read = reads(given, config)
        part = te.reduce_axis((0, PARTS), "part")
        # each dword has at most one step of excess
        step = te.reduce_axis((0, 2 * regular_steps(workload, machine)), "step")

        def number(row: Index, place: Expr) -> Expr:
            return word(given.weight[row, place, 0])

        def multiply(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            first, stop = (number(rows.starts, kb * PARTS + part + i) for i in (0, 1))
            # the first part has joined pairs of steps, hence half as many iterations
            pairs = 1 - part

            def present(value: Expr) -> Expr:
                count = (stop - first) >> pairs
                return tirx.if_then_else(step < count, value, tirx.const(0, "int32"))

            def operands(offset: int) -> tuple[Expr, Expr]:
                row = first + (step << pairs) + offset
                return present(number(rows.places, row)), present(word(given.weight[row, k, 0]))

            place, (entry, weight), (other, more) = (n, h, x), operands(0), operands(1)
            mask = None
            if not complements:
                mask = word(given.weight[rows.masks + (entry & (2**_MASK_BITS - 1)), k, 0]) * part
                entry, other = entry >> _MASK_BITS, other >> _MASK_BITS
            steps = (read(place, entry), weight), (read(place, other), more * pairs)
            value = joined_dot(*steps, saturating.name, mask)
            missing = number(rows.missing + kb, k)
            return given.summed(value, [part, step], (n, kb, h, x, k), more=missing)

        shape = output_shape(workload, machine)
        if is_flat(workload, config):
            flat = (*shape[:2], 1, shape[2] * shape[3], shape[4])
            output = given.row_output(self.reduction(flat, multiply), begun=True)
            return given.arguments(output)
        total = self.reduction(shape, multiply)
        output = te.compute(
            shape, lambda *at: given.finished(total[at], at, begun=True), name="output"
        )
        return given.arguments(output)

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(rows, k, 4)``: see :class:`Rows`."""
        return (Rows.of(workload, machine, config).end, machine.channel_block, DWORD)

    def excess_held(self, config: Config) -> tuple[int, int] | None:
        """The byte permutations and excess steps of a configuration."""
        return _orders(config), config.int("excess")

    def suited(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> Config:
        """The configuration with at least as many excess steps as the weights need."""
        needed = excess_steps(weight, machine.channel_block, _orders(config))
        return config.replace(excess=max(needed, config.int("excess")))

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Split and reorder an OIHW weight; raises :class:`WorkloadError` for too much excess."""
        shape = self.packed_weight_shape(workload, machine, config)
        lanes, most = shape[1], config.int("excess")
        if (needed := excess_steps(weight, lanes, _orders(config))) > most:
            raise WorkloadError(
                f"cannot pack weights of {workload}: excess={most}. Expected excess={needed} or "
                "more. Set excess to this number."
            )
        places = self._places(workload, machine, config)
        given = dwords(weight, lanes, channels_in_dwords(workload, machine))
        given = given.reshape(-1, len(places), lanes, DWORD // 2, 2)
        complements = config.int("packed") > 0
        steps = steps_of(given, _orders(config), complements)
        step = copied_dwords(workload, machine) if complements else 1
        if packs_tiles(workload, config):
            step = packed_dwords(workload, machine, config.int("ow"), 1) // len(MASKS)
        masks = np.repeat(np.array(MASKS, np.int32), 0 if complements else lanes)
        packed = np.zeros(shape, np.int8)
        begin = Rows.of(workload, machine, config)
        for row, values in (
            (0, steps.weights),
            (begin.places, places[steps.places] + (steps.variants * step).astype(np.int32)),
            (begin.starts, steps.starts.astype(np.int32)),
            (begin.masks, masks),
            (begin.missing, steps.missing.astype(np.int32)),
        ):
            flat = np.ascontiguousarray(values).reshape(-1).view(np.int8)
            packed[row:].reshape(-1)[: len(flat)] = flat
        return packed  # type: ignore[return-value]

    @staticmethod
    def _places(workload: Conv2dWorkload, machine: Machine, config: Config) -> np.ndarray:
        """The offset that each step without excess reads, without a mask."""
        w, lanes = workload, machine.channel_block
        size = copied_shape(w, machine)[2:4] if w.has_padding else (w.in_height, w.in_width)
        row, column, channel = np.meshgrid(
            np.arange(w.kernel_h) * w.dilation_h,
            np.arange(w.kernel_w) * w.dilation_w,
            np.arange(0, channels_in_dwords(w, machine), DWORD),
            indexing="ij",
        )
        pixel = (channel // lanes * size[0] + row) * size[1] + column
        if packs_tiles(w, config):
            pixel = channel // lanes * config.int("ow")
        place = ((pixel * lanes + channel % lanes) // DWORD).ravel().astype(np.int32)
        return place if config.int("packed") else place << _MASK_BITS

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The copies of data with padding, or the packed tiles of each thread."""
        if packs_tiles(workload, config):
            pixels = config.int("ow")
            tiles = -(-pixels_of(workload) // pixels)
            count = min(config.int("rows") or tiles, tiles)
            tasks = workload.batch * -(-tiles // count) * config.int("shares")
            alive = count * min(machine.cores, tasks)
            return DWORD * packed_dwords(workload, machine, pixels, _orders(config)) * alive
        if not workload.has_padding:
            return 0
        plain = int(np.prod(copied_shape(workload, machine)))
        return plain * len(MASKS) if config.int("packed") else plain

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """MACs with padded channels and excess."""
        steps = regular_steps(workload, machine) + config.int("excess")
        pixels = workload.out_planes * workload.out_height * workload.out_width
        outputs = machine.blocks(workload.out_channels) * machine.channel_block
        return pixels * outputs * steps * DWORD


def _orders(config: Config) -> int:
    """The number of byte permutations that steps may use."""
    return max(config.int("packed"), 1)


def is_flat(workload: Conv2dWorkload, config: Config) -> bool:
    """Whether all positions of an image form one row."""
    return packs_tiles(workload, config) or flattened(workload) != workload


# (position of the accumulators as image, row, column; table entry) -> the dword there
Read = Callable[[tuple[Expr, Expr, Expr], Expr], Expr]


def _plain_reads(given: Operands, config: Config) -> Read:
    """Reads dwords of the data, or of a padded copy with or without complements.

    A read beyond the end of a dimension reads the next row, block or tap.
    """
    from tvmconv.operators.products import word

    workload, machine = given.workload, given.machine
    w, copies = flattened(workload), workload.has_padding
    complements = config.int("packed") > 0
    source = given.data
    if copies:
        source = complemented_copy(given) if complements else copied(given, workload.types.data)
    steps = copied_steps(w) if copies else (1, 1)
    down, right = w.stride_h // steps[0], w.stride_w // steps[1]
    width = copied_shape(w, machine)[3] if copies else w.in_width

    def read(place: tuple[Expr, Expr, Expr], entry: Expr) -> Expr:
        n, h, x = place
        pixel = (h * down * width + x * right) * machine.channel_block
        if complements:
            return source[n, 0, 0, 0, 0, pixel // DWORD + entry]
        return word(source[n, 0, 0, 0, pixel + entry * DWORD])

    return read


def _packed_reads(given: Operands, config: Config) -> Read:
    """Reads dwords of packed tiles."""
    pixels = config.int("ow")
    source = packed_pixels(given, pixels, _orders(config))
    size = dwords_of_block(given.machine)

    def read(place: tuple[Expr, Expr, Expr], entry: Expr) -> Expr:
        n, _, x = place
        within = x - first_pixel(given.workload, x // pixels, pixels)
        return source[n, x // pixels, entry + within * size]

    return read
