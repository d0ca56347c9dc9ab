"""Which constants the reader computes, and within which bounds.

Everything that depends on constants only is folded: shapes, weights, tables. A small file may
define large constants. Therefore memory and time are limited, and constants without readers are
released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod

import numpy as np
import onnx

from tvmconv.core.errors import ModelError
from tvmconv.core.stored_types import numpy_type
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.evaluate import evaluate, is_evaluated, scratch_bytes, seconds
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.limits import FOLD_SECONDS, FREE_FOLD_BYTES
from tvmconv.frontend.nested.subgraphs import reads
from tvmconv.frontend.operators import CONVERTED
from tvmconv.frontend.shapes import RESIZING

# operators that know their further inputs while the model is read
_BY_PARAMETER = (
    "BatchNormalization", "Clip", "Expand", "OneHot", "PRelu", "Pad", "Resize", "Upsample",
)  # fmt: skip
# operators whose second input is a weight
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# their results' sizes are known only from their operands' values
DYNAMIC = ("Compress", "NonMaxSuppression", "NonZero", "Range", "Unique")


class Folder:
    """Computes constants into a graph and releases constants without readers.

    ``proto`` is the model's graph, which has all readers of each value. ``budget`` limits the bytes
    of computed constants that are alive at a time. ``weight_budget`` is an additional limit for
    weights of layers that are ConstantOfShape.
    """

    def __init__(
        self, graph: OnnxGraph, proto: onnx.GraphProto, budget: int, weight_budget: int
    ) -> None:
        self._graph = graph
        self._budgets = (budget, weight_budget)
        # a list, because sub-graphs share it
        self._seconds_left = [FOLD_SECONDS * max(budget / FREE_FOLD_BYTES, 1.0)]
        self._made: dict[str, int] = {}
        self._alive = [0, 0]
        self._weights: set[str] = set()
        if weight_budget:
            read = {name for n in proto.node if n.op_type in _LAYERS for name in n.input[1:2]}
            filled = (n for n in proto.node if n.op_type == "ConstantOfShape")
            self._weights = {name for n in filled for name in n.output if name in read}
        # reads by nodes that are not folded, and by the graph's outputs, are never taken off
        self._readers = Counter(name for node in proto.node for name in reads(node))
        self._readers.update(output.name for output in proto.output)
        self._parameters = {
            name for node in proto.node if node.op_type in _BY_PARAMETER for name in node.input[1:]
        }

    def inner(self, graph: OnnxGraph, proto: onnx.GraphProto) -> Folder:
        """The folder of a sub-graph, within the same bounds."""
        folder = Folder(graph, proto, *self._budgets)
        folder._alive, folder._seconds_left = self._alive, self._seconds_left
        return folder

    def expect(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Count the reads of nodes that are put in place of another one."""
        for node in nodes:
            self._readers.update(reads(node))
            if node.op_type in _BY_PARAMETER:
                self._parameters.update(node.input[1:])

    def keep(self, names: Iterable[str]) -> None:
        """Keep constants that no node reads."""
        self._readers.update(names)

    def fold(self, node: OnnxNode, proto: onnx.NodeProto, outputs: list[TensorInfo] | None) -> bool:
        """Replace a node by constants; False if the model has to compute it.

        ``outputs`` is the result of shape inference, if any. Raises ``ModelError`` if the constants
        would exceed the budget, or cannot be evaluated.
        """
        constants = self._graph.constants
        if outputs and self._makes_nothing(node, outputs):
            self.store_nothing(node, outputs)
            self.release(node)
            return True
        names = list(dict.fromkeys(name for name in node.inputs if name))
        if not all(name in constants for name in names) or not _is_foldable(node, constants):
            return False
        if node.op == "DequantizeLinear" and not self._is_folded(node):
            return False
        operands = [constants[name] for name in node.inputs if name]
        if outputs is None and node.op not in DYNAMIC:
            return False
        written, size = _sizes(node, operands, outputs)
        self.check_memory(node, size + scratch_bytes(node, operands, written))
        cost = seconds(node, operands, written)
        if cost > self._seconds_left[0]:
            if node.op in CONVERTED:
                return False
            raise node.error(
                "the model's constants take too long to compute; it reads "
                f"{sum(value.nbytes for value in operands)} bytes and writes {size}",
                "fold the model's constants before, or allow more with fold_budget",
            )
        self._seconds_left[0] -= cost
        types = {info.name: info for info in outputs or ()}
        try:
            results = evaluate(node, proto, {name: constants[name] for name in names})
        except ModelError:
            if node.op in CONVERTED and all(value.size for value in operands):
                return False
            raise
        for name, value in results.items():
            self.store(node, name, _as_inferred(node, value, types.get(name)))
        self.release(node)
        return True

    def _makes_nothing(self, node: OnnxNode, outputs: list[TensorInfo]) -> bool:
        """Whether no result has elements, so that all results are known.

        If a size depends on values, onnx's inference may be wrong: it gives a Range of 2**66
        elements none. The converter refuses scales that make empty images.
        """
        made = {info.name for info in outputs if 0 in info.shape}
        is_given = node.op in RESIZING and 0 not in self._graph.shape(node.inputs[0])
        return made == set(filter(None, node.outputs)) and not (is_given or node.op in DYNAMIC)

    def _is_folded(self, node: OnnxNode) -> bool:
        """Whether the numbers of a DequantizeLinear are computed here.

        Kernels of 8 bits read the integers. Some operators want the numbers to be constant, and
        no kernel reads short floating-point numbers.
        """
        integers = not self._graph.types[node.inputs[0]].dtype.startswith("float")
        return not integers or node.outputs[0] in self._parameters

    def store(self, node: OnnxNode, name: str, value: Array) -> None:
        """Add a computed constant."""
        self._graph.types[name] = TensorInfo(name, tuple(value.shape), str(value.dtype))
        if not self._readers[name]:
            return
        self.check_memory(node, value.nbytes)
        self._graph.constants[name] = value
        self._made[name] = value.nbytes
        self._alive[name in self._weights] += value.nbytes

    def store_nothing(self, node: OnnxNode, infos: list[TensorInfo]) -> None:
        """Add results without elements, which have their one possible size."""
        for info in infos:
            self._graph.extents.pop(info.name, None)
            self.store(node, info.name, np.zeros(info.shape, info.dtype))

    def is_read(self, name: str) -> bool:
        """Whether any node or the graph's caller reads a value."""
        return self._readers[name] > 0

    def hold(self, names: Iterable[str]) -> None:
        """Keep values, if they become constants, until :meth:`drop`."""
        self._readers.update(names)

    def release(self, node: OnnxNode) -> None:
        """Drop the operands of a folded node that nobody else reads."""
        self.drop(node.inputs)

    def drop(self, names: Iterable[str]) -> None:
        """Take off one reader of each value, and drop constants without readers."""
        for name in names:
            self._readers[name] -= 1
            if not self._readers[name] and self._graph.constants.pop(name, None) is not None:
                self._alive[name in self._weights] -= self._made.pop(name, 0)

    def check_memory(self, node: OnnxNode, size: int) -> None:
        """Refuse a node whose results would exceed the budget."""
        kind = any(name in self._weights for name in node.outputs)
        alive, budget = self._alive[kind], self._budgets[kind]
        if alive + size > budget:
            raise node.error(
                f"the constants it computes take {size} bytes and those alive before it "
                f"{alive}; together at most {budget} are allowed",
                "check the model's sizes, or allow more with fold_budget",
            )


