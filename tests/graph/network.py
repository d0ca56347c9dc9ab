"""Small ONNX networks for graph tests, and what becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tvmconv.frontend import read_model, to_relax
from tvmconv.frontend.canonical import layer_name
from tvmconv.graph.ir import Graph, Node
from tvmconv.graph.layout import LayoutPlan, plan_layouts
from tvmconv.graph.match import CONV
from tvmconv.graph.prelude import prepare
from tvmconv.graph.read import read_function
from tvmconv.machines.record import Machine
from tvmconv.machines.x86 import MACHINES
from tvmconv.model import CompiledModel

AVX512: Machine = MACHINES["x86-64-v4"]


class Net:
    """Writes nodes one after the other; every method returns the name of its result."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        self.shapes: dict[str, tuple[int, ...]] = {"x": shape}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []

    def input(self, name: str, *shape: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def const(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def random(self, *shape: int, scale: float = 1.0) -> str:
        values = self.generator.standard_normal(shape) * scale
        return self.const(values.astype(np.float32))

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        names = [f"{kind.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, names[0], **attrs))
        return names[0] if outputs == 1 else names

    def conv(
        self,
        x: str,
        cin: int,
        cout: int,
        k: int = 3,
        bias: bool = True,
        **attrs: Any,
    ) -> str:
        group = attrs.setdefault("group", 1)
        fan = cin // group * k * k
        inputs = [x, self.random(cout, cin // group, k, k, scale=fan**-0.5)]
        inputs += [self.random(cout)] if bias else []
        attrs.setdefault("pads", [k // 2] * 4)
        return self.op("Conv", *inputs, kernel_shape=[k, k], **attrs)

    def model(self, *outputs: str) -> onnx.ModelProto:
        results = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.constants)
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=9)
        return onnx.shape_inference.infer_shapes(model)


def check(model: onnx.ModelProto, target: Any = "native", threads: int = 1) -> CompiledModel:
    """Build, run and compare with onnxruntime: 1e-4 of each output's largest value."""
    generator = np.random.default_rng(7)
    feeds = {
        value.name: generator.standard_normal(
            [d.dim_value for d in value.type.tensor_type.shape.dim], dtype=np.float32
        )
        for value in model.graph.input
    }
    compiled = tvmconv.build(model, target, threads=threads)
    actual = compiled.run(feeds)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in model.graph.output]
    for name, expected in zip(names, session.run(names, feeds), strict=True):
        value = np.asarray(actual[name])
        assert expected.shape == value.shape, name
        assert np.abs(expected - value).max() <= 1e-4 * max(np.abs(expected).max(), 1e-6), name
    return compiled


def prepared(model: onnx.ModelProto, machine: Machine = AVX512) -> Graph:
    """The graph after its standard rewrites and matching."""
    graph = read_function(to_relax(read_model(model))["main"], layer_name)
    prepare(graph, machine)
    return graph


def planned(model: onnx.ModelProto, machine: Machine = AVX512) -> tuple[Graph, LayoutPlan]:
    """The graph with its layouts and decisions."""
    graph = prepared(model, machine)
    return graph, plan_layouts(graph, machine)


def convs(graph: Graph) -> list[Node]:
    """The fused convolutions in execution order."""
    return [node for node in graph.nodes if node.op == CONV]


def epilogues(graph: Graph) -> list[str]:
    """The epilogue of each convolution, as in problem strings."""
    return ["+".join(map(str, n.attrs["workload"].epilogue)) for n in convs(graph)]


def other_ops(graph: Graph) -> list[str]:
    """The operators without a fused convolution."""
    return [node.op for node in graph.nodes if node.op != CONV]
