"""What every convolution algorithm tells the rest of the package about itself."""

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
# the record of the devices that an algorithm's expression is for
DeviceT = TypeVar("DeviceT", bound=Device, contravariant=True)


def images_only(workload: Conv2dWorkload) -> str | None:
    """What algorithms without a reduction over depth say to a 3-D convolution."""
    return (
        "it sums over no depth; use direct, winograd or depthwise" if workload.is_volume else None
    )


def dense_bytes_only(workload: Conv2dWorkload) -> str | None:
    """What algorithms say that multiply bytes of channel-blocked images by all outputs' weights."""
    if workload.types.weight != "int8":
        return f"it multiplies bytes, and weights are {workload.types.weight}"
    if workload.data_layout != "NCHWc":
        return "it reads channel-blocked input, not plain NCHW"
    if workload.groups > 1:
        return "it computes dense layers, not groups"
    return images_only(workload)


def depth_axes(workload: Conv2dWorkload) -> list[Expr]:
    """The reduction axis (``te``) over taps along the depth; none where there are images only."""
    from tvmconv.tvm_api import te

    return [te.reduce_axis((0, workload.kernel_d), "t")] if workload.is_volume else []


def kernel_row(workload: Conv2dWorkload, depth: Sequence[Expr], row: Expr) -> Expr:
    """Row of a packed weight, in which the planes of a kernel follow each other."""
    return depth[0] * workload.kernel_h + row if depth else row


def _integer_refusal(workload: Conv2dWorkload, machine: Machine) -> str | None:
    """Why 8-bit kernels cannot compute with a workload's integer types."""
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

    What its arguments are, in which order and layout, says the class of the kind:
    :class:`Algorithm` for processors.
    """

    name: str
    # floating types that the expression and its schedules compute with
    types: tuple[DataTypes, ...] = (FLOAT32,)
    # what operands of products may be rounded to; empty stands for their own type
    precisions: tuple[str, ...] = ("",)
    # whether they compute with 8-bit integers, too
    integers: bool = False
    blocks: tuple[str, ...] = ()
    # names of the stages that can be timed apart, in order, with the blocks of each
    stages: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # every product is of an input value and a weight: what is left where no error budget is kept
    sums_products: bool = True

    def unsupported(self, workload: Conv2dWorkload, machine: DeviceT) -> str | None:
        """Why this algorithm cannot compute the workload, as a clause; None if it can."""
        return refusal(workload.types, self.types) or self.unsuited(workload, machine)

    @abstractmethod
    def unsuited(self, workload: Conv2dWorkload, machine: DeviceT) -> str | None:
        """The reason where it is not the data types, which are :attr:`types`' matter."""

    @abstractmethod
    def compute(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> list[Tensor]:
        """Placeholders and output (``te.Tensor``) in argument order.

        :class:`~tvmconv.algorithms.operands.Operands` makes them and the block ``output``.
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
        """What sums of products of integers must stay below for the result to be exact.

        None where they may have any size: sums are then right modulo ``2**32``.
        """
        return None

    def excess_held(self, config: Config) -> tuple[int, int] | None:
        """In how many orders a kernel takes words, and for how many steps of excess it has room.

        See :mod:`tvmconv.algorithms.integer.saturation`. None where no weights have any.
        """
        return None

    def precision(self, config: Config) -> str:
        """Which of :attr:`precisions` a config has; others than their type only where asked for."""
        return ""

    def suited(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> Config:
        """The config, changed where a kernel for these weights needs another."""
        return config

    @abstractmethod
    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight once, at build time."""

    @abstractmethod
    def workspace_bytes(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> int:
        """Bytes that one call allocates beside its arguments."""

    def multiplies(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> int:
        """Multiplications really executed, including those on padded channels."""
        return workload.macs

    def adds_foreign_products(self, workload: Conv2dWorkload, machine: DeviceT) -> bool:
        """Whether zero weights meet inputs that the convolution does not: infinity makes NaN.

        Channel blocks hold surplus lanes, or channels of other groups, with zero weights.
        """
        if workload.data_layout == "NCHW":
            return False
        block, groups = machine.channel_block, workload.groups
        if groups == 1:
            return workload.in_channels > block and workload.in_channels % block > 0
        return any(n // groups % block for n in (workload.in_channels, workload.out_channels))

    @abstractmethod
    def error_estimate(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> float:
        """Expected max|error| / max|reference| on normally distributed input."""


class Algorithm(DeviceAlgorithm[Machine]):
    """One convolution algorithm as a TVM tensor expression.

    The tensor expression's arguments are, in this order, those that the workload has (the bias
    where the epilogue has ``bias``, the residual where it has ``add``). Shapes, with ``c`` the
    machine's channel block:

    ========  ==========================================================================
    data      ``(N, C/c, H, W, c)``, or ``(N, C, H, W)`` where ``data_layout`` is ``NCHW``
    weight    :meth:`packed_weight_shape`
    zero      ``(4,)`` of the data's type, each its zero point, where padding holds that
    bias      ``(K/c, c)`` of the accumulator's type
    scale     ``(K/c, c)`` of float32, where sums are rescaled; of ``requantise="fixed"``
              ``(K/c, 3, c)`` of int32
    numbers   of float32, those of the steps behind, see :mod:`tvmconv.operators.requantise`;
              of ``"fixed"`` of int32, see :mod:`tvmconv.operators.fixed_point`
    residual  the output's shape
    output    ``(N, K/c, OH, OW, c)``
    ========  ==========================================================================

    :mod:`tvmconv.kernels.arguments` makes the constant ones.

    ``N`` counts the planes of all volumes where the convolution is 3-D.

    Channel counts that ``c`` does not divide are rounded up. The surplus lanes of the input may
    hold any finite value (packed weights are zero there); those of the output are finite.
    """

    def unsupported(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Why this algorithm cannot compute the workload, as a clause; None if it can."""
        if self.integers and workload.types.is_integer:
            reason = _integer_refusal(workload, machine)
            return reason or self.unsuited(workload, machine)
        if not self.types:
            return f"it computes in 8 bits, not {workload.types}"
        reason = refusal(workload.types, self.types) or lacking(workload.types, machine)
        return reason or self.unsuited(workload, machine)
