"""Which fully connected layers have rows whose own size counts, however small a row is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmconv.graph.ir import Node, Value
from tvmconv.graph.match import CONV, DENSE
from tvmconv.graph.rewrite.attention import ATTENTION

# operators that multiply their operands by others: a sum behind them is not over the layer's rows
_PRODUCTS = (CONV, DENSE, "matmul", ATTENTION)


def is_summed(node: Node, users: Mapping[Value, Sequence[Node]]) -> bool:
    """Whether a sum reads the result of a layer, with no other product between them.

    Such a sum may be the norm by which each row is divided, as in the cosine attention of Swin v2.
    A row of zeros, such as a padded token, must stay zero then: products of sums of rows leave
    rounding errors of its neighbor there, which the division makes as large as any row.
    """
    seen: set[Node] = set()
    front = [node]
    while front:
        for value in front.pop().outputs:
            for user in users.get(value, ()):
                if user.op == "sum":
                    return True
                if user.op not in _PRODUCTS and user not in seen:
                    seen.add(user)
                    front.append(user)
    return False
