"""Finds convolutions of 8-bit integers, with the chain of steps that the kernel rounds in.

``conv2d(dequantize(x), dequantize(w))`` sums products of real numbers, each an integer times a
scale: it is a sum of integers times both scales, which the kernel computes exactly. Bias,
activations, roundings and the addition of an 8-bit tensor are taken in the model's order, up to
the last rounding; a kernel whose result no rounding follows writes float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmconv.algorithms.integer.dwords import has_colliding_weights
from tvmconv.core.datatypes import DataTypes, Quantisation
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.graph.ir import Array, Graph, Node, Value, constant
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
from tvmconv.graph.quantized.scales import EIGHT_BITS, Known, Linear, known_integers, linear_of
from tvmconv.kernels import registry
from tvmconv.kernels.arguments import exceeds_rounding, sum_bounds
from tvmconv.kernels.multipliers import in_fixed_point
from tvmconv.machines.record import Machine

_PRODUCTS = ("nn.conv2d", "matmul")
# become convolutions of two dimensions
_OTHERS = ("nn.conv2d_transpose", "nn.conv3d")
_BIAS = EpilogueOp("bias")


def fuse_integer_layers(graph: Graph, machine: Machine, requantize: str = "float") -> None:
    """Replace 8-bit convolutions by ``tvmconv.conv2d`` nodes with integer types, in place.

    Their arguments are as :func:`~tvmconv.graph.match.fuse_layers` makes them: the 8-bit data,
    the weight, an int32 bias, and the residual where the epilogue has one. The attribute
    ``numbers`` holds the other fields of :class:`~tvmconv.kernels.arguments.Constants`.
    A convolution that no kernel takes gets the reason as its attribute :data:`IN_FLOAT`. With
    ``requantize="fixed"`` sums are rescaled in integers where they can be; other nodes have the
    reason as their attribute :data:`BY_FLOAT`.
    """

    def match(node: Node, readers: Readers) -> tuple[Node, list[Node]] | None:
        if node.op != "nn.conv2d":
            return None
        found = _layer(node, machine, requantize)
        if isinstance(found, str):
            node.attrs[IN_FLOAT] = found
        return found.fused(readers) if isinstance(found, _Layer) else None

    replace_layers(graph, match)


def is_weight(_value: Value, users: list[Node]) -> bool:
    """Whether a dequantised constant may be the weight or the bias of an 8-bit layer."""
    return bool(users) and all(_takes(user, _value) for user in users)


def _takes(node: Node, value: Value) -> bool:
    if node.op in (*_PRODUCTS, *_OTHERS):
        return bool(node.args[1] is value)
    if node.op != "add":
        return False
    left, right = node.args
    other = right if left is value else left
    return other.producer is not None and other.producer.op in _PRODUCTS


def _layer(node: Node, machine: Machine, requantize: str) -> _Layer | str | None:
    """What is known of a convolution; why it stays in float; None where nothing is quantised."""
    dequantised = node.args[0].producer
    known = known_integers(node.args[1])
    if known is None:
        return None
    linear = linear_of(dequantised, "dequantize")
    if dequantised is None or dequantised.op != "dequantize":
        return "its data are not quantised"
    for name, dtype in (("data", dequantised.args[0].dtype), ("weight", known.data.dtype.name)):
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
    return _Layer(node, dequantised.args[0], linear, known, machine, requantize)


@dataclass
class _Layer:
    node: Node
    data: Value
    linear: Linear
    known: Known
    machine: Machine
    requantize: str

    def fused(self, readers: Readers) -> tuple[Node, list[Node]] | None:
        """The node with its chain, or None, the reason noted, where no kernel takes it."""
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
        last = chain.nodes[-1] if chain.nodes else self.node
        args = [self.data, constant(weight, self.node.args[1].name)]
        args.append(constant(bias.astype(np.int32), f"{self.node.layer}_bias"))
        args += [chain.residual] if chain.residual is not None else []
        rounds = workload.types.is_requantised
        # integers are made of them
        kind = np.float64 if rounds and self.requantize == "fixed" else np.float32
        given = {
            "zero_point": self.linear.zero_point,
            "scale": (scale / chain.divisor).astype(kind),
            "numbers": numbers if rounds else None,
        }
        attrs: dict[str, Any] = {"workload": workload, "numbers": given}
        if by_float:
            attrs[BY_FLOAT] = by_float
        fused = Node(CONV, args, last.outputs, attrs, None, self.node.layer)
        fused.output.producer = fused
        return fused, chain.nodes

    def _weight(self) -> Array:
        """Less its zero point: int8 where that is 0, of unsigned integers 128, else int16.

        Also where the machine's products of bytes are not exact.
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
        types = DataTypes(
            self.linear.dtype,
            weight.dtype.name,
            "int32",
            output,
            Quantisation("float", data_zero_point=pads),
        )
        return workload_of(self.node, (_BIAS, *chain.steps), types)


def unsupported(workload: Conv2dWorkload, machine: Machine) -> str | None:
    """Why no 8-bit kernel computes a workload; None if one does.

    The reasons of algorithms that compute in float32 alone are left out.
    """
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
