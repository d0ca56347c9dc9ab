"""Direct convolution by products of bytes that are added in 16 bits, exactly.

AVX2 has no instruction that adds products of bytes to 32 bits. ``vpmaddubsw`` takes twice as many
products as ``vpmaddwd``, but saturates; weights that could make it do so are split by
:mod:`tvmconv.algorithms.integer.saturation`, and their excess takes steps of its own, or meet
complements of their data. Weights have one byte. Where a step reads is a table behind the weights:
steps of whatever tap or channel share a loop. There are two, one of steps whose products may be
added in 16 bits, in twos (:mod:`tvmconv.algorithms.integer.joined_steps`), and one of the others.
Data are read as they lie, and complemented in the second loop, or complements are made first: of a
tile of pixels (:mod:`tvmconv.algorithms.integer.packed_pixels`), or of a copy with padding
(:mod:`tvmconv.algorithms.integer.complemented_copy`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, dense_bytes_only
from tvmconv.algorithms.direct.direct import flattened
from tvmconv.algorithms.integer.byte_rows import PARTS, Rows, channels_read_by_words, regular_steps
from tvmconv.algorithms.integer.byte_steps import steps_of
from tvmconv.algorithms.integer.complemented_copy import complemented_copy, copied_words
from tvmconv.algorithms.integer.dwords import copied, copied_shape, copied_steps
from tvmconv.algorithms.integer.packed_pixels import (
    first_pixel,
    packed_pixels,
    packed_words,
    packs_tiles,
    pixels_of,
    words_of_block,
)
from tvmconv.algorithms.integer.saturation import MASKS, WORD, excess_steps, words
from tvmconv.algorithms.operands import Operands, output_shape
from tvmconv.core.config import Config
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.multiply import saturating_multiply
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# bits of an entry of the table of places that index `MASKS`
_MASK_BITS = 2


class DirectBytes(Algorithm):
    """Dense convolution of ``uint8`` by ``int8``.

    Knobs read by the expression: ``excess``, steps for what is cut off weights (kernels are exact
    for all weights that need no more); ``packed``, in how many orders of their words' bytes tiles
    of ``ow`` pixels are packed with their complements, 0 for none; where data are copied for the
    sake of padding, 1 for complements of the copy.
    """

    name = "direct_bytes"
    types: tuple[DataTypes, ...] = ()
    integers = True
    blocks = ("conv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Dense layers of bytes, where the processor has no exact products of them."""
        if saturating_multiply(machine) is None:
            return f"{machine.name} multiplies bytes exactly, or not with saturation"
        return dense_bytes_only(workload)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class; blocks ``conv2d`` (reduction) and ``output``, ``widen`` for a copy.

        A read behind the last index of a dimension is one of the next row, block or tap.
        """
        from tvmconv.operators.products import joined_dot, word
        from tvmconv.tvm_api import te, tirx

        saturating = saturating_multiply(machine)
        assert saturating is not None
        packed = self.packed_weight_shape(workload, machine, config)
        given = Operands.of(workload, machine, packed)
        rows, beside = Rows.of(workload, machine, config), config.int("packed") > 0
        reads = _packed_reads if packs_tiles(workload, config) else _plain_reads
        read = reads(given, config)
        part = te.reduce_axis((0, PARTS), "part")
        # no word has more excess than one
        step = te.reduce_axis((0, 2 * regular_steps(workload, machine)), "step")

        def number(row: Index, place: Expr) -> Expr:
            return word(given.weight[row, place, 0])

        def multiply(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            first, stop = (number(rows.starts, kb * PARTS + part + i) for i in (0, 1))
            # steps in twos, which the first part has, are half as many
            twos = 1 - part

            def present(value: Expr) -> Expr:
                count = (stop - first) >> twos
                return tirx.if_then_else(step < count, value, tirx.const(0, "int32"))

            def operands(offset: int) -> tuple[Expr, Expr]:
                row = first + (step << twos) + offset
                return present(number(rows.places, row)), present(word(given.weight[row, k, 0]))

            place, (entry, weight), (other, more) = (n, h, x), operands(0), operands(1)
            mask = None
            if not beside:
                mask = word(given.weight[rows.masks + (entry & (2**_MASK_BITS - 1)), k, 0]) * part
                entry, other = entry >> _MASK_BITS, other >> _MASK_BITS
            steps = (read(place, entry), weight), (read(place, other), more * twos)
            value = joined_dot(*steps, saturating.name, mask)
            missing = number(rows.missing + kb, k)
            return given.summed(value, [part, step], (n, kb, h, x, k), more=missing)

        def finished(total: Expr, place: tuple[Expr, ...]) -> Expr:
            return given.finished(total, place, begun=True)

        shape = output_shape(workload, machine)
        if not is_flat(workload, config):
            total = self.reduction(shape, multiply)
            output = te.compute(shape, lambda *at: finished(total[at], at), name="output")
            return given.arguments(output)
        flat = (*shape[:2], 1, shape[2] * shape[3], shape[4])
        total = self.reduction(flat, multiply)

        def finish(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            place = (n, kb, x // workload.out_width, x % workload.out_width, k)
            return finished(total[n, kb, h, x, k], place)

        row = te.compute(flat, finish, name="output")
        output = te.compute(
            shape,
            lambda n, kb, h, x, k: row[n, kb, 0, h * workload.out_width + x, k],
            name="unflatten",
        )
        return given.arguments(output)

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(rows, k, 4)``: see :class:`Rows`."""
        return (Rows.of(workload, machine, config).end, machine.channel_block, WORD)

    def excess_held(self, config: Config) -> tuple[int, int] | None:
        """The knob."""
        return _orders(config), config.int("excess")

    def suited(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> Config:
        """With as many steps as the weights need, if it has fewer."""
        needed = excess_steps(weight, machine.channel_block, _orders(config))
        return config.replace(excess=max(needed, config.int("excess")))

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Split and re-order an OIHW weight; raises :class:`WorkloadError` for too much excess."""
        shape = self.packed_weight_shape(workload, machine, config)
        lanes, most = shape[1], config.int("excess")
        if (needed := excess_steps(weight, lanes, _orders(config))) > most:
            raise WorkloadError(
                f"{workload}: excess={most} steps are too few for weights that need {needed}"
            )
        places = self._places(workload, machine, config)
        given = words(weight, lanes, channels_read_by_words(workload, machine))
        given = given.reshape(-1, len(places), lanes, WORD // 2, 2)
        beside = config.int("packed") > 0
        steps = steps_of(given, _orders(config), beside)
        step = copied_words(workload, machine) if beside else 1
        if packs_tiles(workload, config):
            step = packed_words(workload, machine, config.int("ow"), 1) // len(MASKS)
        masks = np.repeat(np.array(MASKS, np.int32), 0 if beside else lanes)
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
        """Where each regular step reads, without a mask."""
        w, lanes = workload, machine.channel_block
        size = copied_shape(w, machine)[2:4] if w.has_padding else (w.in_height, w.in_width)
        row, column, channel = np.meshgrid(
            np.arange(w.kernel_h) * w.dilation_h,
            np.arange(w.kernel_w) * w.dilation_w,
            np.arange(0, channels_read_by_words(w, machine), WORD),
            indexing="ij",
        )
        pixel = (channel // lanes * size[0] + row) * size[1] + column
        if packs_tiles(w, config):
            pixel = channel // lanes * config.int("ow")
        place = ((pixel * lanes + channel % lanes) // WORD).ravel().astype(np.int32)
        return place if config.int("packed") else place << _MASK_BITS

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The copies of data with padding, or the packed tiles of each thread."""
        if packs_tiles(workload, config):
            pixels = config.int("ow")
            tiles = -(-pixels_of(workload) // pixels)
            count = min(config.int("rows") or tiles, tiles)
            tasks = workload.batch * -(-tiles // count) * config.int("shares")
            alive = count * min(machine.cores, tasks)
            return WORD * packed_words(workload, machine, pixels, _orders(config)) * alive
        if not workload.has_padding:
            return 0
        plain = int(np.prod(copied_shape(workload, machine)))
        return plain * len(MASKS) if config.int("packed") else plain

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Padded channels and excess are multiplied, too."""
        steps = regular_steps(workload, machine) + config.int("excess")
        pixels = workload.out_planes * workload.out_height * workload.out_width
        outputs = machine.blocks(workload.out_channels) * machine.channel_block
        return pixels * outputs * steps * WORD

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Integers have none."""
        return 0.0


def _orders(config: Config) -> int:
    """Orders of a word's bytes that steps may take."""
    return max(config.int("packed"), 1)


def is_flat(workload: Conv2dWorkload, config: Config) -> bool:
    """Whether all pixels of an image are in one row."""
    return packs_tiles(workload, config) or flattened(workload) != workload


# the word at a place of the sums (image, row, column) and an entry of the table
Read = Callable[[tuple[Expr, Expr, Expr], Expr], Expr]


def _plain_reads(given: Operands, config: Config) -> Read:
    """Words of data as they lie, or of a copy with padding, with or without its complements.

    A read behind the last index of a dimension is one of the next row, block or tap.
    """
    from tvmconv.operators.products import word

    workload, machine = given.workload, given.machine
    w, copies = flattened(workload), workload.has_padding
    beside = config.int("packed") > 0
    source = given.data
    if copies:
        source = complemented_copy(given) if beside else copied(given, workload.types.data)
    steps = copied_steps(w) if copies else (1, 1)
    down, right = w.stride_h // steps[0], w.stride_w // steps[1]
    width = copied_shape(w, machine)[3] if copies else w.in_width

    def read(place: tuple[Expr, Expr, Expr], entry: Expr) -> Expr:
        n, h, x = place
        pixel = (h * down * width + x * right) * machine.channel_block
        if beside:
            return source[n, 0, 0, 0, 0, pixel // WORD + entry]
        return word(source[n, 0, 0, 0, pixel + entry * WORD])

    return read


def _packed_reads(given: Operands, config: Config) -> Read:
    """Words of packed tiles."""
    pixels = config.int("ow")
    source = packed_pixels(given, pixels, _orders(config))
    size = words_of_block(given.machine)

    def read(place: tuple[Expr, Expr, Expr], entry: Expr) -> Expr:
        n, _, x = place
        within = x - first_pixel(given.workload, x // pixels, pixels)
        return source[n, x // pixels, entry + within * size]

    return read
