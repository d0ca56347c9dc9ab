"""Attention operators of onnxruntime's operator set."""

from __future__ import annotations

from math import sqrt

import numpy as np

from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.composed.rotary import angles, rotated
from tvmconv.frontend.composed.scores import (
    attend,
    frontier,
    join_heads,
    mask_bias,
    split_heads,
)
from tvmconv.frontend.operators import MICROSOFT

_REMEDY = "export the model without it, or with standard ONNX operators"


@composes(
    MICROSOFT, "Attention", inputs=2,
    attrs="do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
    "rotary_embedding_dim scale unidirectional",
)  # fmt: skip
def _attention(p: Parts) -> list[str]:
    """Attention of one input: its products with the weights of queries, keys and values."""
    x, weight, bias, mask, past, added, length = (p.node.input(index) for index in range(7))
    p.expect_rank(x, 3)
    if length:
        raise p.error("a past of variable length is not supported", _REMEDY)
    product = p.op("MatMul", x, weight)
    return self_attention(p, p.op("Add", product, bias) if bias else product, mask, past, added)


def self_attention(p: Parts, rows: str, mask: str, past: str, added: str) -> list[str]:
    """Attention of queries, keys and values that are side by side in each row."""
    if any(map(p.flag, ("do_rotary", "past_present_share_buffer"))):
        raise p.error("do_rotary and a shared buffer of the past are not supported", _REMEDY)
    total = p.expect_rank(rows, 3)[2]
    sizes = p.node.ints("qkv_hidden_sizes", ()) or (total // 3,) * 3
    if len(sizes) != 3 or sizes[0] != sizes[1]:
        raise p.error(f"qkv_hidden_sizes={sizes} are not supported", _REMEDY)
    heads = p.heads("num_heads", sizes[0])
    query, key, value = (split_heads(p, part, heads) for part in p.split(rows, 2, sizes))
    if past:
        old = p.expect_rank(past, 5)
        parts = [p.reshape(part, old[1:]) for part in p.split(past, 0, (1, 1))]
        key, value = p.concat(2, parts[0], key), p.concat(2, parts[1], value)
    y, _ = _attended(p, query, key, value, mask, added)
    if not p.wants(1):
        return [y]
    stacked = [p.reshape(part, (1, *p.shape(part))) for part in (key, value)]
    return [y, p.concat(0, *stacked)]


@composes(MICROSOFT, "MultiHeadAttention", attrs="mask_filter_value num_heads scale unidirectional")
def _multi_head(p: Parts) -> list[str]:
    """Attention of queries, keys and values, which may be packed."""
    query, key, value, bias, mask, added, past_key, past_value = (p.node.input(i) for i in range(8))
    if any(p.node.input(index) for index in (8, 9)):
        raise p.error("a past of variable length is not supported", _REMEDY)
    query, key, value = _unpacked(p, query, key, value, bias)
    if past_key and past_value:
        key, value = p.concat(2, past_key, key), p.concat(2, past_value, value)
    y, scores = _attended(p, query, key, value, mask, added)
    return [y, key, value, scores]


def _unpacked(p: Parts, query: str, key: str, value: str, bias: str) -> list[str]:
    """Queries, keys and values on heads, with their biases."""
    heads = int(p.node.attrs.get("num_heads", 0))
    packed = query if not key else key if not value else ""
    operands = [query, key, value]
    if packed:
        batch, rows, count, parts, width = p.expect_rank(packed, 5)
        if parts != (2 if key else 3) or count != heads:
            raise p.error(f"{packed!r} of shape {p.shape(packed)} does not fit {heads} heads")
        pieces = p.split(packed, 3, (1,) * parts)
        operands[-parts:] = [p.reshape(piece, (batch, rows, count * width)) for piece in pieces]
    if not all(operands):
        raise p.error(f"its inputs {list(p.node.inputs)} are not complete")
    for name in operands:
        p.expect_rank(name, 3, 4)
    if bias:
        p.expect_rank(bias, 1)
        # keys and values on heads have their biases already
        sizes = [
            p.shape(name)[2] if len(p.shape(name)) == 3 else p.shape(name)[1] * p.shape(name)[3]
            for name in operands
        ]
        biases = p.split(bias, 0, sizes)
        operands = [
            p.op("Add", name, part) if len(p.shape(name)) == 3 else name
            for name, part in zip(operands, biases, strict=True)
        ]
    return [x if len(p.shape(x)) == 4 else split_heads(p, x, heads) for x in operands]


def _attended(p: Parts, query: str, key: str, value: str, mask: str, added: str) -> tuple[str, str]:
    """The result in rows, and the scores after softmax."""
    attrs = p.node.attrs
    rows, width, columns = *p.expect_rank(query, 4)[2:], p.expect_rank(key, 4)[2]
    filter_value = float(attrs.get("mask_filter_value", -10000.0))
    biases = [_mask(p, mask, query, columns, filter_value)] if mask else []
    biases += [added] if added else []
    if p.flag("unidirectional"):
        # bfloat16 has the range of float32
        narrow = p.dtype(query) == "float16"
        lowest = float(np.finfo(np.float16 if narrow else np.float32).min)
        size = (rows, columns)
        biases.append(frontier(p, size, columns - rows, (-1, 0), query, lowest))
    scale = float(attrs.get("scale", 0.0)) or 1 / sqrt(max(width, 1))
    result = attend(p, query, key, value, [b for b in biases if b], scale=scale)
    return join_heads(p, result.y), result.stages[3]


def _mask(p: Parts, mask: str, query: str, columns: int, masked: float) -> str:
    """A mask of keys as a bias; ends and starts of the keys are another form of it."""
    batch, _, rows, _ = p.shape(query)
    shape = p.expect_rank(mask, 1, 2, 3, 4)
    p.expect_integers(mask)
    if len(shape) == 1:
        if shape not in ((batch,), (2 * batch,)):
            raise p.error(f"{mask!r} of shape {shape} is not supported", _REMEDY)
        column = p.constant(np.arange(columns, dtype=p.dtype(mask)))
        ends = p.reshape(p.slice(mask, 0, 0, batch), (batch, 1, 1, 1))
        allowed = p.op("Less", column, ends)
        if shape[0] == 2 * batch:
            starts = p.reshape(p.slice(mask, 0, batch, 2 * batch), (batch, 1, 1, 1))
            allowed = p.op("And", allowed, p.op("Not", p.op("Less", column, starts)))
        return mask_bias(p, allowed, query, masked)
    if len(shape) == 2:
        if shape == (batch, 1) != (batch, columns):
            return ""
        p.expect_shape(mask, (batch, columns))
        mask = p.reshape(mask, (batch, 1, 1, columns))
    elif len(shape) == 3:
        p.expect_shape(mask, (batch, rows, columns))
        mask = p.reshape(mask, (batch, 1, rows, columns))
    else:
        if shape[0] != batch or shape[1] != 1 or min(shape[2:]) < columns:
            raise p.error(f"{mask!r} of shape {shape} does not fit ({batch}, 1, {columns})")
        mask = p.slice(p.slice(mask, 2, columns - rows, columns), 3, 0, columns)
    zero = p.constant(np.zeros((), p.dtype(mask)))
    return mask_bias(p, p.op("Greater", mask, zero), query, masked)


@composes(
    MICROSOFT, "GroupQueryAttention",
    attrs="do_rotary kv_num_heads local_window_size num_heads qk_output rotary_interleaved scale "
    "smooth_softmax softcap",
)  # fmt: skip
def _group_query(p: Parts) -> list[str]:
    """Causal attention whose heads of keys serve several heads of queries."""
    attrs = p.node.attrs
    query, key, value = (p.node.input(index) for index in range(3))
    past = p.node.input(3)
    if past and p.shape(past)[2]:
        raise p.error("a cache of keys and values is not supported", _REMEDY)
    later = p.node.input(11)
    if later or attrs.get("qk_output", 0) or attrs.get("smooth_softmax", 0) > 0:
        raise p.error("qk_output, smooth_softmax and head_sink are not supported", _REMEDY)
    heads, groups = (int(attrs.get(name, 0)) for name in ("num_heads", "kv_num_heads"))
    if heads < 1 or groups < 1 or heads % groups:
        raise p.error(f"kv_num_heads={groups} does not divide num_heads={heads}")
    if not key:
        width = p.expect_rank(query, 3)[2] // (heads + 2 * groups)
        query, key, value = p.split(query, 2, [n * width for n in (heads, groups, groups)])
    else:
        value = p.required(2)
    query = split_heads(p, query, heads)
    key, value = split_heads(p, key, groups), split_heads(p, value, groups)
    batch, _, rows, width = p.shape(query)
    if p.flag("do_rotary"):
        interleaved = p.flag("rotary_interleaved")
        cosine, sine = (
            angles(p, p.required(index), p.node.input(9), batch, rows) for index in (7, 8)
        )
        query, key = (rotated(p, x, cosine, sine, interleaved=interleaved) for x in (query, key))
    window = int(attrs.get("local_window_size", -1))
    # the window counts the query's own key
    bounds = (window - 1 if window > 0 else -1, 0)
    biases = [frontier(p, (rows, p.shape(key)[2]), 0, bounds, query)]
    biases += [p.node.input(10)] if p.node.input(10) else []
    scale = float(attrs.get("scale", 0.0)) or 1 / sqrt(width)
    softcap = float(attrs.get("softcap", 0.0))
    result = attend(p, query, key, value, biases, scale=scale, softcap=max(softcap, 0.0))
    return [join_heads(p, result.y), key, value]
