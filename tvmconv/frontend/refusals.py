"""Errors of single nodes: the first one ends a build, and ``check`` collects all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvmconv.core.errors import ModelError
from tvmconv.frontend.cut import cut_before, cut_text
from tvmconv.frontend.nested.subgraphs import reads
from tvmconv.frontend.operators import is_imported
from tvmconv.frontend.structure import check_operator

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Refusal:
    """A node that cannot be built: its name, its operator, and the error."""

    node: str
    operator: str
    error: str


@dataclass
class Refusals:
    """Raises the errors of nodes, or collects them.

    ``values`` are the values that the model's nodes make. ``unknown`` are those whose shapes are
    not known because of ``found``, and ``unread`` counts the nodes that depend on them.
    """

    collects: bool = False
    found: list[Refusal] = field(default_factory=list)
    values: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    unread: int = 0

    def add(self, node: str, operator: str, error: ModelError) -> None:
        """Keep an error, or raise it."""
        if not self.collects:
            raise error
        self.found.append(Refusal(node, operator, str(error)))

    def add_node(self, proto: onnx.NodeProto, error: ModelError) -> None:
        """Keep the error of a node whose results are unknown from now on, or raise it."""
        self.add(proto.name or next(iter(proto.output), ""), proto.op_type, error)
        self.unknown.update(filter(None, proto.output))

    def hides(self, proto: onnx.NodeProto) -> bool:
        """Whether a node of a known operator depends on unknown values, and cannot be read."""
        if self.unknown.isdisjoint(reads(proto)) or not is_imported(proto.domain, proto.op_type):
            return False
        self.unread += 1
        self.unknown.update(filter(None, proto.output))
        return True


def refuse_operators(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Raise ``ModelError`` if the reader does not know an operator, and say where to cut.

    ``nodes`` are the graph's in execution order.
    """
    unknown = [node for node in nodes if not is_imported(node.domain, node.op_type)]
    if not unknown:
        return
    try:
        check_operator(unknown[0])
    except ModelError as error:
        text = str(error)
    if len(unknown) > 1:
        text += f" {len(unknown) - 1} other nodes are refused; `tvmconv check` lists them."
    cut = cut_before(graph, nodes, [name for node in unknown for name in node.output if name])
    if options := cut_text(cut):
        text += f" The part before can be built by {options}."
    raise ModelError(text)
