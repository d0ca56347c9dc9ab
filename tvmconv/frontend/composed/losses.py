"""Losses: classes are selected by comparison with their numbers."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.composed.parts import Parts, composes

_REDUCTIONS = ("mean", "none", "sum")


@composes("", "NegativeLogLikelihoodLoss", attrs="ignore_index reduction", inputs=2)
def _negative_log_likelihood(p: Parts) -> str:
    return _loss(p, p.node.inputs[0])


@composes("", "SoftmaxCrossEntropyLoss", attrs="ignore_index reduction", inputs=2)
def _softmax_cross_entropy(p: Parts) -> list[str]:
    """The loss, and the logarithms of the probabilities."""
    x = p.node.inputs[0]
    if len(p.shape(x)) < 2:
        raise p.error(f"{x!r} of shape {p.shape(x)} has no axis of classes")
    places = p.shape(x)[2:]
    if p.node.opset >= 13 or not places:
        logarithms = p.op("LogSoftmax", x, axis=1, main=True)
    else:
        # before operator set 13, only the last axis is one axis
        rank = len(places) + 2
        moved = p.transpose(x, 0, *range(2, rank), 1)
        found = p.op("LogSoftmax", moved, axis=rank - 1, main=True)
        logarithms = p.transpose(found, 0, rank - 1, *range(1, rank - 1))
    return [_loss(p, logarithms), logarithms]


def _loss(p: Parts, logarithms: str) -> str:
    labels, weights = p.node.inputs[1], p.node.input(2)
    reduction = p.node.attrs.get("reduction", "mean")
    if reduction not in _REDUCTIONS:
        raise p.error(f"reduction={reduction!r} is unknown", f"use one of {_REDUCTIONS}")
    batch, classes, *places = p.shape(logarithms)
    p.expect_shape(labels, (batch, *places))
    column = (1, classes, *(1 for _ in places))
    numbers = p.constant(np.arange(classes, dtype=p.dtype(labels)).reshape(column))
    wanted = p.op("Equal", p.reshape(labels, (batch, 1, *places)), numbers)
    if "ignore_index" in p.node.attrs:
        ignored = np.asarray(p.node.attrs["ignore_index"])
        inside = np.iinfo(p.dtype(labels)).min <= ignored <= np.iinfo(p.dtype(labels)).max
        number = ignored.astype(p.dtype(labels)) if inside else None
    else:
        number = None
    if number is not None:
        # an ignored class is selected nowhere
        kept = p.constant((np.arange(classes) != number).reshape(column))
        wanted = p.op("And", wanted, kept)
    zero = p.scalar(0, logarithms)
    scaled = logarithms
    if weights:
        p.expect_shape(weights, (classes,))
        scaled = p.op("Mul", logarithms, p.reshape(weights, column))
    found = p.op("Neg", p.op("Where", wanted, scaled, zero))
    loss = p.reduced("ReduceSum", found, 1, keepdims=0)
    if reduction == "none":
        return loss
    axes = range(len(places) + 1)
    total = p.reduced("ReduceSum", loss, *axes, keepdims=0)
    if reduction == "sum":
        return total
    if not weights and number is None:
        return p.scaled(total, 1 / (batch * int(np.prod(places))))
    each = p.reshape(weights, column) if weights else p.scalar(1, logarithms)
    counted = p.op("Where", wanted, each, zero)
    return p.op("Div", total, p.reduced("ReduceSum", counted, 0, *range(1, len(places) + 2),
                                        keepdims=0))  # fmt: skip