def _is_foldable(node: OnnxNode, constants: dict[str, Array]) -> bool:
    if node.op == "Dropout":
        return keeps_everything(node, constants)
    return bool(node.inputs) and is_evaluated(node)


def keeps_everything(node: OnnxNode, constants: dict[str, Array]) -> bool:
    """Whether a Dropout is in inference mode."""
    training = node.input(2)
    return not training or (training in constants and not constants[training].any())


def _sizes(
    node: OnnxNode, operands: list[Array], outputs: list[TensorInfo] | None
) -> tuple[int, int]:
    """Elements and bytes of the results; an upper bound where they depend on values."""
    if outputs is not None:
        sizes = [(prod(info.shape), numpy_type(info.dtype).itemsize) for info in outputs]
        return sum(n for n, _ in sizes), sum(n * itemsize for n, itemsize in sizes)
    if node.op == "Range":
        start, limit, delta = (float(value.reshape(-1)[0]) for value in operands)
        finite = bool(delta) and np.isfinite([start, limit, delta]).all()
        count = max((limit - start) / delta, 0.0) if finite else 2.0**62
        written = int(min(count, 2.0**62)) + 1
    else:
        written = operands[0].size * max(operands[0].ndim, 1)
    return written, 8 * written


def _as_inferred(node: OnnxNode, value: Array, info: TensorInfo | None) -> Array:
    """In the inferred element type, which some reference operators widen."""
    if info is None:
        return value
    if value.shape != info.shape:
        raise node.error(
            f"its constant operands give shape {value.shape}, but its output has {info.shape}"
        )
    return value.astype(info.dtype, copy=False)
