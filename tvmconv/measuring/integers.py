"""8-bit convolutions: seeded operands, and the exact result in 64-bit integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tvmconv.algorithms.winograd.integers import largest_sums
from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.epilogue_op import QUANTISE, EpilogueOp
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.arguments import Constants, in_integers
from tvmconv.measuring.reference import apply_activation, convolution
from tvmconv.operators.requantise import NUMBERS, steps_after_bias


@dataclass(frozen=True)
class IntegerOperands:
    """Operands of one workload in plain layouts.

    ``data`` (N, C, H, W) and ``residual`` have the types of the workload; ``residual`` is None
    where no step adds it.
    """

    data: Array
    constants: Constants
    residual: Array | None


def random_integers(
    workload: Conv2dWorkload,
    seed: int = 0,
    largest_sum: int | None = None,
    halved: bool = False,
) -> IntegerOperands:
    """Uniformly distributed data and weights over their whole range.

    ``halved`` weights have one bit less, so that no algorithm needs saturation corrections. They
    are halved until no sum of products reaches ``largest_sum``, where that is given. Scales spread
    the results over 8 bits, and clip some of them; they have many bits, which avoids exact ties.
    """
    w, types, generator = workload, workload.types, np.random.default_rng(seed)

    def integers(dtype: str, shape: tuple[int, ...]) -> Array:
        info = np.iinfo(dtype)
        return generator.integers(info.min, info.max, shape, dtype, endpoint=True)

    wide = types.weight == "int16"
    weight = generator.integers(-255, 255, w.weight_shape, "int16", endpoint=True)
    weight = weight if wide else integers("int8", w.weight_shape)
    weight = weight >> 1 if halved else weight
    while largest_sum is not None and largest_sums(weight, types.data).max() >= largest_sum:
        weight = (weight / 2).astype(weight.dtype)
    low, high = (np.iinfo(types.data).min, np.iinfo(types.data).max)
    zero_point = int(generator.integers(low, high, endpoint=True)) if w.has("bias") else 0
    if w.reads_padding and not types.quantisation.data_zero_point:
        zero_point = 0
    sums = 1e4 * (2 if wide else 1) * w.taps**0.5
    bias = generator.integers(-int(sums), int(sums), w.out_channels, "int32", endpoint=True)
    scale = None
    if types.quantisation.requantise != "none":
        scale = (generator.uniform(0.7, 1.4, w.out_channels) * 60 / sums).astype(np.float32)
    constants = Constants(
        weight, bias if w.has("bias") else None, zero_point, scale, _random_numbers(w, generator)
    )
    residual = None
    if w.has("add"):
        residual = integers(types.output, w.result_shape) if types.is_requantised else None
        if residual is None:
            residual = generator.standard_normal(w.result_shape).astype(np.float32)
    return IntegerOperands(integers(types.data, w.data_shape), constants, residual)


def exactly_added(workload: Conv2dWorkload, operands: IntegerOperands) -> IntegerOperands:
    """Operands whose every product before an addition of floats is exact.

    An FMA rounds once where numpy rounds twice: with these operands both give the same number.
    Numbers of the steps and residuals have 9 bits, as zero points do; scales are powers of two.
    """
    constants, residual = operands.constants, operands.residual
    scale, numbers = constants.scale, constants.numbers
    if scale is not None and (workload.has("add") or workload.has("hardsigmoid")):
        scale = np.exp2(np.rint(np.log2(scale))).astype(np.float32)
    if numbers is not None:
        rows = _few_bits(numbers).reshape(-1, NUMBERS)
        for row, step in zip(rows, [*steps_after_bias(workload.epilogue), None], strict=True):
            if step is None or step.kind == QUANTISE:
                # kernels multiply it by other numbers
                row[0] = np.exp2(np.rint(np.log2(row[0] or 1)))
        numbers = rows.reshape(-1)
    if residual is not None and residual.dtype == np.float32:
        residual = _few_bits(residual)
    constants = replace(constants, scale=scale, numbers=numbers)
    return replace(operands, constants=constants, residual=residual)


def _few_bits(values: Array) -> Array:
    """The nearest float32 with significands of 9 bits."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    nearest: Array = np.ldexp(np.rint(fraction * 512) / 512, exponent).astype(np.float32)
    return nearest


