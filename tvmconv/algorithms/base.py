"""The interface of convolution algorithms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tvmconv.core.config import Config
from tvmconv.core.datatypes import FLOAT32, DataTypes, itemsize, refusal
from tvmconv.core.epilogue_op import without_fixed_point
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.machines.multiply import lacking, multiply_of_bytes
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

FloatArray = npt.NDArray[np.float32]
# the model of the devices that an algorithm's expression is for
DeviceT = TypeVar("DeviceT", bound=Device, contravariant=True)


def images_only(workload: Conv2dWorkload) -> str | None:
    """Why algorithms without a reduction over depth refuse a 3-D convolution, as a clause."""
    if workload.is_volume:
        return "it sums over no depth; use direct, winograd or depthwise"
    return None


def dense_bytes_only(workload: Conv2dWorkload) -> str | None:
    """Why INT8 algorithms refuse a layer that is not dense or not channel-blocked, as a clause."""
    if workload.types.weight != "int8":
        return f"it needs INT8 weights, and weights are {workload.types.weight}"
    if workload.data_layout != "NCHWc":
        return "it reads channel-blocked input, not plain NCHW"
    if workload.groups > 1:
        return "it computes dense layers, not groups"
    return images_only(workload)


def depth_axes(workload: Conv2dWorkload) -> list[Expr]:
    """The reduction axis (``te``) over taps along the depth; empty for images."""
    from tvmconv.tvm_api import te

    return [te.reduce_axis((0, workload.kernel_d), "t")] if workload.is_volume else []


def reduction_axes(**extents: int) -> list[Expr]:
    """Reduction axes (``te``) with these names and extents."""
    from tvmconv.tvm_api import te

    return [te.reduce_axis((0, extent), name) for name, extent in extents.items()]


def kernel_row(workload: Conv2dWorkload, depth: Sequence[Expr], row: Expr) -> Expr:
    """Row of a packed weight; the planes of a kernel follow each other."""
    return depth[0] * workload.kernel_h + row if depth else row


def rounding_of_sum(taps: float) -> float:
    """Expected max|error| / max|reference| of one FP32 sum of so many products."""
    return float(2.0**-24 * (2.0 + 0.35 * taps**0.5))


def _integer_refusal(workload: Conv2dWorkload, machine: Machine) -> str | None:
    """Why INT8 kernels cannot compute with a workload's integer types."""
    types = workload.types
    data = multiply_of_bytes(machine).data
    if (types.data, types.weight) not in ((data, "int8"), (data, "int16")):
        return f"on {machine.name} it computes in {data} by int8 or int16, not {types}"
    if types.output in ("int8", "uint8") and types.output != data:
        return f"on {machine.name} 8-bit output is {data}, not {types.output}"
    if types.quantisation.requantise == "fixed":
        return without_fixed_point(workload.epilogue)
    return None


