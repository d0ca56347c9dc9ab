"""Case folders of INT8 layers: an ONNX model in QDQ form, and its exact output."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from tvmconv.algorithms.winograd.integers import USUAL_SIGMA
from tvmconv.core.epilogue_op import QUANTISE
from tvmconv.core.errors import InputError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.arguments import Constants
from tvmconv.lab.baselines.case import CHANNELS_LAST
from tvmconv.lab.bench.case_files import SEED, CaseInfo, write_case
from tvmconv.measuring.integers import IntegerOperands, exact_output
from tvmconv.measuring.layer_model import Tensors, model_of, node, window_attributes

_STEPS = ((), (QUANTISE, "add"))


def write_integer_case(
    folder: Path, workload: Conv2dWorkload, name: str = "", count: int = 1
) -> CaseInfo:
    """A folder for one INT8 layer.

    Data and residual are uniformly distributed integers, weights normally distributed ones. Scales
    spread the outputs over 8 bits. Raises :class:`InputError` if baselines do not accept the layer:
    it has other types than 8 bits, or steps other than the addition of a quantized residual.
    """
    import onnx

    w, types = workload, workload.types
    steps = tuple(step.kind for step in w.epilogue if step.kind != "bias")
    if not types.is_requantised or steps not in _STEPS or types.weight != "int8":
        raise InputError(
            f"bench cannot measure the layer {w}. Expected an INT8 layer with 8-bit output, int8 "
            "weights, and only the steps `+bias` and `+quantise+add`."
        )
    operands = _operands(w)
    nodes, values, output = _nodes(w, operands)
    inputs = {"data": operands.data}
    if operands.residual is not None:
        inputs["residual"] = operands.residual
    given = {name: (str(array.dtype), array.shape) for name, array in inputs.items()}
    result = {output: (types.output, w.result_shape)}
    onnx.save(model_of(nodes, values, given, result), folder / "model.onnx")
    onnx.save(model_of(*_channels_last(nodes, values, given, result)), folder / CHANNELS_LAST)
    constants = _arrays(operands.constants)
    shapes = {n: list(v.shape) for n, v in (inputs | values).items()}
    shapes |= {node["outputs"][0]: list(w.result_shape) for node in nodes}
    write_case(folder, folder / "model.onnx", nodes, shapes, constants | values, inputs, [output])
    np.savez(folder / "reference.npz", **{output: exact_output(w, operands)})  # type: ignore[arg-type]
    return CaseInfo(name or str(w), "layer", str(w), w.flops, count)


def _channels_last(
    nodes: list[dict[str, Any]], values: dict[str, Any], inputs: Tensors, outputs: Tensors
) -> tuple[list[dict[str, Any]], dict[str, Any], Tensors, Tensors]:
    """The same model with inputs and outputs of the same names in NHWC, transposed inside.

    Libraries with NHWC kernels cancel the transpositions. A layer inside a network has none.
    """
    moved = {name: f"{name}.nchw" for name in (*inputs, *outputs)}

    def last(tensors: Tensors) -> Tensors:
        return {
            name: (dtype, (shape[0], *shape[2:], shape[1]))
            for name, (dtype, shape) in tensors.items()
        }

    inner = [
        {**each, **{side: [moved.get(n, n) for n in each[side]] for side in ("inputs", "outputs")}}
        for each in nodes
    ]
    before = [_transpose(name, moved[name], [0, 3, 1, 2]) for name in inputs]
    after = [_transpose(moved[name], name, [0, 2, 3, 1]) for name in outputs]
    return [*before, *inner, *after], values, last(inputs), last(outputs)


def _transpose(value: str, output: str, order: list[int]) -> dict[str, Any]:
    # an inner node has the name of the output already
    return {**node("Transpose", [value], output, perm=order), "name": f"{output}.transposed"}


def read_constants(arrays: Any) -> Constants:
    """A layer's constants as :func:`write_integer_case` wrote them."""
    found = {field.name: arrays.get(f"layer.{field.name}") for field in fields(Constants)}
    return Constants(**{**found, "zero_point": int(found["zero_point"])})


