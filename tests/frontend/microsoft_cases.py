"""Random nodes of onnxruntime's operator set, which its optimizer and its tools write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from onnx import helper, numpy_helper

Array = np.ndarray


@dataclass
class Case:
    """One node: its operands, of which those at the indices ``keep`` are inputs of the model.

    ``None`` is an absent operand. ``outputs`` tells which outputs the node has.
    """

    op: str
    operands: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    keep: Sequence[int] = (0,)
    outputs: Sequence[int] = (1,)
    domain: str = "com.microsoft"
    opset: int = 17
    tolerance: float = 2e-5

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """A model of the node, whose outputs have no types yet, and feeds."""
        values = {f"i{i}": np.asarray(v) for i, v in enumerate(self.operands) if v is not None}
        feeds = {f"i{i}": values[f"i{i}"] for i in self.keep if f"i{i}" in values}
        names = [f"i{i}" if f"i{i}" in values else "" for i in range(len(self.operands))]
        results = [f"o{i}" if wanted else "" for i, wanted in enumerate(self.outputs)]
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in feeds.items()
        ]
        graph = helper.make_graph(
            [helper.make_node(self.op, names, results, "fused", domain=self.domain, **self.attrs)],
            "test",
            inputs,
            [onnx.ValueInfoProto(name=name) for name in results if name],
            [numpy_helper.from_array(v, n) for n, v in values.items() if n not in feeds],
        )
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=8), feeds


def _f(r: Generator, *shape: int) -> Array:
    return r.standard_normal(shape).astype(np.float32)


def _scales(r: Generator, *shape: int) -> Array:
    return np.asarray(r.uniform(0.01, 0.2, shape), np.float32)


def _bytes(r: Generator, *shape: int) -> Array:
    return np.asarray(r.integers(0, 255, shape), np.uint8)


def _signed(r: Generator, *shape: int) -> Array:
    return np.asarray(r.integers(-127, 127, shape), np.int8)


def _maybe(r: Generator, value: Any) -> Any:
    return value if r.integers(2) else None


def _one(r: Generator, *options: Any) -> Any:
    return options[r.integers(len(options))]


def fused_conv(r: Generator) -> Case:
    attrs = {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1]}
    name, values = _one(
        r, ("", ()), ("Relu", ()), ("Tanh", ()), ("Sigmoid", ()), ("LeakyRelu", (0.2,)),
        ("Clip", (-0.5, 0.7)), ("HardSigmoid", (0.3, 0.4)),
    )  # fmt: skip
    if name:
        attrs |= {"activation": name} | ({"activation_params": values} if values else {})
    operands = [_f(r, 1, 4, 9, 8), _f(r, 6, 2, 3, 3), _f(r, 6), _maybe(r, _f(r, 1, 6, 5, 8))]
    return Case("FusedConv", operands, attrs, keep=(0, 3))


def fused_gemm(r: Generator) -> Case:
    name = _one(r, "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "HardSigmoid", "Softplus",
                "Softsign", "ThresholdedRelu")  # fmt: skip
    attrs = {"transA": int(r.integers(2)), "transB": int(r.integers(2)), "alpha": 0.5, "beta": 2.0}
    attrs["activation"] = name
    if name in ("LeakyRelu", "Elu", "HardSigmoid", "ThresholdedRelu"):
        attrs["activation_alpha"] = 0.3
    if name == "HardSigmoid":
        attrs["activation_beta"] = 0.4
    a = _f(r, 5, 3) if attrs["transA"] else _f(r, 3, 5)
    b = _f(r, 7, 5) if attrs["transB"] else _f(r, 5, 7)
    return Case("FusedGemm", [a, b, _maybe(r, _f(r, 7))], attrs)


def fused_matmul(r: Generator) -> Case:
    flags = dict(zip(("transA", "transB", "transBatchA", "transBatchB"),
                     r.integers(0, 2, 4).tolist(), strict=True))  # fmt: skip
    operands = []
    for side, size in (("A", (4, 5)), ("B", (5, 6))):
        first, last = size[::-1] if flags[f"trans{side}"] else size
        batched = flags[f"transBatch{side}"]
        operands.append(_f(r, first, 2, 3, last) if batched else _f(r, 2, 3, first, last))
    return Case("FusedMatMul", operands, flags | {"alpha": 0.3}, keep=_one(r, (0,), (0, 1)))


def gelus(r: Generator) -> Case:
    op = _one(r, "Gelu", "BiasGelu", "FastGelu", "QuickGelu")
    bias = [_f(r, 8)] if op == "BiasGelu" or (op == "FastGelu" and r.integers(2)) else []
    attrs = {"alpha": 1.3} if op == "QuickGelu" else {}
    return Case(op, [3 * _f(r, 2, 3, 8), *bias], attrs, opset=_one(r, 13, 17, 20))


def skip_normalizations(r: Generator) -> Case:
    simple = r.integers(2)
    operands = [_f(r, 2, 3, 8), _f(r, *_one(r, (2, 3, 8), (1, 3, 8), (3, 8))), _f(r, 8)]
    operands += [] if simple else [_maybe(r, _f(r, 8))]
    op = "SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization"
    return Case(op, [*operands, _maybe(r, _f(r, 8))], {"epsilon": 1e-3}, keep=(0, 1),
                outputs=_one(r, (1,), (1, 0, 0, 1)), opset=_one(r, 12, 17, 21))  # fmt: skip


def normalizations(r: Generator) -> Case:
    """Two operators that onnxruntime writes in the default operator set."""
    op = _one(r, "SimplifiedLayerNormalization", "LayerNormalization")
    bias = [_f(r, 8)] if op == "LayerNormalization" else []
    return Case(op, [_f(r, 2, 3, 8), _f(r, 8), *bias], {"epsilon": 1e-3, "axis": -1}, domain="",
                opset=13)  # fmt: skip


def embeddings(r: Generator) -> Case:
    def numbers(limit: int) -> Array:
        return r.integers(0, limit, (2, 5)).astype(np.int32)

    kinds = r.integers(2)
    operands = [
        numbers(11), numbers(2) if kinds else None, _f(r, 11, 8), _f(r, 9, 8),
        _f(r, 2, 8) if kinds else None, _f(r, 8), _f(r, 8), _maybe(r, numbers(2)),
        _maybe(r, numbers(9)),
    ]  # fmt: skip
    return Case("EmbedLayerNormalization", operands, {"epsilon": 1e-3}, keep=(0, 1, 7, 8),
                outputs=_one(r, (1, 1), (1, 1, 1)))  # fmt: skip


def _mask(r: Generator, rows: int, columns: int, *kinds: str) -> Array | None:
    kind = _one(r, *kinds)
    if kind == "ends":
        return r.integers(1, columns + 1, 2).astype(np.int32)
    if kind == "ends and starts":
        ends = r.integers(2, columns + 1, 2)
        return np.concatenate([ends, r.integers(0, 2, 2)]).astype(np.int32)
    shapes = {"keys": (2, columns), "pairs": (2, rows, columns)}
    if kind not in shapes:
        return None
    mask = r.integers(0, 2, shapes[kind]).astype(np.int32)
    mask[..., 0] = 1
    return mask


def attention(r: Generator) -> Case:
    past = _f(r, 2, 2, 2, 3, 4) if r.integers(3) == 0 else None
    columns = 5 if past is None else 8
    attrs = {"num_heads": 2, "unidirectional": int(r.integers(2))}
    attrs |= {"scale": 0.4} if r.integers(2) else {}
    values = 8 if past is not None or r.integers(2) else 12
    attrs |= {} if values == 8 else {"qkv_hidden_sizes": [8, 8, values]}
    kinds = ["", "keys", "pairs"] + (["ends", "ends and starts"] if past is None else [])
    bias = _f(r, *_one(r, (2, 2, 5, 5), (1, 2, 5, 5), (1, 1, 5, 5)))
    operands = [
        _f(r, 2, 5, 6), _f(r, 6, 16 + values), _maybe(r, _f(r, 16 + values)),
        _mask(r, 5, columns, *kinds), past, _maybe(r, bias) if past is None else None,
    ]  # fmt: skip
    return Case("Attention", operands, attrs, keep=(0, 3, 4, 5),
                outputs=(1,) if past is None else (1, 1))  # fmt: skip


def multi_head_attention(r: Generator) -> Case:
    attrs = {"num_heads": 2} | ({"scale": 0.4} if r.integers(2) else {})
    attrs |= {"mask_filter_value": -5000.0} if r.integers(2) else {}
    columns, width = _one(r, 4, 6), _one(r, 3, 4)
    attrs |= {"unidirectional": int(r.integers(2))} if columns == 4 else {}
    query, bias, past = _f(r, 2, 4, 8), None, None
    if r.integers(2):
        key, value = _f(r, 2, columns, 8), _f(r, 2, columns, 2 * width)
        bias = _maybe(r, _f(r, 16 + 2 * width))
    else:
        # onnxruntime demands one shape of keys and values with four axes
        width = 4
        key, value = _f(r, 2, 2, columns, width), _f(r, 2, 2, columns, width)
    mask = _mask(r, 4, columns, "", "ends", "keys", "pairs")
    added = _maybe(r, _f(r, *_one(r, (2, 2, 4, columns), (1, 2, 4, columns), (1, 1, 4, columns))))
    if key.ndim == 3 and mask is None and added is None and width == 4:
        past = _maybe(r, _f(r, 2, 2, 3, 4))
    operands = [query, key, value, bias, mask, added, past, past]
    return Case("MultiHeadAttention", operands, attrs, keep=(0, 1, 2, 4, 5, 6, 7),
                outputs=(1,) if past is None else (1, 1, 1))  # fmt: skip


def group_query_attention(r: Generator) -> Case:
    batch, groups = int(r.integers(1, 3)), _one(r, 1, 2, 4)
    attrs: dict[str, Any] = {"num_heads": 4, "kv_num_heads": groups}
    for name, value in (("scale", 0.4), ("softcap", 1.5), ("local_window_size", 3)):
        attrs |= {name: value} if r.integers(2) else {}
    operands: list[Any] = [_f(r, batch, 6, (4 + 2 * groups) * 16), None, None]
    if r.integers(2):
        operands = [_f(r, batch, 6, n * 16) for n in (4, groups, groups)]
    operands += [None, None, np.full(batch, 5, np.int32), np.asarray(6, np.int32)]
    if r.integers(2):
        attrs |= {"do_rotary": 1, "rotary_interleaved": int(r.integers(2))}
        operands += [_f(r, 10, 8), _f(r, 10, 8)]
    return Case("GroupQueryAttention", operands, attrs, keep=(0, 1, 2), outputs=(1, 1, 1))


def rotary_embedding(r: Generator) -> Case:
    pairs = _one(r, 2, 4)
    attrs = {"interleaved": int(r.integers(2))}
    attrs |= {"num_heads": 2, "rotary_embedding_dim": 4} if pairs == 2 else {}
    x = _f(r, *_one(r, (2, 2, 5, 8), (2, 5, 16)))
    places = _one(r, np.array([2]), r.integers(0, 9, (2, 5)))
    return Case("RotaryEmbedding", [x, places, _f(r, 12, pairs), _f(r, 12, pairs)], attrs,
                keep=(0, 1))  # fmt: skip


def integer_products(r: Generator) -> Case:
    draw, columns = _one(r, _bytes, _signed), _one(r, (), (6,))
    zero, bias = _maybe(r, draw(r, *columns)), _maybe(r, _f(r, 6))
    weight, scale = draw(r, 5, 6), _scales(r, *columns)
    if r.integers(2):
        return Case("DynamicQuantizeMatMul", [_f(r, 2, 3, 5), weight, scale, zero, bias],
                    tolerance=1e-4)  # fmt: skip
    operands = [_bytes(r, 2, 3, 5), weight, _scales(r), scale, _maybe(r, _bytes(r)), zero, bias]
    return Case("MatMulIntegerToFloat", operands, tolerance=1e-4)


def few_bits(r: Generator) -> Case:
    bits, depth, block = _one(r, 4, 8), _one(r, 32, 40, 64), _one(r, 16, 32)
    blocks = -(-depth // block)
    zeros = _maybe(r, _bytes(r, 6 * -(-blocks * bits // 8)))
    if bits == 4 and r.integers(3) == 0:
        zeros = r.integers(0, 16, (6, blocks)).astype(np.float32)
    weight = _bytes(r, 6, blocks, block * bits // 8)
    operands = [_f(r, 2, 3, depth), weight, _scales(r, 6, blocks), zeros, None, _maybe(r, _f(r, 6))]
    attrs = {"K": depth, "N": 6, "bits": bits, "block_size": block, "accuracy_level": 1}
    return Case("MatMulNBits", operands, attrs, tolerance=1e-4)


def channels_last(r: Generator) -> Case:
    """Layers of integers; onnxruntime rounds some results to the other neighbor."""
    attrs = {"channels_last": int(r.integers(2))}
    x = _bytes(r, 1, 7, 8, 4) if attrs["channels_last"] else _bytes(r, 1, 4, 7, 8)
    # averages of four are seldom half way between two integers
    first, last = [np.float32(0.023), np.uint8(120)], [np.float32(0.05), np.uint8(110)]
    op = _one(r, "NhwcMaxPool", "QLinearConv", "QLinearAveragePool", "QLinearGlobalAveragePool")
    if op == "NhwcMaxPool":
        attrs = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
        return Case(op, [_one(r, _bytes, _signed)(r, 1, 7, 8, 5)], attrs)
    operands = [x, *first]
    if op == "QLinearConv":
        operands += [_signed(r, 6, 4, 3, 3) // 8, np.float32(0.01), np.int8(0)]
        attrs |= {"pads": [1] * 4, "kernel_shape": [3, 3]}
    if op == "QLinearAveragePool":
        attrs |= {"kernel_shape": [2, 2]}
    return Case(op, [*operands, *last], attrs, tolerance=1)


def quantized_attention(r: Generator) -> Case:
    attrs = {"num_heads": 2, "unidirectional": int(r.integers(2))}
    draw = _one(r, _bytes, _signed)
    operands = [
        _bytes(r, 2, 5, 6), draw(r, 6, 24), _f(r, 24), np.float32(0.02), np.float32(0.01),
        _mask(r, 5, 5, "", "ends", "keys"), np.uint8(120), draw(r),
    ]  # fmt: skip
    return Case("QAttention", operands, attrs, keep=(0, 5), tolerance=1e-4)


CASES: tuple[Callable[[Generator], Case], ...] = (
    fused_conv, fused_gemm, fused_matmul, gelus, skip_normalizations, normalizations, embeddings,
    attention, multi_head_attention, group_query_attention, rotary_embedding, integer_products,
    few_bits, channels_last, quantized_attention,
)  # fmt: skip
