"""Finds INT8 convolutions, with the chain of steps that becomes part of the kernel.

``conv2d(dequantize(x), dequantize(w))`` is a sum of integer products, times both scales. The kernel
computes the sum exactly. The chain may contain a bias, activations, roundings and the addition of
an INT8 tensor, in the model's order. It ends with the last rounding. If no rounding follows, the
kernel writes FP32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmconv.algorithms.integer.dwords import has_colliding_weights
from tvmconv.core.datatypes import DataTypes, Quantisation
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.graph.ir import Array, Graph, Node, Value, constant, fused_node
from tvmconv.graph.match import (
    BY_FLOAT,
    CONV,
    IN_FLOAT,
    Readers,
    reads_padding,
    replace_layers,
    workload_of,
)
from tvmconv.graph.quantized.chain import LARGEST_DATA, SUMS, Chain, ChainReader
from tvmconv.graph.quantized.scales import EIGHT_BITS, Linear, known_integers, linear_of
from tvmconv.kernels import registry
from tvmconv.kernels.arguments import exceeds_rounding, is_whole_range, sum_bounds
from tvmconv.kernels.multipliers import in_fixed_point
from tvmconv.machines.record import Machine

_PRODUCTS = ("nn.conv2d", "matmul")
# become convolutions of two dimensions
_OTHERS = ("nn.conv2d_transpose", "nn.conv3d_transpose", "nn.conv3d")
_BIAS = EpilogueOp("bias")


def fuse_integer_layers(graph: Graph, machine: Machine, requantize: str = "float") -> None:
    """Replace INT8 convolutions by ``tvmconv.conv2d`` nodes with integer types, in place.

    Arguments are as in :func:`~tvmconv.graph.match.fuse_layers`, with INT8 data and weight and an
    INT32 bias. The attribute ``numbers`` holds the other fields of
    :class:`~tvmconv.kernels.arguments.Constants`. If no kernel computes a convolution, its
    attribute :data:`IN_FLOAT` is the reason.

    With ``requantize="fixed"``, sums are rescaled in integers if possible. Otherwise the attribute
    :data:`BY_FLOAT` is the reason.
    """

    def match(node: Node, readers: Readers) -> tuple[Node, list[Node]] | None:
        if node.op != "nn.conv2d":
            return None
        found = _layer(node, machine, requantize)
        if isinstance(found, str):
            node.attrs[IN_FLOAT] = found
        return found.fused(readers) if isinstance(found, _QuantizedLayer) else None

    replace_layers(graph, match)


def is_weight(value: Value, users: list[Node]) -> bool:
    """Whether a dequantized constant may be the weight or the bias of an INT8 layer."""
    return bool(users) and all(_reads_weight(user, value) for user in users)


def _reads_weight(node: Node, value: Value) -> bool:
    if node.op in (*_PRODUCTS, *_OTHERS):
        return bool(node.args[1] is value)
    made = node.other(value).producer if node.op == "add" else None
    return made is not None and made.op in _PRODUCTS


def _layer(node: Node, machine: Machine, requantize: str) -> _QuantizedLayer | str | None:
    """A quantized convolution, or the reason why it stays in FP32; None for others."""
    dequantized = node.args[0].producer
    known = known_integers(node.args[1])
    if known is None:
        return None
    linear = linear_of(dequantized, "dequantize")
    if dequantized is None or dequantized.op != "dequantize":
        return "its data are not quantised"
    for name, dtype in (("data", dequantized.args[0].dtype), ("weight", known.data.dtype.name)):
        if dtype not in EIGHT_BITS:
            return f"its {name} is {dtype}, kernels multiply 8 bits"
    if linear is None:
        return "its data has no constant scale, or more than one"
    layouts = tuple(node.attrs[name] for name in ("data_layout", "kernel_layout"))
    if layouts != ("NCHW", "OIHW") or len(node.output.shape or ()) != 4:
        return "no kernel has its layout or rank"
    if known.scale.ndim and known.axis != 0:
        return "its weight has scales of another axis than the output channels"
    if not np.all((known.scale > 0) & np.isfinite(known.scale)):
        return "a scale of its weight is not positive"
    return _QuantizedLayer(node, dequantized.args[0], linear, known, machine, requantize)


@dataclass
class _QuantizedLayer:
    node: Node
    data: Value
    linear: Linear
    known: QuantizedConstant
    machine: Machine
    requantize: str

    def fused(self, readers: Readers) -> tuple[Node, list[Node]] | None:
        """The node with its chain; None, with the reason in the attributes, if no kernel fits."""
        weight = self._weight()
        scale = np.broadcast_to(
            np.float64(self.linear.scale) * self.known.scale.astype(np.float64), len(weight)
        )
        reader = ChainReader(self.node, weight, scale, self.linear.dtype, readers)
        chain, floating = reader.chains()
        numbers = np.array(chain.numbers, np.float64).reshape(-1)
        sums = (weight, chain.bias, scale / chain.divisor)
        if exceeds_rounding(*sums, chain.steps, numbers):
            chain, numbers = floating, numbers[:0]
        bias = np.zeros(len(weight)) if chain.bias is None else chain.bias
        if _overflows(weight, bias):
            self.node.attrs[IN_FLOAT] = "32 bits do not hold its sums"
            return None
        workload = self._workload(chain, weight)
        by_float = ""
        if self.requantize == "fixed":
            found = in_fixed_point(
                workload, scale / chain.divisor, numbers, sum_bounds(weight, bias)
            )
            by_float, workload = (found, workload) if isinstance(found, str) else ("", found)
        if reason := unsupported(workload, self.machine):
            self.node.attrs[IN_FLOAT] = reason
            return None
        args = [self.data, constant(weight, self.node.args[1].name)]
        args.append(constant(bias.astype(np.int32), f"{self.node.layer}_bias"))
        args += [chain.residual] if chain.residual is not None else []
        rounds = workload.types.is_requantised
        # fixed-point multipliers are computed from them
        kind = np.float64 if rounds and self.requantize == "fixed" else np.float32
        given = {
            "zero_point": self.linear.zero_point,
            "scale": (scale / chain.divisor).astype(kind),
            "numbers": numbers if rounds else None,
        }
        attrs: dict[str, Any] = {"workload": workload, "numbers": given}
        if by_float:
            attrs[BY_FLOAT] = by_float
        last = [self.node, *chain.nodes][-1]
        return fused_node(CONV, args, last, self.node.layer, attrs), chain.nodes

    def _weight(self) -> Array:
        """The weight without its zero point.

        It is INT8 if the zero point is 0, or 128 for UINT8, and INT8 products are exact on the
        machine. Otherwise it is INT16.
        """
        unsigned = self.known.data.dtype == np.uint8
        shift = 128 if unsigned else 0
        if np.all(self.known.zero_point == shift):
            weight: Array = (self.known.data.astype(np.int16) - shift).astype(np.int8)
            collides = has_colliding_weights(weight, self.node.attrs["groups"], self.machine)
            return weight.astype(np.int16) if collides else weight
        return self.known.centered().astype(np.int16)

    def _workload(self, chain: Chain, weight: Array) -> Conv2dWorkload:
        pads = reads_padding(self.node) and self.linear.zero_point != 0
        output = self.linear.dtype if chain.numbers else "float32"
        whole = bool(chain.numbers) and is_whole_range(chain.numbers[-1], output)
        types = DataTypes(
            self.linear.dtype,
            weight.dtype.name,
            "int32",
            output,
            Quantisation("float", data_zero_point=pads, whole_range=whole),
        )
        return workload_of(self.node, (_BIAS, *chain.steps), types)


def unsupported(workload: Conv2dWorkload, machine: Machine) -> str | None:
    """Why no INT8 kernel computes a workload; None if one does."""
    reasons = []
    for name in registry.ALGORITHMS:
        algorithm = registry.algorithm(name)
        if not algorithm.integers or registry.schedule(name, machine) is None:
            continue
        reason = algorithm.unsupported(workload, machine)
        if reason is None:
            return None
        reasons.append(f"{name}: {reason}")
    return "; ".join(reasons) or f"{machine.family} has no 8-bit kernels"


def _overflows(weight: Array, bias: Array) -> bool:
    taps = np.abs(weight.astype(np.int64)).sum(axis=(1, 2, 3))
    return bool(np.any(LARGEST_DATA * taps + np.abs(bias) >= SUMS))