class DeviceAlgorithm(ABC, Generic[DeviceT]):
    """One convolution algorithm as a TVM tensor expression, for one kind of device.

    The class of the kind documents the arguments, their order and layout; for CPUs see
    :class:`Algorithm`.
    """

    name: str
    # floating-point types that the expression and its schedules compute with
    types: tuple[DataTypes, ...] = (FLOAT32,)
    # types to which operands may be rounded; an empty name is their own type
    precisions: tuple[str, ...] = ("",)
    # whether the algorithm also computes with INT8
    integers: bool = False
    blocks: tuple[str, ...] = ()
    # names of the stages that can be timed separately, in order, with the blocks of each
    stages: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # every product is of an input value and a weight: a requirement of builds without error budget
    sums_products: bool = True
    # whether it reads NHWC input
    channels_last: bool = False
    # whether output and residual are (N, K, OH, OW) where a channel block has many channels
    plain_output: bool = False
    # whether it computes fully connected layers, and these alone
    matrices: bool = False

    def unsupported(self, workload: Conv2dWorkload, machine: DeviceT) -> str | None:
        """Why this algorithm cannot compute the workload, as a clause; None if it can."""
        reason = self._layout_refusal(workload) or refusal(workload.types, self.types)
        return reason or self.unsuited(workload, machine)

    def _layout_refusal(self, workload: Conv2dWorkload) -> str | None:
        if workload.data_layout == "NHWC" and not self.channels_last:
            return "it does not read NHWC input"
        if workload.is_matrix and not self.matrices:
            return "it computes convolutions, and this is a fully connected layer; use dense"
        if self.matrices and not workload.is_matrix:
            return "it computes fully connected layers (problems with :nc)"
        return None

    @abstractmethod
    def unsuited(self, workload: Conv2dWorkload, machine: DeviceT) -> str | None:
        """The reason to refuse a workload whose data types are supported."""

    @abstractmethod
    def compute(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> list[Tensor]:
        """Placeholders and output (``te.Tensor``) in argument order.

        :class:`~tvmconv.algorithms.operands.Operands` creates them and the block ``output``.
        """

    def reduction(
        self, shape: tuple[int, ...], value: Callable[..., Expr], name: str = "conv2d"
    ) -> Tensor:
        """The main reduction as a block that carries the algorithm's name."""
        from tvmconv.tvm_api import te

        return te.compute(shape, value, name=name, attrs={"tvmconv.algorithm": self.name})

    @abstractmethod
    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> tuple[int, ...]:
        """Shape of the array that :meth:`pack_weight` returns."""

    def packed_weight_bytes(
        self, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> int:
        """Bytes of that array."""
        shape = self.packed_weight_shape(workload, machine, config)
        return itemsize(self.packed_type(workload)) * prod(shape)

    def packed_type(self, workload: Conv2dWorkload) -> str:
        """Type of that array's elements."""
        return workload.types.weight

    def exact_below(self, workload: Conv2dWorkload, config: Config) -> int | None:
        """The limit of sums of integer products below which results are exact.

        None if sums may have any size, because the result is correct modulo ``2**32``.
        """
        return None

    def excess_held(self, config: Config) -> tuple[int, int] | None:
        """The byte permutations and the steps of excess that a kernel supports.

        See :mod:`tvmconv.algorithms.integer.saturation`. None for kernels without excess.
        """
        return None

    def precision(self, config: Config) -> str:
        """The precision of a configuration, one of :attr:`precisions`."""
        return ""

    def suited(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> Config:
        """The config, changed if a kernel for these weights needs another config."""
        return config

    @abstractmethod
    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight once, at build time."""

    def workspace_bytes(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> int:
        """Bytes that one call allocates in addition to its arguments; none by default."""
        return 0

    def multiplies(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> int:
        """Multiplications that are executed, including multiplications of padded channels."""
        return workload.macs

    def adds_foreign_products(self, workload: Conv2dWorkload, machine: DeviceT) -> bool:
        """Whether zero weights meet inputs outside of the convolution: infinity makes NaN.

        Channel blocks hold surplus lanes, or channels of other groups, with zero weights.
        """
        if workload.data_layout != "NCHWc":
            return False
        block, groups = machine.channel_block, workload.groups
        if groups == 1:
            return workload.in_channels > block and workload.in_channels % block > 0
        return any(n // groups % block for n in (workload.in_channels, workload.out_channels))

    def error_estimate(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> float:
        """Expected max|error| / max|reference| on normally distributed input; 0 for integers.

        By default, the rounding of one sum over all taps.
        """
        if workload.types.is_integer:
            return 0.0
        return rounding_of_sum(workload.taps)


class Algorithm(DeviceAlgorithm[Machine]):
    """One convolution algorithm as a TVM tensor expression.

    The tensor expression's arguments are in this order. ``bias`` exists if the epilogue has a step
    ``bias``, and ``residual`` if it has a step ``add``. ``c`` is the machine's channel block:

    ========  ==========================================================================
    data      ``(N, C/c, H, W, c)``, or plain if ``data_layout`` is ``NCHW``, ``NHWC`` or ``NC``.
    weight    :meth:`packed_weight_shape`
    zero      ``(4,)`` of the data's type: the zero point, if padding is not 0.
    bias      ``(K/c, c)`` of the accumulator's type; ``(K,)`` of fully connected layers.
    scale     ``(K/c, c)`` of float32, if sums are rescaled; for ``requantise="fixed"``
              ``(K/c, 3, c)`` of int32.
    numbers   float32 numbers of later steps, see :mod:`tvmconv.operators.requantise`;
              for ``"fixed"`` int32, see :mod:`tvmconv.operators.fixed_point`
    residual  the output's shape
    output    ``(N, K/c, OH, OW, c)``; ``(N, K, OH, OW)`` with :attr:`plain_output`; fully
              connected layers write ``(N, K)``
    ========  ==========================================================================

    :mod:`tvmconv.kernels.arguments` makes the constants. ``N`` counts the planes of all volumes in
    3-D convolutions. Channel counts are rounded up to multiples of ``c``. Surplus lanes of the
    input may hold any finite value, because packed weights are zero there. Surplus lanes of the
    output are finite.
    """

    def unsupported(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Why this algorithm cannot compute the workload, as a clause; None if it can."""
        if reason := self._layout_refusal(workload):
            return reason
        if self.integers and workload.types.is_integer:
            reason = _integer_refusal(workload, machine)
            return reason or self.unsuited(workload, machine)
        if not self.types:
            return f"it computes in INT8, not {workload.types}"
        reason = refusal(workload.types, self.types) or lacking(workload.types, machine)
        return reason or self.unsuited(workload, machine)
