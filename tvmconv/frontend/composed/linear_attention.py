"""LinearAttention, step by step, and the short causal convolution of such layers."""

from __future__ import annotations

from math import sqrt

import numpy as np

from tvmconv.core.stored_types import numpy_type
from tvmconv.frontend.composed.activation import silu
from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.composed.scores import join_heads, split_heads

_RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}
# each step adds some ten operators to the model
_MAX_STEPS = 256


@composes(
    "", "LinearAttention", inputs=3,
    attrs="chunk_size kv_num_heads q_num_heads scale update_rule",
)  # fmt: skip
def _linear_attention(p: Parts) -> list[str]:
    """The outputs of all steps, and the last state."""
    query, key, value, state, decay, beta = (p.node.input(index) for index in range(6))
    rule = p.node.attrs.get("update_rule", "gated_delta")
    if rule not in _RULES:
        raise p.error(f"update_rule={rule!r} is unknown", f"use one of {', '.join(_RULES)}")
    gating, correcting = _RULES[rule]
    if bool(decay) != gating or bool(beta) != correcting:
        raise p.error(f"its inputs {list(p.node.inputs)} do not fit update_rule={rule!r}")
    heads = p.heads("q_num_heads", p.expect_rank(query, 3)[2])
    groups = p.heads("kv_num_heads", p.expect_rank(key, 3)[2])
    if heads % groups:
        raise p.error(f"kv_num_heads={groups} does not divide q_num_heads={heads}")
    queries = split_heads(p, query, heads)
    keys, values = split_heads(p, key, groups), split_heads(p, value, groups)
    batch, _, steps, width = p.shape(queries)
    depth = p.shape(values)[3]
    p.expect_shape(keys, (batch, groups, steps, width))
    p.expect_shape(values, (batch, groups, steps, depth))
    if steps > _MAX_STEPS:
        raise p.error(f"it has {steps} steps; at most {_MAX_STEPS} are supported", "split the rows")
    scale = float(p.node.attrs.get("scale", 0.0)) or 1 / sqrt(max(width, 1))
    per_group = heads // groups
    queries = p.reshape(p.scaled(queries, scale), (batch, groups, per_group, steps, width))
    factors = _factors(p, decay, groups, width) if gating else ""
    betas = _column(p, beta, groups) if correcting else ""
    if state:
        p.expect_shape(state, (batch, groups, width, depth))
    results = []
    for step in range(steps):
        row, item = (p.slice(x, 2, step, step + 1) for x in (keys, values))
        column = p.reshape(row, (batch, groups, width, 1))
        if gating and state:
            factor = p.slice(factors, 2, step, step + 1)
            factor = p.reshape(factor, (batch, groups, p.shape(factor)[3], 1))
            state = p.op("Mul", state, factor)
        if correcting:
            if state:
                item = p.op("Sub", item, p.op("MatMul", row, state))
            item = p.op("Mul", item, p.slice(betas, 2, step, step + 1))
        update = p.op("Mul", column, item)
        state = p.op("Add", state, update) if state else update
        here = p.reshape(p.slice(queries, 3, step, step + 1), (batch, groups, per_group, width))
        found = p.op("MatMul", here, state)
        results.append(p.reshape(found, (batch, heads, 1, depth)))
    if not results:
        raise p.error("it has no steps")
    return [join_heads(p, p.concat(2, *results)), state]


def _factors(p: Parts, decay: str, groups: int, width: int) -> str:
    """exp(decay) as (batch, heads, steps, width or 1)."""
    size = p.expect_rank(decay, 3)[2]
    if size not in (groups, groups * width):
        raise p.error(f"{decay!r} of shape {p.shape(decay)} does not fit {groups} heads of {width}")
    return p.op("Exp", split_heads(p, decay, groups))


def _column(p: Parts, beta: str, groups: int) -> str:
    """Beta as (batch, heads or 1, steps, 1)."""
    size = p.expect_rank(beta, 3)[2]
    if size not in (1, groups):
        raise p.error(f"{beta!r} of shape {p.shape(beta)} does not fit {groups} heads")
    return split_heads(p, beta, size)


@composes("", "CausalConvWithState", attrs="activation", inputs=2)
def _causal_conv(p: Parts) -> list[str]:
    """A convolution of each channel, and the inputs that the next call needs."""
    x, weight, bias, state = (p.node.input(index) for index in range(4))
    batch, channels, size = p.expect_rank(x, 3)
    kernel = p.expect_rank(weight, 3)[2]
    p.expect_shape(weight, (channels, 1, kernel))
    name = p.node.attrs.get("activation", "none")
    if name not in ("none", "silu", "swish") or kernel < 1:
        raise p.error(f"activation={name!r} with a kernel of {kernel} is not supported")
    before = (batch, channels, kernel - 1)
    if state:
        p.expect_shape(state, before)
    elif kernel > 1:
        state = p.constant(np.zeros(before, numpy_type(p.dtype(x))))
    whole = p.concat(2, state, x) if kernel > 1 else x
    y = p.op("Conv", whole, weight, bias, main=True, group=channels)
    last = p.slice(whole, 2, size, size + kernel - 1) if p.wants(1) else ""
    return [y if name == "none" else silu(p, y), last]
