"""Properties of a layer's weights that select its kernel, found once and passed as one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.algorithms.cuda.precision import PRECISIONS, largest_finite
from tvmconv.algorithms.integer.saturation import ORDERS, excess_by_orders
from tvmconv.algorithms.winograd.integers import largest_sums, usual_sum, worst_sum
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.machines.device import Device


@dataclass(frozen=True)
class WeightFacts:
    """Properties of the weights of one layer, or of several that share a kernel.

    They are not part of the workload: layers that differ in them share kernels and tuning records.

    - ``largest_sum`` (INT8): the largest magnitude of a sum of products. It decides whether
      Winograd is exact.
    - ``excess`` (INT8): additional steps for weights that saturate, for each number of byte
      permutations; see :func:`tvmconv.algorithms.integer.saturation.excess_steps`.
    - ``largest_weight`` (floating point): the largest finite weight, which a precision must
      represent. 0 if the device has only float32.
    """

    largest_sum: int = 0
    excess: tuple[int, ...] = ()
    largest_weight: float = 0.0

    @classmethod
    def of(cls, weight: npt.NDArray[Any], workload: Conv2dWorkload, machine: Device) -> WeightFacts:
        """The properties of known weights, in ONNX's layout or flattened."""
        if not workload.types.is_integer:
            # a pass over all weights, for which only algorithms that round operands ask
            rounds = bool(registry.precisions(machine))
            return cls(largest_weight=largest_finite(weight) if rounds else 0.0)
        largest = int(largest_sums(weight, workload.types.data).max())
        if workload.types.weight == "int8":
            return cls(largest, excess_by_orders(weight, machine.channel_block))
        return cls(largest, cls.any_weights(workload).excess)

    @classmethod
    def any_weights(cls, workload: Conv2dWorkload) -> WeightFacts:
        """Properties that hold for all weights."""
        if not workload.types.is_integer:
            return cls()
        return cls(worst_sum(workload), (workload.taps,) * len(ORDERS))

    @classmethod
    def usual_weights(cls, workload: Conv2dWorkload) -> WeightFacts:
        """Properties of normally distributed weights, for layers without weights."""
        if not workload.types.is_integer:
            return cls()
        return cls(usual_sum(workload), cls.any_weights(workload).excess)

    def refusal(
        self, algorithm: str, workload: Conv2dWorkload, kind: str, config: Config
    ) -> tuple[str, str]:
        """Why a configuration cannot compute with the weights, and the cause; empty if it can.

        Integer sums must be exact, and weights must be finite in the configuration's precision.
        ``kind`` is the kind of device.
        """
        module = registry.algorithm(algorithm, kind)
        precision = module.precision(config)
        if precision and (why := PRECISIONS[precision].beyond(self.largest_weight)):
            return why, "range"
        limit, held = module.exact_below(workload, config), module.excess_held(config)
        if limit is not None and self.largest_sum >= limit:
            text = f"sums of products may reach {self.largest_sum}, and it is exact below {limit}"
            return text, "overflow"
        if held is not None and (needed := self.excess[held[0] - 1]) > held[1]:
            text = (
                f"pairs of weights beyond 128 need {needed} more steps to be exact, and it has "
                f"{held[1]}"
            )
            return text, "overflow"
        return "", ""

    def joined(self, other: WeightFacts) -> WeightFacts:
        """Properties that hold for both layers."""
        excess = tuple(int(most) for most in np.maximum(self.excess, other.excess))
        return WeightFacts(
            max(self.largest_sum, other.largest_sum),
            excess,
            max(self.largest_weight, other.largest_weight),
        )
