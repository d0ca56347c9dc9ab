"""What every convolution on a GPU tells about itself, and the operands that its expression has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tvmconv.algorithms.base import DeviceAlgorithm, FloatArray
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# values that an array may have: kernels' indices are of 32 bits
MOST_VALUES = 2**31 - 1


class CudaAlgorithm(DeviceAlgorithm[CudaMachine]):
    """One convolution algorithm as a TVM tensor expression for GPUs.

    The expression's arguments are, in this order, those that the workload has (the bias where the
    epilogue has ``bias``, the residual where it has ``add``), and behind the output what the
    kernels of the call leave for each other:

    =========  ==========================================================================
    data       ``(N, C, H, W)``
    weight     :meth:`~tvmconv.algorithms.base.DeviceAlgorithm.packed_weight_shape`
    bias       ``(K,)``
    residual   ``(N, K, OH, OW)``
    output     ``(N, K, OH, OW)``
    workspace  any number of arrays of float32, of ``workspace_bytes`` together
    =========  ==========================================================================
    """

    def unsupported(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """As of every algorithm; and arrays whose values 32 bits do not number."""
        reason = super().unsupported(workload, machine)
        values = max(prod(workload.data_shape), prod(workload.result_shape))
        if reason or values <= MOST_VALUES:
            return reason
        return f"an array of it has {values} values, and kernels for GPUs index {MOST_VALUES}"


class SumInRegisters(CudaAlgorithm):
    """An algorithm whose threads add all taps of a value, of weights as they are."""

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> tuple[int, ...]:
        """``(K, C / groups, R, S)``."""
        return workload.weight_shape

    def pack_weight(
        self,
        weight: FloatArray,
        workload: Conv2dWorkload,
        machine: CudaMachine,
        config: Config,
    ) -> FloatArray:
        """The weight as it is."""
        return weight

    def workspace_bytes(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> int:
        """None: sums are registers."""
        return 0

    def error_estimate(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> float:
        """Rounding of one sum over all taps, as of the processors' direct convolution."""
        return float(2.0**-24 * (2.0 + 0.35 * workload.taps**0.5))


@dataclass(frozen=True)
class CudaOperands:
    """Placeholders (``te.Tensor``) of one convolution on a GPU.

    Parameters
    ----------
    workload
        What is computed.
    data, weight
        The input and the packed weight.
    bias, residual
        None where the epilogue has no such step.
    """

    workload: Conv2dWorkload
    data: Tensor
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None

    @classmethod
    def of(
        cls, workload: Conv2dWorkload, packed_weight: tuple[int, ...], packed_type: str = ""
    ) -> CudaOperands:
        """Placeholders for a weight of this packed shape, and type if not the workload's."""
        from tvmconv.tvm_api import te

        w, t, shape = workload, workload.types, workload.result_shape
        bias = te.placeholder((w.out_channels,), t.accumulator, name="bias")
        residual = te.placeholder(shape, t.output, name="residual")
        return cls(
            w,
            te.placeholder(w.data_shape, t.data, name="data"),
            te.placeholder(packed_weight, packed_type or t.weight, name="weight"),
            bias if w.has("bias") else None,
            residual if w.has("add") else None,
        )

    def finished(self, value: Expr, place: tuple[Index, ...]) -> Expr:
        """The epilogue of one sum that belongs at ``place``, an index of the output."""
        from tvmconv.operators.epilogue import apply_epilogue

        bias = self.bias[place[1]] if self.bias is not None else None
        residual = self.residual[place] if self.residual is not None else None
        return apply_epilogue(value, self.workload.epilogue, bias, residual)

    def output(self, sums: Callable[..., Expr]) -> Tensor:
        """Block ``output``: the epilogue of ``sums`` at every index of the output."""
        from tvmconv.tvm_api import te

        return te.compute(
            self.workload.result_shape,
            lambda n, k, h, x: self.finished(sums(n, k, h, x), (n, k, h, x)),
            name="output",
        )

    def arguments(self, output: Tensor, *workspace: Tensor) -> list[Tensor]:
        """All tensors in argument order."""
        rest = (self.bias, self.residual)
        return [self.data, self.weight, *(t for t in rest if t is not None), output, *workspace]
