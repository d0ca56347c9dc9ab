"""Models of INT8 operators: single ones, and small networks by onnxruntime's quantization tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Arrays = Mapping[str, np.ndarray]


def single_node(
    op: str,
    operands: Sequence[np.ndarray | None],
    result: str = "uint8",
    *,
    data: Sequence[int] = (0,),
    opset: int = 13,
    domain: str = "",
    **attrs: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node called ``node1``, and what to feed it.

    Parameters
    ----------
    op
        The operator.
    operands
        Its inputs; None leaves an optional one out.
    result
        Type of its output ``y``.
    data
        Places of the operands that are inputs of the model; the others are constants.
    """
    names = ["" if value is None else f"x{place}" for place, value in enumerate(operands)]
    feeds = {names[place]: np.asarray(operands[place]) for place in data}
    constants = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in zip(names, operands, strict=True)
        if value is not None and name not in feeds
    ]
    inputs = [
        helper.make_tensor_value_info(name, _code(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    output = helper.make_tensor_value_info("y", _code(result), None)
    node = helper.make_node(op, names, ["y"], "node1", domain=domain, **attrs)
    graph = helper.make_graph([node], "single", inputs, [output], constants)
    return _model(graph, opset), feeds


def _code(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 21 else 10)


IMAGE = (1, 3, 32, 32)


def small_network(opset: int = 13) -> onnx.ModelProto:
    """Every operator that onnxruntime's quantization tool writes in both formats."""
    rng = np.random.default_rng(0)
    constants = {
        "low": np.float32(0),
        "high": np.float32(6),
        "factors": np.array([1, 1, 2, 2], np.float32),
    }
    nodes = []

    def weight(name: str, *shape: int) -> str:
        values = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        constants[name] = values.astype(np.float32)
        return name

    def add(op: str, inputs: list[str], output: str, **attrs: Any) -> None:
        nodes.append(helper.make_node(op, inputs, [output], output, **attrs))

    edge = {"pads": [1] * 4}
    add("Conv", ["x", weight("w1", 16, 3, 3, 3), weight("b1", 16)], "c1", strides=[2, 2], **edge)
    add("Relu", ["c1"], "r1")
    add("Conv", ["r1", weight("w2", 16, 1, 3, 3), weight("b2", 16)], "c2", group=16, **edge)
    add("Clip", ["c2", "low", "high"], "r2")
    add("Conv", ["r2", weight("w3", 16, 16, 1, 1)], "c3")
    add("Add", ["c3", "r1"], "a1")
    add("Relu", ["a1"], "r3")
    add("MaxPool", ["r3"], "m1", kernel_shape=[3, 3], strides=[2, 2], **edge)
    add("Conv", ["m1", weight("w4", 8, 16, 1, 1), weight("b4", 8)], "c4")
    add("LeakyRelu", ["c4"], "l4", alpha=0.1)
    add("Sigmoid", ["l4"], "s4")
    add("Mul", ["l4", "s4"], "u4")
    add("AveragePool", ["u4"], "p4", kernel_shape=[3, 3], **edge)
    add("Concat", ["p4", "m1"], "k", axis=1)
    nearest = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    add("Resize", ["k", "", "factors"], "z", mode="nearest", **nearest)
    add("GlobalAveragePool", ["z"], "g")
    add("Flatten", ["g"], "f")
    add("Gemm", ["f", weight("w5", 10, 24), weight("b5", 10)], "d", transB=1)
    add("Softmax", ["d"], "y", axis=-1)
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", 1, IMAGE)],
        [helper.make_tensor_value_info("y", 1, [1, 10])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def quantised_network(
    folder: Path, form: str, activations: str, weights: str, *, per_channel: bool
) -> onnx.ModelProto:
    """The small network in 8 bits.

    ``form`` is a name of onnxruntime's ``QuantFormat``, the types are of its ``QuantType``.
    """
    from onnxruntime import quantization

    class Images(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._seeds = iter(range(4))

        def get_next(self) -> dict[str, np.ndarray] | None:
            seed = next(self._seeds, None)
            return None if seed is None else {"x": image(seed)}

    onnx.save(small_network(), folder / "float.onnx")
    quantization.quantize_static(
        folder / "float.onnx", folder / "quantised.onnx", Images(),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[activations],
        weight_type=quantization.QuantType[weights],
        per_channel=per_channel,
    )  # fmt: skip
    return onnx.load(folder / "quantised.onnx")


def image(seed: int) -> np.ndarray:
    """Input of the small network."""
    return np.random.default_rng(seed).standard_normal(IMAGE).astype(np.float32)


def with_all_outputs(model: onnx.ModelProto, values: Arrays) -> onnx.ModelProto:
    """The model with these values as its outputs, of which the names and types count."""
    wider = onnx.ModelProto()
    wider.CopyFrom(model)
    del wider.graph.output[:]
    wider.graph.output.extend(
        helper.make_tensor_value_info(name, _code(value.dtype), value.shape)
        for name, value in values.items()
    )
    return wider
