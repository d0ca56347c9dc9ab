"""Fully connected layers: a matrix times constant weights that are packed at build time."""

from __future__ import annotations

from tvmconv.algorithms.base import Algorithm, FloatArray
from tvmconv.algorithms.operands import input_shape, output_shape
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.operators.dense import DenseTile, dense, pack_dense_weight
from tvmconv.tvm_api.types import Tensor


class Dense(Algorithm):
    """A product without run-time packing: each weight is read once for the rows of a tile.

    The expression reads the parameters ``rows`` and ``width``, the register tile, and ``splits``,
    the parts of the inner dimension that are summed separately. ``bias`` is ``(K,)``, and a
    residual is a matrix as the output.
    """

    name = "dense"
    matrices = True
    blocks = ("dense", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Nothing: every FP32 product."""
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class and :func:`tvmconv.operators.dense.dense`."""
        from tvmconv.tvm_api import te

        w, written = workload, output_shape(workload, machine)
        packed = self.packed_weight_shape(w, machine, config)
        shapes = {"data": input_shape(w, machine), "weight": packed}
        if w.has("bias"):
            shapes["bias"] = written[1:]
        if w.has("add"):
            shapes["residual"] = written
        given = [te.placeholder(shape, "float32", name=name) for name, shape in shapes.items()]
        tile = tile_of(machine, config)
        return [*given, dense(*given, outputs=w.out_channels, tile=tile, epilogue=w.epilogue)]

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(ceil(K / n), C, n)``; ``n`` is ``width`` times the lanes."""
        width = tile_of(machine, config).width
        return (-(-workload.out_channels // width), workload.in_channels, width)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Re-order a ``(K, C, 1, 1)`` weight into :meth:`packed_weight_shape`."""
        matrix = weight.reshape(workload.out_channels, workload.in_channels).T
        return pack_dense_weight(matrix, tile_of(machine, config))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The sums of padded tiles, once for each part of the inner dimension."""
        tile = tile_of(machine, config)
        return 4 * tile.splits * self._sums(workload, tile) if tile.padded else 0

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """MACs of whole tiles."""
        return self._sums(workload, tile_of(machine, config)) * workload.in_channels

    def _sums(self, workload: Conv2dWorkload, tile: DenseTile) -> int:
        """Accumulators of all tiles."""
        rows = workload.batch
        if tile.padded:
            rows = -(-rows // tile.rows) * tile.rows
        return rows * -(-workload.out_channels // tile.width) * tile.width


def tile_of(machine: Machine, config: Config) -> DenseTile:
    """The tile of a configuration."""
    rows, vectors, splits = (config.int(name) for name in ("rows", "width", "splits"))
    padded = splits > 1 or bool(config.get("vectors", 0))
    return DenseTile(rows, vectors, splits, machine.lanes, padded)
