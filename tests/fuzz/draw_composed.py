"""Draws operators of ONNX that are graphs of other operators, and others of new operator sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.draft import Draft, Undrawable, Value
from tests.fuzz.draw_indices import places

_WIDTHS = (1, 2, 4, 5, 8)
# attributes with values that each may have
_WINDOWS = {"left_window_size": (-1, 0, 2), "right_window_size": (-1, 1)}
_SCORES = {
    "is_causal": (0, 1), "scale": (0.3, 1.0), "softcap": (0.0, 2.0),
    "qk_matmul_output_mode": (0, 1, 2, 3), "softmax_precision": (1, 11),
}  # fmt: skip
_BITS = {
    "float32": ("int32", "uint32"), "int32": ("float32", "uint32"), "int64": ("uint64",),
    "uint64": ("int64",), "int8": ("uint8",), "uint8": ("int8",), "int16": ("uint16",),
    "float64": ("int64",),
}  # fmt: skip


def _some(d: Draft, op: str, table: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """A few attributes of a table that the operator set knows."""
    known = d.schema(op).attributes
    return {name: d.pick(v) for name, v in table.items() if name in known and d.chance(0.4)}


def attention(d: Draft) -> None:
    """Heads in rows or on an axis, with masks, a past, and a partly filled cache."""
    op = "Attention"
    batch, heads, groups = d.pick((1, 2)), d.pick((1, 2, 3)), d.pick((1, 2))
    heads *= groups
    rows, columns, width, depth = (d.pick((1, 2, 5)), d.pick((1, 3, 6)), d.pick(_WIDTHS),
                                   d.pick(_WIDTHS))  # fmt: skip
    given = _some(d, op, _SCORES)
    flat = d.chance(0.5)
    if flat:
        given |= {"q_num_heads": heads, "kv_num_heads": groups}
        shapes = ((rows, heads * width), (columns, groups * width), (columns, groups * depth))
    else:
        shapes = ((heads, rows, width), (groups, columns, width), (groups, columns, depth))
    operands: list[Value | None] = [d.operand((batch, *s), "float32") for s in shapes]
    past = d.pick((0, 0, 1, 4))
    if past and given.get("is_causal") and rows == 1:
        raise Undrawable("onnxruntime reads all keys")
    filled = None
    if past:
        before = [d.operand((batch, groups, past, n), "float32") for n in (width, depth)]
    elif d.opset >= 24 and d.chance(0.3):
        filled = d.constant(d.numbers.integers(1, columns + 1, batch))
    whole = columns + past
    if d.chance(0.5):
        shape = d.pick(((rows, whole), (1, 1, rows, whole), (batch, heads, rows, whole)))
        operands.append(d.operand(shape, d.pick(("float32", "bool"))))
    else:
        operands.append(None)
    operands += before if past else [None, None]
    operands += [filled] if filled else []
    if flat or d.chance(0.3):
        given |= _some(d, op, _WINDOWS)
    results = d.pick((1, 4)) if past else d.pick((1, 1, 4))
    if filled and results > 1:
        raise Undrawable("no present")
    d.call(op, operands, results, **given)


def rotary(d: Draft) -> None:
    """RotaryEmbedding in rows or on heads, with a table or angles for each row."""
    batch, heads, rows, pairs = d.pick((1, 2)), d.pick((1, 3)), d.pick((1, 5)), d.pick((1, 2, 4))
    rest = d.pick((0, 0, 2))
    width = 2 * pairs + rest
    flat = d.chance(0.5)
    x = d.operand((batch, rows, heads * width) if flat else (batch, heads, rows, width), "float32")
    given = {"interleaved": d.pick((0, 1))} | ({"num_heads": heads} if flat else {})
    given |= {"rotary_embedding_dim": 2 * pairs} if rest else {}
    if d.chance(0.6):
        where = places(d, (batch, rows), 9)
        tables = [d.operand((9, pairs), "float32") for _ in "cs"]
        d.call("RotaryEmbedding", [x, *tables, where], **given)
    else:
        tables = [d.operand((batch, rows, pairs), "float32") for _ in "cs"]
        d.call("RotaryEmbedding", [x, *tables], **given)


def root_mean_square(d: Draft) -> None:
    """RMSNormalization."""
    x = d.source("RMSNormalization", 1)
    axis = d.generator.randrange(-x.rank, x.rank)
    given = {"axis": axis} | ({"epsilon": 1e-2} if d.chance(0.4) else {})
    d.call("RMSNormalization", [x, d.operand(x.shape[axis:], x.dtype)], **given)


def loss(d: Draft) -> None:
    """Both losses; classes beyond the labels, and one that is ignored."""
    op = d.pick(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"))
    x = d.value(d.allowed(op), 2, 5)
    batch, classes, *rest = x.shape
    if d.chance(0.5):
        (labels,) = d.call("Mod", [d.input((batch, *rest), "int64"), d.constant(np.array(classes))])
    else:
        dtype = d.pick(("int32", "int64"))
        labels = d.constant(d.numbers.integers(0, classes, (batch, *rest), dtype=dtype))
    given = {"reduction": d.pick(("none", "sum", "mean"))} if d.chance(0.8) else {}
    given |= {"ignore_index": d.pick((0, classes - 1, -1))} if d.chance(0.4) else {}
    weights = [d.constant(np.abs(d.array((classes,), x.dtype)))] if d.chance(0.5) else []
    d.call(op, [x, labels, *weights], d.pick((1, 2)) if op[0] == "S" else 1, **given)


def ngrams(d: Draft) -> None:
    """TfIdfVectorizer of integers."""
    x = d.input(d.pick(((6,), (2, 5), (1, 9))), d.pick(("int32", "int64")))
    (x,) = d.call("Mod", [x, d.constant(np.array(4, x.dtype))])
    low, high = d.pick(((1, 1), (1, 2), (2, 2), (1, 3)))
    singles, pairs, triples = d.pick((1, 3)), d.pick((0, 2)), d.pick((0, 1))
    lengths = [singles, 2 * pairs, 3 * triples]
    count = singles + pairs + triples
    columns = d.generator.sample(range(count + d.pick((0, 1))), count)
    given: dict[str, Any] = {"weights": [0.5 + i for i in range(count)]} if d.chance(0.5) else {}
    # n-grams are all different
    pool = [[*np.ndindex(*[4] * size)] for size in (1, 2, 3)]
    chosen = [
        d.generator.sample(p, n) for p, n in zip(pool, (singles, pairs, triples), strict=True)
    ]
    d.call("TfIdfVectorizer", [x], mode=d.pick(("TF", "IDF", "TFIDF")), min_gram_length=low,
           max_gram_length=high, max_skip_count=d.pick((0, 1, 3)),
           ngram_counts=[0, lengths[0], lengths[0] + lengths[1]], ngram_indexes=columns,
           pool_int64s=[i for part in chosen for gram in part for i in gram], **given)  # fmt: skip


def linear_attention(d: Draft) -> None:
    """All update rules, with and without a past."""
    batch, groups, steps = d.pick((1, 2)), d.pick((1, 2)), d.pick((1, 2, 5))
    heads, width, depth = groups * d.pick((1, 2)), d.pick(_WIDTHS), d.pick(_WIDTHS)
    rule = d.pick(("linear", "gated", "delta", "gated_delta"))
    sizes = (heads * width, groups * width, groups * depth)
    operands: list[Value | None] = [d.operand((batch, steps, n), "float32") for n in sizes]
    state = (batch, groups, width, depth)
    operands.append(d.operand(state, "float32") if d.chance(0.5) else None)
    decay = -np.abs(d.array((batch, steps, d.pick((groups, groups * width))), "float32"))
    operands.append(d.constant(decay) if "gated" in rule else None)
    beta = (batch, steps, d.pick((1, groups)))
    operands.append(d.operand(beta, "float32") if "delta" in rule else None)
    given = {"scale": 0.3} if d.chance(0.5) else {}
    d.call("LinearAttention", operands, 2, update_rule=rule, q_num_heads=heads,
           kv_num_heads=groups, **given)  # fmt: skip


def causal(d: Draft) -> None:
    """CausalConvWithState."""
    batch, channels, size, kernel = (
        d.pick((1, 2)),
        d.pick((1, 3, 8)),
        d.pick((1, 5)),
        d.pick((2, 4)),
    )
    operands = [d.operand((batch, channels, size), "float32"),
                d.operand((channels, 1, kernel), "float32"),
                d.operand((channels,), "float32") if d.chance(0.5) else None,
                d.operand((batch, channels, kernel - 1), "float32")
                if d.chance(0.5) else None]  # fmt: skip
    given = {"activation": d.pick(("none", "silu", "swish"))} if d.chance(0.6) else {}
    d.call("CausalConvWithState", operands, 2, **given)


def cache(d: Draft) -> None:
    """TensorScatter along any axis but the first, in rows that exist, or around the end."""
    x = d.source("TensorScatter", 2, 4)
    axis = d.generator.randrange(1, x.rank)
    count = d.generator.randint(1, x.shape[axis])
    shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    mode = d.pick(("linear", "circular"))
    free = x.shape[axis] - (count if mode == "linear" else 0)
    operands = [x, d.operand(shape, x.dtype)]
    if d.chance(0.7):
        (first,) = d.call("Mod", [d.input(x.shape[:1], "int64"), d.constant(np.array(free + 1))])
        operands.append(first)
    d.call("TensorScatter", operands, axis=axis - d.pick((0, x.rank)), mode=mode)


def gated(d: Draft) -> None:
    """SwiGLU."""
    x = d.source("SwiGLU")
    d.call("SwiGLU", [x, d.operand(x.shape, x.dtype)], **({"alpha": 1.5} if d.chance(0.5) else {}))


def bits(d: Draft) -> None:
    """BitCast between types of the same size."""
    from onnx import helper

    x = d.value([name for name in _BITS if name in d.allowed("BitCast")])
    target = d.pick(_BITS[x.dtype])
    d.call("BitCast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


STEPS = (
    *(attention, attention, attention, rotary, root_mean_square, loss, loss, ngrams),
    *(linear_attention, causal, cache, gated, bits),
)
