"""The chain of steps after an INT8 convolution, as its kernel computes them.

A bias is rounded to a multiple of the accumulators' scale. If this rounding could change the
result, the chain ends before the bias, which is added to the kernel's FP32 result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tvmconv.core.epilogue_op import QUANTISE, EpilogueOp
from tvmconv.graph.ir import Array, Node, Value, constant, per_channel
from tvmconv.graph.match import Readers, residual_of
from tvmconv.graph.quantized.scales import Linear, known_integers, linear_of
from tvmconv.graph.rewrite.activations import limits_of, next_step

# limit of accumulators, which include the bias
SUMS = 2**31
LARGEST_DATA = 255
_ADD = EpilogueOp("add")
# relative difference of equal products of two FP32 scales
_SAME_SCALE = 1e-6
# maximum error of a rounded bias: in units of the next rounding, and, for an FP32 result, relative
# to the channel's largest possible accumulator
_OF_STEP, _OF_REACH = 1 / 256, 1e-6


@dataclass
class Chain:
    """Steps that a kernel computes; ``numbers`` has four numbers for each step after the bias."""

    nodes: list[Node] = field(default_factory=list)
    steps: list[EpilogueOp] = field(default_factory=list)
    numbers: list[tuple[float, float, float, float]] = field(default_factory=list)
    residual: Value | None = None
    bias: Array | None = None
    # rounding error of the bias
    error: Array | float = 0.0
    # scale of the first rounding if only the bias precedes it
    divisor: float = 1.0

    def copy(self) -> Chain:
        """A chain with the same steps, which can be extended separately."""
        lists = (list(self.nodes), list(self.steps), list(self.numbers))
        return Chain(*lists, self.residual, self.bias, self.error, self.divisor)


class ChainReader:
    """Reads the chain after one convolution.

    ``weight`` holds integers without their zero point, ``scale`` the scale of the accumulators of
    each output channel. ``dtype`` is the type of the data.
    """

    def __init__(
        self, node: Node, weight: Array, scale: Array, dtype: str, readers: Readers
    ) -> None:
        self.node, self.scale, self.dtype, self.readers = node, scale, dtype, readers
        self.reach = LARGEST_DATA * np.abs(weight.astype(np.int64)).sum(axis=(1, 2, 3))

    def chains(self) -> tuple[Chain, Chain]:
        """The chain up to the last possible rounding, and the chain of FP32 steps."""
        chain = Chain()
        value = self._bias(chain)
        if np.all(chain.error <= _OF_REACH * self.reach):
            floating = self._floating(chain, value)
        else:
            floating = self._floating(Chain(), self.node.output)
        best: Chain | None = None
        state = chain.copy()
        while (follower := self.readers.only(value)) is not None:
            linear = linear_of(follower, "quantize")
            if linear is not None:
                unnoticed = np.all(chain.error * self.scale <= _OF_STEP * linear.scale)
                if best is None and not unnoticed:
                    break
                best = self._rounded(state, follower, linear, is_last=True)
                state = self._rounded(state, follower, linear, is_last=False)
                value = follower.output
                after = self.readers.only(value)
                back = linear_of(after, "dequantize")
                if after is None or back is None or back.zero_point != linear.zero_point:
                    break
                factor, low, high, _ = state.numbers[-1]
                state.numbers[-1] = (factor, low, high, back.scale)
                state.nodes.append(after)
                value = after.output
            elif (step := next_step(follower, state.steps)) is not None:
                state.steps.append(step)
                state.numbers.append((0, 0, 0, 0))
                state.nodes.append(follower)
                value = follower.output
            elif not self._adds(state, follower, value):
                break
            else:
                value = follower.output
        return best or floating, floating

    def _bias(self, chain: Chain) -> Value:
        value = self.node.output
        follower = self.readers.only(value)
        if follower is None or follower.op != "add" or follower.output.shape != value.shape:
            return value
        found = self._integers(follower.other(value))
        if found is None:
            return value
        chain.bias, chain.error = found
        chain.nodes.append(follower)
        return follower.output

    def _integers(self, value: Value) -> tuple[Array, Array | float] | None:
        """A constant bias in units of the accumulators, and its rounding error."""
        channels = len(self.scale)
        known = known_integers(value)
        if known is not None and np.all(known.zero_point == 0) and known.data.size == channels:
            scale = np.broadcast_to(known.scale, channels)
            if np.allclose(scale, self.scale, rtol=_SAME_SCALE, atol=0):
                return known.data.reshape(-1).astype(np.int64), 0.0
        numbers = value if known is None else constant(known.values())
        vector = per_channel(numbers, channels)
        if vector is None or not np.all(np.isfinite(vector)):
            return None
        with np.errstate(all="ignore"):
            exact = vector / self.scale
        if not np.all(np.abs(exact) < SUMS):
            return None
        bias = np.rint(exact)
        return bias.astype(np.int64), np.abs(bias - exact)

    def _floating(self, chain: Chain, value: Value) -> Chain:
        """Activations and an addition in float32."""
        found = chain.copy()
        while (follower := self.readers.only(value)) is not None:
            step = next_step(follower, found.steps)
            if step is None:
                other = residual_of(follower, value)
                if other is None or found.residual is not None:
                    break
                found.residual, step = other, _ADD
            found.steps.append(step)
            found.nodes.append(follower)
            value = follower.output
        return found

    def _adds(self, state: Chain, node: Node, value: Value) -> bool:
        """Extend a chain by a node, if the node adds an INT8 tensor."""
        other = residual_of(node, value)
        made = other.producer if other is not None else None
        linear = linear_of(made, "dequantize")
        if state.residual is not None or made is None or linear is None:
            return False
        if linear.dtype != self.dtype or made.args[0].is_const:
            return False
        state.residual = made.args[0]
        state.steps.append(_ADD)
        state.numbers.append((linear.zero_point, linear.scale, 0, 0))
        state.nodes.append(node)
        return True

    def _rounded(self, state: Chain, node: Node, linear: Linear, is_last: bool) -> Chain:
        """The chain with a rounding, which includes a limit directly before it."""
        result = state.copy()
        result.nodes.append(node)
        low, high = (end - linear.zero_point for end in linear.limits)
        bounds = limits_of(state.nodes[-1]) if state.nodes else None
        if bounds is not None and result.steps:
            result.steps.pop()
            result.numbers.pop()
            ends = (int(linear.quantized(np.float32(b))) - linear.zero_point for b in bounds)
            low, high = next(ends), next(ends)
        factor = 1.0 / linear.scale
        if not result.steps:
            result.divisor, factor = linear.scale, 1.0
        if is_last:
            result.numbers.append((factor, low, high, linear.zero_point))
        else:
            result.steps.append(EpilogueOp(QUANTISE))
            result.numbers.append((factor, low, high, linear.scale))
        return result
