"""Attention of ONNX's operator set."""

from __future__ import annotations

from math import sqrt

import numpy as np

from tvmconv.core.stored_types import numpy_type
from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.composed.scores import (
    attend,
    frontier,
    join_heads,
    mask_bias,
    split_heads,
)

_DOUBLE = 11


@composes(
    "", "Attention", inputs=3,
    attrs="is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode "
    "right_window_size scale softcap softmax_precision",
)  # fmt: skip
def _attention(p: Parts) -> list[str]:
    """Y, the keys and values with the past ones, and one stage of the scores."""
    attrs = p.node.attrs
    query, key, value, mask, past_key, past_value, filled = (p.node.input(i) for i in range(7))
    flat = len(p.expect_rank(query, 3, 4)) == 3
    if flat:
        heads = p.heads("q_num_heads", p.shape(query)[2])
        groups = p.heads("kv_num_heads", p.expect_rank(key, 3)[2])
        query = split_heads(p, query, heads)
        key, value = split_heads(p, key, groups), split_heads(p, value, groups)
    if bool(past_key) != bool(past_value) or (past_key and filled):
        raise p.error("past_key and past_value must be given together, without nonpad_kv_seqlen")
    past = 0
    if past_key:
        past = p.expect_rank(past_key, 4)[2]
        key = p.op("Concat", past_key, key, axis=2)
        value = p.op("Concat", past_value, value, axis=2)
    biases = _biases(p, query, key, mask, filled, past)
    width = p.shape(query)[3]
    if not width:
        raise p.error("its heads have no channels")
    scale = float(attrs.get("scale", 1 / sqrt(width)))
    softcap = float(attrs.get("softcap", 0.0))
    # a narrower precision than the operands' is not narrowed to
    double = attrs.get("softmax_precision") == _DOUBLE and p.dtype(query) != "float64"
    result = attend(
        p, query, key, p.cast(value, p.dtype(query)), biases, scale=scale,
        softcap=max(softcap, 0.0), zero_masked=True, double=double,
    )  # fmt: skip
    mode = int(attrs.get("qk_matmul_output_mode", 0))
    if mode not in range(4):
        raise p.error(f"qk_matmul_output_mode={mode} is unknown", "use 0, 1, 2 or 3")
    y = join_heads(p, result.y) if flat else result.y
    return [y, key, value, result.stages[mode]]


def _biases(p: Parts, query: str, key: str, mask: str, filled: str, past: int) -> list[str]:
    """Masks as tensors that are added to the scores."""
    attrs = p.node.attrs
    rows, columns = p.shape(query)[2], p.shape(key)[2]
    biases = [_given(p, mask, query, columns)] if mask else []
    left, right = (int(attrs.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    if min(left, right) < -1:
        raise p.error(f"left_window_size={left} and right_window_size={right} must be -1 or more")
    if p.flag("is_causal"):
        # the causal bound is a window of nothing on the right
        right = 0
    if filled:
        p.expect_shape(filled, (p.shape(query)[0],))
        biases.append(_filled(p, filled, query, (rows, columns), (left, right)))
    elif left >= 0 or right >= 0:
        biases.append(frontier(p, (rows, columns), past, (left, right), query))
    return biases


def _given(p: Parts, mask: str, query: str, columns: int) -> str:
    """The mask that the model passes; columns that it lacks are masked."""
    shape = p.expect_rank(mask, 1, 2, 3, 4)
    masked: float = -np.inf
    if p.dtype(mask) == "bool":
        mask = mask_bias(p, mask, query)
    missing = columns - shape[-1]
    if missing > 0 and shape[-1] != 1:
        tail = np.full((*shape[:-1], missing), masked, numpy_type(p.dtype(mask)))
        mask = p.concat(len(shape) - 1, mask, p.constant(tail))
    return mask


def _filled(
    p: Parts, filled: str, query: str, size: tuple[int, int], window: tuple[int, int]
) -> str:
    """The bias of a cache whose number of entries is an input, one for each batch."""
    rows, columns = size
    count = p.reshape(p.cast(filled, "int64"), (p.shape(filled)[0], 1, 1, 1))
    column = p.constant(np.arange(columns))
    allowed = p.op("Less", column, count)
    if max(window) >= 0:
        # the query's place: offset + row, where the last row is the last entry
        row = p.constant(np.arange(rows).reshape(rows, 1) - rows)
        distance = p.op("Sub", column, p.op("Add", count, row))
        for bound, sign in zip(window, (-1, 1), strict=True):
            if bound >= 0:
                signed = p.op("Neg", distance) if sign < 0 else distance
                near = p.op("Less", signed, p.constant(np.asarray(bound + 1)))
                allowed = p.op("And", allowed, near)
    return mask_bias(p, allowed, query)
