"""What every convolution algorithm tells the rest of the package about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.config import Config
from tvmconv.machines.record import Machine
from tvmconv.workload import Conv2dWorkload

FloatArray = npt.NDArray[np.float32]


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

    Channel counts that ``c`` does not divide are rounded up. The surplus lanes of the input may
    hold any finite value (packed weights are zero there); those of the output are finite.
    """

    name: str
    blocks: tuple[str, ...] = ()
    # names of the stages that can be timed apart, in order, with the blocks of each
    stages: tuple[tuple[str, tuple[str, ...]], ...] = ()
    # every product is of an input value and a weight: what is left where no error budget is kept
    sums_products: bool = True

    @abstractmethod
    def unsupported(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Why this algorithm cannot compute the workload, as a clause; None if it can."""

    @abstractmethod
    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Any]:
        """Placeholders and output (``te.Tensor``) in argument order.

        :class:`~tvmconv.algorithms.operands.Operands` makes them and the block ``output``.
        """

    def reduction(
        self, shape: tuple[int, ...], value: Callable[..., Any], name: str = "conv2d"
    ) -> Any:
        """The main reduction as a block that carries the algorithm's name."""
        from tvm import te

        return te.compute(shape, value, name=name, attrs={"tvmconv.algorithm": self.name})

    @abstractmethod
    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """Shape of the array that :meth:`pack_weight` returns."""

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

    @abstractmethod
    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Expected max|error| / max|reference| on normally distributed input."""
