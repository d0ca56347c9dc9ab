"""A convolution layer as an ONNX model of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload

if TYPE_CHECKING:
    import onnx

# types and shapes by name
Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def window_attributes(workload: Conv2dWorkload) -> dict[str, Any]:
    """ONNX's attributes of a convolution's window."""
    w = workload
    return {
        "kernel_shape": [w.kernel_h, w.kernel_w],
        "strides": [w.stride_h, w.stride_w],
        "dilations": [w.dilation_h, w.dilation_w],
        "pads": [w.pad_top, w.pad_left, w.pad_bottom, w.pad_right],
        "group": w.groups,
    }


def layer_model(
    workload: Conv2dWorkload, constants: dict[str, Array]
) -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    """A layer as an ONNX model, and its nodes as cases store them.

    The inputs are ``data`` and, where the layer adds one, ``residual``. ``constants`` holds
    ``weight`` and ``bias``; further constants of the nodes are added to it.
    """
    inputs = {"data": ("float32", workload.data_shape)}
    if workload.has("add"):
        inputs["residual"] = ("float32", workload.result_shape)
    nodes, output = _layer_nodes(workload, constants)
    outputs = {output: ("float32", workload.result_shape)}
    return model_of(nodes, constants, inputs, outputs), nodes


def model_of(
    nodes: Sequence[Mapping[str, Any]],
    constants: Mapping[str, Array],
    inputs: Tensors,
    outputs: Tensors,
) -> onnx.ModelProto:
    """An ONNX model of the nodes of a case."""
    import onnx

    helper = onnx.helper

    def described(tensors: Tensors) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape)
            )
            for name, (dtype, shape) in tensors.items()
        ]

    graph = helper.make_graph(
        [
            helper.make_node(n["op"], n["inputs"], n["outputs"], n["name"], **n["attrs"])
            for n in nodes
        ],
        "layer",
        described(inputs),
        described(outputs),
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op: str, inputs: Sequence[str], output: str, **attrs: Any) -> dict[str, Any]:
    """One operator as cases store it, named after its output."""
    return {
        "name": output,
        "op": op,
        "inputs": list(inputs),
        "outputs": [output],
        "attrs": attrs,
    }


def _layer_nodes(
    w: Conv2dWorkload, constants: dict[str, Array]
) -> tuple[list[dict[str, Any]], str]:
    """The convolution and its epilogue as ONNX nodes, and the name of the last value."""
    steps = list(w.epilogue)
    sources = ["data", "weight"]
    # a bias that comes first belongs to the Conv node, as every exporter writes it
    if steps and steps[0].kind == "bias":
        sources.append("bias")
        steps.pop(0)
    nodes = [node("Conv", sources, "convolution", **window_attributes(w))]
    for step in steps:
        nodes += _step_nodes(step, nodes[-1]["outputs"][0], constants)
    return nodes, nodes[-1]["outputs"][0]


def _step_nodes(step: EpilogueOp, x: str, constants: dict[str, Array]) -> list[dict[str, Any]]:
    y = f"{x}_{step.kind}"
    match step.kind:
        case "bias":
            constants["channel_bias"] = constants["bias"][:, None, None]
            return [node("Add", [x, "channel_bias"], y)]
        case "add":
            return [node("Add", [x, "residual"], y)]
        case "leakyrelu":
            return [node("LeakyRelu", [x], y, alpha=step.params[0])]
        case "clip":
            constants["low"], constants["high"] = (np.array(p, "float32") for p in step.params)
            return [node("Clip", [x, "low", "high"], y)]
        case "hardsigmoid":
            alpha, beta = step.params
            return [node("HardSigmoid", [x], y, alpha=alpha, beta=beta)]
        case "silu":
            gate = f"{y}_gate"
            return [node("Sigmoid", [x], gate), node("Mul", [x, gate], y)]
        case "gelu" | "gelutanh":
            return _gelu_nodes(step.kind, x, y, constants)
    names = {"relu": "Relu", "sigmoid": "Sigmoid", "hardswish": "HardSwish", "tanh": "Tanh"}
    return [node(names[step.kind], [x], y)]


def _gelu_nodes(kind: str, x: str, y: str, constants: dict[str, Array]) -> list[dict[str, Any]]:
    """x * 0.5 * (1 + f(x)), as exporters write it before opset 20."""
    numbers = {"half": 0.5, "one": 1.0, "root": sqrt(0.5), "cubic": 0.044715, "scale": sqrt(2 / pi)}
    constants |= {f"gelu_{name}": np.array(n, "float32") for name, n in numbers.items()}
    if kind == "gelu":
        curve = [node("Mul", [x, "gelu_root"], f"{y}_in"), node("Erf", [f"{y}_in"], f"{y}_curve")]
    else:
        curve = [
            node("Mul", [x, x], f"{y}_square"),
            node("Mul", [f"{y}_square", "gelu_cubic"], f"{y}_scaled"),
            node("Add", [f"{y}_scaled", "gelu_one"], f"{y}_sum"),
            node("Mul", [x, "gelu_scale"], f"{y}_outer"),
            node("Mul", [f"{y}_outer", f"{y}_sum"], f"{y}_in"),
            node("Tanh", [f"{y}_in"], f"{y}_curve"),
        ]
    return [
        *curve,
        node("Add", [f"{y}_curve", "gelu_one"], f"{y}_gate"),
        node("Mul", [x, f"{y}_gate"], f"{y}_whole"),
        node("Mul", [f"{y}_whole", "gelu_half"], y),
    ]
