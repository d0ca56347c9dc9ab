"""What every convolution algorithm tells the rest of the package about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from tvmconv.core.config import Config
from tvmconv.core.datatypes import FLOAT32, DataTypes, itemsize, refusal
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

FloatArray = npt.NDArray[np.float32]


def images_only(workload: Conv2dWorkload) -> str | None:
    """What algorithms without a reduction over depth say to a 3-D convolution."""
    return (
        "it sums over no depth; use direct, winograd or depthwise" if workload.is_volume else None
    )


def depth_axes(workload: Conv2dWorkload) -> list[Expr]:
    """The reduction axis (``te``) over taps along the depth; none where there are images only."""
    from tvmconv.tvm_api import te

    return [te.reduce_axis((0, workload.kernel_d), "t")] if workload.is_volume else []


def kernel_row(workload: Conv2dWorkload, depth: Sequence[Expr], row: Expr) -> Expr:
    """Row of a packed weight, in which the planes of a kernel follow each other."""
    return depth[0] * workload.kernel_h + row if depth else row


class Algorithm(ABC):
    """One convolution algorithm as a TVM tensor expression.

    The tensor expression's arguments are, in order: data, packed weight, bias if the epilogue
    has ``bias``, residual if it has ``add``, output. Shapes, with ``c`` the machine's lanes:

    ========  ==========================================================================
    data      ``(N, C/c, H, W, c)``, or ``(N, C, H, W)`` where ``data_layout`` is ``NCHW``
    weight    :meth:`packed_weight_shape`
    bias      ``(K/c, c)``
    residual  the output's shape
    output    ``(N, K/c, OH, OW, c)``
    ========  ==========================================================================

    ``N`` counts the planes of all volumes where the convolution is 3-D.

    Channel counts that ``c`` does not divide are rounded up. The surplus lanes of the input may
    hold any finite value (packed weights are zero there); those of the output are finite.
    """

    name: str
    # all that the expression and its schedules compute with
    types: tuple[DataTypes, ...] = (FLOAT32,)
    blocks: tuple[str, ...] = ()
    # names of the stages that can be timed apart, in order, with the blocks of each
    stages: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # every product is of an input value and a weight: what is left where no error budget is kept
    sums_products: bool = True

    def unsupported(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Why this algorithm cannot compute the workload, as a clause; None if it can."""
        return refusal(workload.types, self.types) or self.unsuited(workload, machine)

    @abstractmethod
    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """The reason where it is not the data types, which are :attr:`types`' matter."""

    @abstractmethod
    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
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
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """Shape of the array that :meth:`pack_weight` returns."""

    def packed_weight_bytes(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> int:
        """Bytes of that array."""
        shape = self.packed_weight_shape(workload, machine, config)
        return itemsize(workload.types.weight) * prod(shape)

    @abstractmethod
    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight once, at build time."""

    @abstractmethod
    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Bytes that one call allocates beside its arguments."""

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Multiplications really executed, including those on padded channels."""
        return workload.macs

    def adds_foreign_products(self, workload: Conv2dWorkload, machine: Machine) -> bool:
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
    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Expected max|error| / max|reference| on normally distributed input."""
