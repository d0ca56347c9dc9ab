"""Attention as one call."""

from __future__ import annotations

from math import prod

from tvmconv.core.decision import ATTENTION_CALL
from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.ir import Node
from tvmconv.operators.attention import attention
from tvmconv.tir.annotations import TRANSPOSE
from tvmconv.tvm_api.types import Tensor


def emit_attention(emitter: Emitter, node: Node) -> None:
    """Both products and the softmax between them."""
    form, tile = node.attrs["form"], node.attrs["tile"]
    args = [emitter.reshape(emitter.as_plain(v), (prod(v.dims),)) for v in node.inputs]

    def expression(*tensors: Tensor) -> Tensor:
        return attention(form, tile, *tensors, transposed=TRANSPOSE)

    rows, depth, columns, width = form.sizes
    flops = 2 * form.heads * rows * columns * (depth + width)
    note = (
        f"{form.heads} heads, scores of {rows}x{columns} by {tile.rows} rows in the cache: "
        f"predicted {node.attrs['gain']:.2f} times as fast as products and softmax"
    )
    record = CallRecord(node.layer, ATTENTION_CALL, flops=flops, note=note)
    emitter.plain[node.output] = emitter.call(expression, args, record, opaque=True)
