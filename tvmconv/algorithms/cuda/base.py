"""The interface of convolution algorithms on GPUs, and the operands of their expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tvmconv.algorithms.base import DeviceAlgorithm, FloatArray
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# maximum values of an array: kernels have 32-bit indices
MOST_VALUES = 2**31 - 1


class CudaAlgorithm(DeviceAlgorithm[CudaMachine]):
    """One convolution algorithm as a TVM tensor expression for GPUs.

    The expression's arguments are in this order. ``bias`` exists if the epilogue has a step
    ``bias``, and ``residual`` if it has a step ``add``. The workspace after the output holds what
    kernels of a call exchange:

    =========  ==========================================================================
    data       ``(N, C, H, W)``
    weight     :meth:`~tvmconv.algorithms.base.DeviceAlgorithm.packed_weight_shape`
    bias       ``(K,)``
    residual   ``(N, K, OH, OW)``
    output     ``(N, K, OH, OW)``
    workspace  any number of arrays of float32, ``workspace_bytes`` in total
    =========  ==========================================================================
    """

    def unsupported(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """The reason of every algorithm, and the limit of 32-bit indices."""
        reason = super().unsupported(workload, machine)
        values = max(prod(workload.data_shape), prod(workload.result_shape))
        if reason or values <= MOST_VALUES:
            return reason
        return f"an array of it has {values} values, and kernels for GPUs index {MOST_VALUES}"


class SumInRegisters(CudaAlgorithm):
    """An algorithm whose threads add all taps of a value, with weights in ONNX's layout."""

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> tuple[int, ...]:
        """``(K, C / groups, R, S)``."""
        return workload.weight_shape

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> FloatArray:
        """The weight, unchanged."""
        return weight


@dataclass(frozen=True)
class CudaOperands:
    """Placeholders (``te.Tensor``) of one convolution on a GPU.

    ``bias`` and ``residual`` are None if the epilogue has no such step.
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