def exact_output(
    workload: Conv2dWorkload, operands: IntegerOperands, dtype: str = "float64"
) -> Array:
    """The output (N, K, OH, OW), of the workload's type.

    Rescaled in FP32 as ONNX defines it, or in 64-bit integers as
    :mod:`tvmconv.operators.fixed_point` does. :func:`exact_sums` explains ``dtype``.
    """
    w, constants = workload, operands.constants
    sums = exact_sums(w, operands, dtype)
    if w.types.quantisation.requantise == "none":
        assert w.epilogue in ((), (EpilogueOp("bias"),)), w
        return sums.astype(np.int32)
    assert constants.scale is not None
    if w.types.quantisation.requantise == "fixed":
        return _exact_in_integers(w, operands, sums)
    scale = np.broadcast_to(constants.scale, w.out_channels).reshape(1, -1, 1, 1)
    value = sums.astype(np.float32) * scale
    is_scaled, numbers = w.types.is_requantised, _rows(constants)
    for step in steps_after_bias(w.epilogue):
        if step.kind == QUANTISE:
            row = next(numbers)
            value = _rounded(value, row, is_scaled) * row[3]
        elif step.kind == "add":
            assert operands.residual is not None
            term = operands.residual
            if w.types.is_requantised:
                zero, factor, *_ = next(numbers)
                term = (term.astype(np.float32) - zero) * factor
            value = value + term
        else:
            if w.types.is_requantised:
                next(numbers)
            value = apply_activation(step, value.astype(np.float64)).astype(np.float32)
        is_scaled = False
    if not w.types.is_requantised:
        unrounded: Array = value
        return unrounded
    row = next(numbers)
    result: Array = (_rounded(value, row, is_scaled) + row[3]).astype(np.int64)
    return result.astype(w.types.output)


def exact_sums(
    workload: Conv2dWorkload, operands: IntegerOperands, dtype: str = "float64"
) -> Array:
    """Accumulators with the bias, int64; the zero point is subtracted from the data.

    ``dtype`` must hold every sum: float64, which is fast and exact below 2**53, or int64.
    """
    constants = operands.constants
    data = operands.data.astype(np.int64) - constants.zero_point
    plain = replace(workload, types=FLOAT32, epilogue=())
    sums = convolution(plain, {"data": data}, {"weight": constants.weight}, dtype).astype(np.int64)
    if constants.bias is not None:
        sums = sums + constants.bias.reshape(1, -1, 1, 1)
    return sums


def _exact_in_integers(workload: Conv2dWorkload, operands: IntegerOperands, sums: Array) -> Array:
    """Sums (N, K, OH, OW) rescaled by the layer's multipliers and shifts."""
    fixed = in_integers(workload, operands.constants)
    multiplier, right, left = fixed.scale.astype(np.int64).reshape(3, 1, -1, 1, 1)
    rows = fixed.numbers.astype(np.int64).reshape(-1, NUMBERS)
    steps = [step.kind for step in steps_after_bias(workload.epilogue)]
    if steps[:1] != ["add"]:
        left = np.zeros_like(left)
    # both factors are below 2**31, and so is half of a unit
    value = ((sums << left) * multiplier + (1 << (31 + right))) >> (32 + right)
    is_sum = steps[:1] != ["add"]
    for kind, row in zip([*steps, ""], rows, strict=True):
        if kind == "add":
            assert operands.residual is not None
            value = value + (operands.residual.astype(np.int64) - row[0]) * row[1]
        else:
            whole = value if is_sum else (value + (1 << (row[0] - 1))) >> row[0]
            bounded = whole.clip(row[1], row[2])
            value = bounded * row[3] if kind else bounded + row[3]
        is_sum = False
    result: Array = value.astype(workload.types.output)
    return result


def _random_numbers(w: Conv2dWorkload, generator: np.random.Generator) -> Array | None:
    if not w.types.is_requantised:
        return None
    low, high = np.iinfo(w.types.output).min, np.iinfo(w.types.output).max
    rows = []
    for step in steps_after_bias(w.epilogue):
        zero = int(generator.integers(low, high // 2, endpoint=True))
        unit = float(generator.uniform(0.02, 0.04))
        factor = 1.0 if w.epilogue[-1].kind == step.kind else 1 / unit
        rows.append(
            {
                QUANTISE: (factor, low - zero, high - zero, unit),
                "add": (zero, unit, 0, 0),
            }.get(step.kind, (0, 0, 0, 0))
        )
    if w.types.quantisation.whole_range:
        rows.append((float(generator.uniform(20, 40)), low, high, 0))
        return np.array(rows, np.float32).reshape(-1)
    zero = int(generator.integers(low, high, endpoint=True))
    # the last bounds are tighter, as a fused clip makes them
    rows.append((float(generator.uniform(20, 40)), low - zero + 3, high - zero - 5, zero))
    return np.array(rows, np.float32).reshape(-1)


def _rows(constants: Constants) -> Iterator[tuple[np.float32, ...]]:
    numbers = constants.numbers if constants.numbers is not None else np.zeros(0, np.float32)
    return iter(tuple(row) for row in numbers.astype(np.float32).reshape(-1, NUMBERS))


def _rounded(value: Array, row: tuple[np.float32, ...], is_scaled: bool) -> Array:
    scaled = value if is_scaled else value * row[0]
    result: Array = np.rint(scaled.clip(row[1], row[2]))
    return result
