"""Single operators of TVM's own ONNX importer (``tvm.relax.frontend.onnx``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.relax.frontend.onnx import from_onnx, onnx_frontend

from tvmconv.tvm_api.types import BlockBuilder, RelaxExpr


def convert(
    builder: BlockBuilder,
    operator: str,
    opset: int,
    operands: Sequence[RelaxExpr | None],
    attributes: dict[str, Any],
) -> RelaxExpr:
    """The importer's result for one node.

    The importer's public function accepts only whole models, and infers their shapes itself. Its
    converters are in a private table. The builder is inside a dataflow block. ``operator`` is of
    ONNX's default domain, and ``opset`` is the version of its operator set. Omitted operands are
    None. ``attributes`` are as protobuf stores them, and ``tvm_custom``, the importer's own.
    """
    converter = onnx_frontend._get_convert_map()[operator].get_converter(opset)
    # the last argument: graphs and parameters of subgraphs, which single operators have not
    result = converter(builder, onnx_frontend.onnx_input(operands), attributes, [{}, {}])
    return builder.normalize(result)
