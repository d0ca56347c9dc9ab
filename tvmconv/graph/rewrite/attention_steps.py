"""Finds the operations between a product or a softmax and the value that is read at last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tvmconv.graph.ir import Node, Value, made_by
from tvmconv.graph.rewrite.attention_operands import factor_of
from tvmconv.graph.rewrite.fold import scalar
from tvmconv.operators.attention_form import Step


@dataclass(frozen=True)
class Chain:
    """The node at the beginning, and the steps from its result, each with the tensor it reads."""

    begin: Node
    steps: tuple[tuple[Step, Value | None], ...] = ()


def chain_to(
    value: Value, begins: Callable[[Node], bool], counts: Counter[Value], readers: int = 1
) -> Chain | None:
    """The only chain of steps from a node that ``begins`` accepts to a value.

    All steps keep the last axis. No other nodes read the values between them, and ``readers`` nodes
    read the last value.
    """
    made = value.producer
    if made is None or value.shape is None or counts[value] != readers:
        return None
    if begins(made):
        return Chain(made)
    chains = [
        Chain(chain.begin, (*chain.steps, *taken))
        for source, taken, uses in _steps(made)
        if (chain := chain_to(source, begins, counts, uses)) is not None
    ]
    return chains[0] if len(chains) == 1 else None


_Taken = list[tuple[Step, Value | None]]


def _steps(node: Node) -> Iterator[tuple[Value, _Taken, int]]:
    """Operands that a node may change, the steps that do so, and how often it reads the operand."""
    if len(node.outputs) != 1 or node.output.dtype != "float32":
        return
    dims = node.output.dims
    if node.op == "reshape":
        if node.args[0].shape is not None and node.args[0].dims[-1:] == dims[-1:]:
            yield node.args[0], [], 1
    elif (scaled := factor_of(node)) is not None:
        yield scaled[0], [(Step("multiply", dims, value=scaled[1]), None)], 1
    elif node.op in ("add", "multiply"):
        for source, other in (node.args, node.args[::-1]):
            if _fits(source, other, node) and other.dtype == "float32":
                yield source, [(Step(node.op, dims, other.dims), other)], 1
    elif node.op == "where":
        yield from _selections(node)


def _selections(node: Node) -> Iterator[tuple[Value, _Taken, int]]:
    """Steps that replace elements by a number."""
    mask, dims = node.args[0], node.output.dims
    for source, other, kind in (
        (node.args[1], node.args[2], "keep"),
        (node.args[2], node.args[1], "fill"),
    ):
        number = scalar(other)
        if number is None or not _fits(source, mask, node):
            continue
        test = made_by(mask, "isnan")
        if test is not None and test.args[0] is source:
            if kind == "fill":
                yield source, [(Step("fill_nan", dims, value=number), None)], 2
        elif mask.dtype == "bool":
            yield source, [(Step(kind, dims, mask.dims, value=number), mask)], 1


def _fits(source: Value, other: Value, node: Node) -> bool:
    """Whether ``source`` has the shape of a node's result, to which ``other`` is broadcast."""
    return source.shape == node.output.shape and other.shape is not None and bool(other.shape)