def _arrays(constants: Constants) -> dict[str, Any]:
    found = {field.name: getattr(constants, field.name) for field in fields(Constants)}
    return {f"layer.{n}": np.asarray(value) for n, value in found.items() if value is not None}


def _operands(w: Conv2dWorkload) -> IntegerOperands:
    generator, types = np.random.default_rng(SEED), w.types
    info = np.iinfo(types.data)

    def integers(shape: tuple[int, ...]) -> Any:
        return generator.integers(info.min, info.max, shape, types.data, endpoint=True)

    weight = np.rint(generator.normal(0, USUAL_SIGMA, w.weight_shape)).clip(-128, 127)
    # a workload without a zero point pads with zero
    zero_point = info.min + 121 if types.quantisation.data_zero_point else info.min * 0
    deviation = 74 * USUAL_SIGMA * w.taps**0.5
    scale = (generator.uniform(0.7, 1.4, w.out_channels) * 40 / deviation).astype(np.float32)
    bias = np.rint(generator.normal(0, deviation, w.out_channels)).astype(np.int32)
    low, high, zero = info.min, info.max, info.min + 117
    numbers = [0.0, low - zero, high - zero, zero]
    if w.has("add"):
        inner, residual = 0.0231, (info.min + 130, 0.0317, 0, 0)
        numbers = [
            0,
            low - zero,
            high - zero,
            inner,
            *residual,
            1 / 0.0472,
            low - zero,
            high - zero,
            zero,
        ]
    if types.quantisation.whole_range:
        numbers[-3:] = low, high, 0
    constants = Constants(
        weight.astype(np.int8),
        bias if w.has("bias") else None,
        zero_point,
        scale,
        np.array(numbers, np.float32),
    )
    residual_data = integers(w.result_shape) if w.has("add") else None
    return IntegerOperands(integers(w.data_shape), constants, residual_data)


def _nodes(
    w: Conv2dWorkload, operands: IntegerOperands
) -> tuple[list[dict[str, Any]], dict[str, Any], str]:
    """Nodes with explicit windows, initializers, and the name of the output."""
    constants, types = operands.constants, w.types
    assert constants.scale is not None and constants.numbers is not None
    numbers = constants.numbers.astype(np.float64)
    last_zero = np.array(int(numbers[-1]), types.output)
    inner = numbers[3] if w.has("add") else 1.0
    scale = (constants.scale * np.float32(inner)).astype(np.float32)
    values = {
        "data_scale": np.array(1, np.float32),
        "data_zero": np.array(constants.zero_point, types.data),
        "weight": constants.weight,
        "weight_scale": scale,
        "weight_zero": np.zeros(w.out_channels, np.int8),
        "inner_scale": np.array(inner, np.float32),
        "zero": last_zero,
    }
    nodes: list[dict[str, Any]] = []

    def add(op: str, sources: list[str], output: str, **attrs: Any) -> str:
        nodes.append(node(op, sources, output, **attrs))
        return output

    x = add("DequantizeLinear", ["data", "data_scale", "data_zero"], "data_real")
    k = add("DequantizeLinear", ["weight", "weight_scale", "weight_zero"], "weight_real", axis=0)
    sources = [x, k]
    if constants.bias is not None:
        values |= {"bias": constants.bias, "bias_zero": np.zeros(w.out_channels, np.int32)}
        sources.append(
            add("DequantizeLinear", ["bias", "weight_scale", "bias_zero"], "bias_real", axis=0)
        )
    y = add("Conv", sources, "convolution", **window_attributes(w))
    y = add("QuantizeLinear", [y, "inner_scale", "zero"], "quantised")
    if not w.has("add"):
        return nodes, values, y
    values |= {
        "residual_scale": np.array(numbers[5], np.float32),
        "residual_zero": np.array(int(numbers[4]), types.output),
        "sum_scale": np.array(1 / numbers[8], np.float32),
    }
    y = add("DequantizeLinear", [y, "inner_scale", "zero"], "inner_real")
    r = add("DequantizeLinear", ["residual", "residual_scale", "residual_zero"], "residual_real")
    y = add("Add", [y, r], "sum_real")
    return nodes, values, add("QuantizeLinear", [y, "sum_scale", "zero"], "sum")
