"""Fully connected layers with constant weights, packed at build time.

The packed weight ``(NB, K, v * c)`` has ``v`` adjacent vectors of outputs for every input. A
matrix-vector product reads it once, contiguously, with ``v`` independent accumulators. A product
with several rows uses each loaded vector once per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.operators.epilogue import apply_epilogue
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class DenseTile:
    """The tiling of a fully connected layer.

    The register tile is ``rows`` rows of the data times ``vectors`` vectors of outputs, of
    ``lanes`` FP32 values each. Threads sum ``splits`` parts of the inner dimension separately.
    With ``padded``, all tiles have whole rows, and their sums are stored before the epilogue.
    """

    rows: int
    vectors: int
    splits: int
    lanes: int
    padded: bool = True

    @property
    def width(self) -> int:
        """Outputs of one tile."""
        return self.vectors * self.lanes


def pack_dense_weight(weight: FloatArray, tile: DenseTile) -> FloatArray:
    """``(K, N)`` to ``(ceil(N / width), K, width)``, padded with zeros."""
    inputs, outputs = weight.shape
    blocks = -(-outputs // tile.width)
    padded = np.zeros((inputs, blocks * tile.width), np.float32)
    padded[:, :outputs] = weight
    return np.ascontiguousarray(padded.reshape(inputs, blocks, tile.width).transpose(1, 0, 2))


def block_flattened_weight(
    weight: FloatArray, channels: int, height: int, width: int, lanes: int
) -> FloatArray:
    """Reorder the rows of a weight that follows a flattened ``(C, H, W)`` image.

    The result ``(ceil(C / lanes) * H * W * lanes, N)`` follows the flattened blocked image
    ``(CB, H, W, c)`` instead, so that flattening moves no data. Rows of surplus lanes are zero.
    """
    outputs = weight.shape[1]
    blocks = -(-channels // lanes)
    padded = np.zeros((blocks * lanes, height, width, outputs), np.float32)
    padded[:channels] = weight.reshape(channels, height, width, outputs)
    image = padded.reshape(blocks, lanes, height, width, outputs).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(image).reshape(-1, outputs)


def dense(
    data: Tensor,
    weight: Tensor,
    *rest: Tensor,
    outputs: int,
    tile: DenseTile,
    epilogue: Sequence[EpilogueOp] = (),
) -> Tensor:
    """``epilogue(data @ weight)`` with a packed weight.

    ``data`` is ``(M, K)``, and the weight from :func:`pack_dense_weight`. ``rest`` is
    the bias ``(N,)`` if the epilogue has ``bias``, then the residual ``(M, N)`` if it has ``add``.
    ``outputs`` is ``N``. For the tile see :func:`tvmconv.costs.cpu.products.dense_tile`.
    """
    kinds = [step.kind for step in epilogue]
    others = list(rest)
    bias = others.pop(0) if "bias" in kinds else None
    residual = others.pop(0) if "add" in kinds else None
    batch = int(data.shape[0])
    blocks, inputs, width = (int(d) for d in weight.shape)
    part = inputs // tile.splits
    padded = -(-batch // tile.rows) * tile.rows if tile.padded else batch
    k = te.reduce_axis((0, part), "k")

    def read(m: Expr, position: Expr) -> Expr:
        return data[m if padded == batch else tirx.min(m, batch - 1), position]

    total = te.compute(
        (tile.splits, padded, blocks, tile.vectors, tile.lanes),
        lambda s, m, b, v, c: te.sum(
            read(m, s * part + k) * weight[b, s * part + k, v * tile.lanes + c], axis=k
        ),
        name="dense",
    )

    def element(m: Expr, n: Expr) -> Expr:
        place = (m, n // width, n % width // tile.lanes, n % tile.lanes)
        value = total[(0, *place)]
        for s in range(1, tile.splits):
            value = value + total[(s, *place)]
        return apply_epilogue(
            value,
            epilogue,
            bias[n] if bias is not None else None,
            residual[m, n] if residual is not None else None,
        )

    return te.compute((batch, outputs), element, name="output")
