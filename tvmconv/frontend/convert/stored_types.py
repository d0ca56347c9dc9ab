"""Changes of the element type, also to and from types that no kernel computes with."""

from __future__ import annotations

import numpy as np

from tvmconv.core.stored_types import SMALL_INTEGERS, STORED, numpy_type
from tvmconv.frontend.convert.elementwise import negated
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.operators.stored_types import bit_cast, decode, encode
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op
_SIGNED_FIRST = {"uint8": "int32", "uint16": "int32", "uint32": "int64"}


@converts("Cast", "CastLike", attrs="round_mode saturate to")
def cast(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Change of element type; the target type is the output's."""
    x, source = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    target = e.dtype(node.outputs[0])
    if source in STORED:
        x, source = _decoded(e, x, source), STORED[source].wide
    if target in STORED:
        return _encoded(e, node, x, source, target)
    return x if source == target else _cast(e, x, source, target)


def _cast(e: RelaxWriter, x: RelaxExpr, source: str, target: str) -> RelaxExpr:
    if target == "bool" and source != "bool":
        # a NaN is not zero either, but in TVM it does not differ from any number
        return negated(e.emit(op.equal(x, constant(np.zeros((), source))), "is_zero"))
    if source.startswith("float") and target in _SIGNED_FIRST:
        # ONNX leaves negative numbers open; onnxruntime wraps them
        x = e.emit(op.astype(x, _SIGNED_FIRST[target]), "signed")
    return op.astype(x, target)


def _decoded(e: RelaxWriter, x: RelaxExpr, source: str) -> RelaxExpr:
    if source == "bfloat16" or source in SMALL_INTEGERS:
        call = e.builder.call_te(lambda a: decode(a, source), x, primfunc_name_hint="decode")
        return e.emit(call, "decoded")
    codes = np.arange(1 << STORED[source].bits, dtype=np.uint8)
    values = codes.view(numpy_type(source)).astype(np.float32)
    index = e.emit(op.astype(x, "int32"), "code")
    return e.emit(op.take(constant(values), index, 0, mode="clip"), "decoded")


def _encoded(e: RelaxWriter, node: OnnxNode, x: RelaxExpr, source: str, target: str) -> RelaxExpr:
    saturate = bool(node.attrs.get("saturate", 1))
    round_mode = str(node.attrs.get("round_mode", "up"))
    if round_mode not in ("up", "down", "nearest"):
        raise node.error(f"round_mode={round_mode!r} is unknown", "use 'up', 'down' or 'nearest'")
    number = "int32" if target in SMALL_INTEGERS else "float32"
    if source != number:
        x = e.emit(_cast(e, x, source, number), "number")
    return e.builder.call_te(
        lambda a: encode(a, target, saturate, round_mode), x, primfunc_name_hint="encode"
    )


@converts("BitCast", attrs="to", inputs=1)
def reinterpret(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The same bits as another element type."""
    source, target = e.dtype(node.inputs[0]), e.dtype(node.outputs[0])
    sizes = [numpy_type(dtype).itemsize for dtype in (source, target)]
    short = [dtype for dtype in (source, target) if dtype in STORED or dtype == "float16"]
    if short or sizes[0] != sizes[1]:
        raise node.error(
            f"the bits of {source} as {target} are not supported",
            "use types of the same size that tvmconv computes with",
        )
    x = e.value(node.inputs[0])
    return e.builder.call_te(lambda a: bit_cast(a, target), x, primfunc_name_hint="bit_cast")
