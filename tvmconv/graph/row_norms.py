"""Which layers have rows or pixels whose own size counts, however small a row is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvmconv.core.decision import Decision
from tvmconv.graph.ir import Graph, Node, Value
from tvmconv.graph.match import CONV, DENSE
from tvmconv.graph.rewrite.attention import ATTENTION
from tvmconv.selection.policy import Policy, make_policy

# why such a layer has no Strassen products, as a clause
SUMMED = "rows of zeros would not stay zeros, and a sum that may be a norm reads them"
STRASSEN = "strassen"

# operators that multiply their operands by others: a sum behind them is not over the layer's rows
_PRODUCTS = (CONV, DENSE, "matmul", ATTENTION)


def summed_nodes(graph: Graph, users: Mapping[Value, Sequence[Node]]) -> set[Node]:
    """Nodes whose result a sum reads, with no product between them.

    Such a sum may be the norm by which each row is divided, as in the cosine attention of Swin v2.
    A row of zeros, such as a padded token, must stay zero then: products of sums of rows leave
    rounding errors of its neighbor there, which the division makes as large as any row.
    """
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        readers = [user for value in node.outputs for user in users.get(value, ())]
        if any(r.op == "sum" or (r.op not in _PRODUCTS and r in found) for r in readers):
            found.add(node)
    return found


def keeping_zeros(policy: Policy | None) -> Policy:
    """A policy whose convolutions add no neighboring pixels, if it has others."""
    policy = policy or make_policy()
    names = tuple(name for name in policy.algorithms if name != STRASSEN)
    return replace(policy, algorithms=names or policy.algorithms)


def with_reason(decision: Decision, reason: str) -> Decision:
    """A decision in which algorithms that were left out have this reason."""
    others = tuple(
        replace(o, rejected=reason) if o.cause == "disallowed" and STRASSEN in o.algorithm else o
        for o in decision.rejected
    )
    return replace(decision, rejected=others)
