"""The arrays that a convolution kernel takes, made from a layer's constants in plain layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tvmconv.algorithms.operands import DWORD_BYTES, count_of_numbers
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.errors import WorkloadError
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel

if TYPE_CHECKING:
    from tvmconv.kernels.multipliers import FixedNumbers


@dataclass(frozen=True)
class Constants:
    """A layer's constants, known at build time.

    ``weight`` is ``(K, C/groups, R, S)``. ``bias``, ``(K,)`` of the accumulator's type, does not
    include ``zero_point``, the zero point of 8-bit data.

    ``scale``, ``(K,)`` or ``()``, is the factor of the accumulators; None without rescaling. It is
    FP32, but FP64 for ``requantise="fixed"``, which converts it to integers. ``numbers`` are the
    numbers of later steps, for :func:`tvmconv.kernels.merged_scales.merged` or
    :func:`tvmconv.kernels.multipliers.fixed_numbers`.
    """

    weight: Array
    bias: Array | None = None
    zero_point: int = 0
    scale: Array | None = None
    numbers: Array | None = None


# a margin below 2**31, the limit of rounding to int32
_LARGEST_RESULT = 2.0**30
_LARGEST_DATA = 255


def exceeds_rounding(
    weight: Array,
    bias: Array | None,
    scale: Array,
    epilogue: Sequence[EpilogueOp],
    numbers: Array | None,
) -> bool:
    """Whether a value to be rounded may leave the range that kernels round correctly.

    A sum of data minus any zero point is at most 255 times the magnitudes of the weights. Results
    that are rounded to 8 bits approach the limit only if nearly all of them are clipped.
    """
    from tvmconv.kernels.merged_scales import largest_terms, last_factor, merged

    terms, growth = 0.0, 1.0
    if numbers is not None and numbers.size:
        scale, numbers = merged(epilogue, scale, numbers)
        terms = largest_terms(epilogue, numbers)
        growth = max(1.0, last_factor(epilogue, numbers))
    sums = sum_bounds(weight, bias) * scale.astype(np.float64)
    return bool(np.any((sums + terms) * growth >= _LARGEST_RESULT))


def is_whole_range(numbers: Sequence[float] | Array, dtype: str) -> bool:
    """Whether the last rounding, to an 8-bit type, has bounds and zero point of ``whole_range``.

    ``numbers`` are the numbers of the steps, of which the last three decide.
    """
    info = np.iinfo(dtype)
    return [float(number) for number in numbers[-3:]] == [info.min, info.max, 0]


def sum_bounds(weight: Array, bias: Array | None) -> Array:
    """``(K,)`` of int64: the largest magnitude of a sum of data minus any zero point.

    Parameters are as in :class:`Constants`.
    """
    sums: Array = _LARGEST_DATA * np.abs(weight.astype(np.int64)).sum(axis=(1, 2, 3))
    return sums if bias is None else sums + np.abs(bias.astype(np.int64))


def constant_arguments(kernel: Kernel, constants: Constants) -> list[Array]:
    """The constant arguments of a kernel in order, which come between data and residual.

    Raises :class:`WorkloadError` if the workload needs a constant that is missing.
    """
    w, types = kernel.workload, kernel.workload.types
    blocks, lanes = kernel.machine.blocks(w.out_channels), kernel.machine.channel_block
    if w.is_matrix:
        blocks, lanes = w.out_channels, 1
    weight = constants.weight
    found = [kernel.pack_weight(weight)]

    def vector(values: Array, dtype: str) -> Array:
        padded = np.zeros(blocks * lanes, dtype)
        padded[: w.out_channels] = values
        return padded if lanes == 1 else padded.reshape(blocks, lanes)

    if types.quantisation.data_zero_point:
        found.append(np.full(DWORD_BYTES, constants.zero_point, types.data))
    if w.has("bias"):
        bias = constants.bias
        if bias is None:
            raise WorkloadError(f"{w} has a bias, and none is given")
        if types.is_integer:
            found.append(vector(_corrected(bias, constants), types.accumulator))
        else:
            found.append(vector(bias, types.accumulator))
    elif constants.zero_point:
        raise WorkloadError(f"{w} needs a bias: it holds the data's zero point")
    if types.quantisation.requantise != "none" and constants.scale is None:
        raise WorkloadError(f"{w} needs the scales of its sums")
    count, scale, numbers = count_of_numbers(w), constants.scale, constants.numbers
    if count and (numbers is None or numbers.shape != (count,)):
        raise WorkloadError(f"{w} needs {count} numbers of its epilogue")
    if types.is_requantised:
        assert scale is not None and numbers is not None
        if types.quantisation.whole_range and not is_whole_range(numbers, types.output):
            raise WorkloadError(
                f"{w} has an output with bounds and zero point {numbers[-3:].tolist()}. Expected "
                f"the range of {types.output} and 0. Remove the mark whole."
            )
        if exceeds_rounding(weight, constants.bias, scale, w.epilogue, numbers):
            raise WorkloadError(
                f"the scales of {w} let sums reach 2**30. Let the layer write float32, and round "
                "after it."
            )
    if types.quantisation.requantise == "fixed":
        fixed = in_integers(w, constants)
        scales = np.stack([vector(row, "int32") for row in fixed.scale], axis=1)
        # lanes without a channel also have a shift
        scales[:, 1] = np.maximum(scales[:, 1], 1)
        return [*found, scales, fixed.numbers]
    if count and numbers is not None and scale is not None:
        # this import needs TVM; FP32 constants may be packed on a GPU host without TVM
        from tvmconv.kernels.merged_scales import merged

        scale, numbers = merged(w.epilogue, scale, numbers, types.output)
    if types.quantisation.requantise != "none":
        assert scale is not None
        found.append(vector(scale, "float32"))
    if count and numbers is not None:
        found.append(numbers)
    return found


def in_integers(workload: Conv2dWorkload, constants: Constants) -> FixedNumbers:
    """Scales and numbers of ``requantise="fixed"``.

    Raises :class:`WorkloadError` with the reason if no integers represent them.
    """
    assert constants.scale is not None and constants.numbers is not None
    scale = np.broadcast_to(constants.scale, workload.out_channels)
    largest = sum_bounds(constants.weight, constants.bias)
    # this import needs TVM; FP32 constants may be packed on a GPU host without TVM
    from tvmconv.kernels.multipliers import fixed_numbers

    fixed = fixed_numbers(workload.epilogue, scale, constants.numbers, largest)
    if isinstance(fixed, str):
        raise WorkloadError(f"{workload}: {fixed}; rescale it by float32")
    return fixed


def _corrected(bias: Array, constants: Constants) -> Array:
    """The bias with the correction of the data's zero point, modulo 2**32."""
    taps = constants.weight.astype(np.int64).sum(axis=(1, 2, 3))
    exact = bias.astype(np.int64) - constants.zero_point * taps
    return exact.astype(np.uint64).astype(np.uint32).view(np.int32)
