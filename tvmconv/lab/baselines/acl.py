"""Arm Compute Library on the CPU, by Arm NN's Python package; NHWC in and out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Array, Case, CaseNode, Session, Unsupported
from .fusion import FusedNode, fuse
from .tflite_graph import TO_NCHW, TO_NHWC

# the part of Arm NN that calls Arm Compute Library's code for CPUs
_BACKEND = "CpuAcc"
# a kernel of Arm Compute Library in Arm NN's profile
_KERNEL = re.compile(r"^NeonKernelTimer/\d+: (.*)_#\d+$")


def version() -> str:
    """Version of Arm NN's interface."""
    import pyarmnn

    return f"{pyarmnn.ARMNN_VERSION} of Arm NN"


def prepare(case: Case, threads: int) -> Session:
    """Copies of inputs and outputs into Arm NN's own memory are part of a call."""
    import pyarmnn as ann

    # the library has as many threads as CPUs that it may use
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    graph = _Graph(case)
    runtime = ann.IRuntime(ann.CreationOptions())
    optimized, _ = ann.Optimize(
        graph.network, [ann.BackendId(_BACKEND)], runtime.GetDeviceSpec(), ann.OptimizerOptions()
    )
    number, _ = runtime.LoadNetwork(optimized)
    results = {name: np.empty(graph.shapes[name], np.float32) for name in case.outputs}
    inputs = [
        (index, ann.ConstTensor(runtime.GetInputTensorInfo(number, index), value))
        for index, value in enumerate(graph.inputs.values())
    ]
    outputs = [
        (index, ann.Tensor(runtime.GetOutputTensorInfo(number, index), value))
        for index, value in enumerate(results.values())
    ]

    def run() -> None:
        runtime.EnqueueWorkload(number, inputs, outputs)

    profiler = runtime.GetProfiler(number)
    profiler.EnableProfiling(True)
    run()
    profiler.EnableProfiling(False)

    def values() -> dict[str, Array]:
        return {
            name: graph.plain(tensor.get_memory_area().reshape(graph.shapes[name]))
            for name, (_, tensor) in zip(results, outputs, strict=True)
        }

    return Session(run, values, info=", ".join(kernels(json.loads(profiler.as_json()))))


def kernels(profile: Any) -> list[str]:
    """Names of the kernels in a profile of Arm NN, in the order of their first calls."""
    found: list[str] = []
    if isinstance(profile, dict):
        for name, inner in profile.items():
            named = _KERNEL.match(name)
            found += [named[1]] if named else kernels(inner)
    return list(dict.fromkeys(found))


class _Graph:
    """The case as a network of Arm NN; values of four dimensions are in NHWC."""

    def __init__(self, case: Case) -> None:
        import pyarmnn

        self.ann: Any = pyarmnn
        self.case = case
        self.network = pyarmnn.INetwork()
        self.slots: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        # the network reads weights where they are until it is loaded
        self.kept: list[Array] = []
        self.inputs = {name: self.stored(value) for name, value in case.inputs.items()}
        for index, (name, value) in enumerate(self.inputs.items()):
            self.produced(name, self.network.AddInputLayer(index), value.shape)
        for step in fuse(case):
            self.add(step)
        for index, name in enumerate(case.outputs):
            layer = self.network.AddOutputLayer(index)
            self.slots[name].Connect(layer.GetInputSlot(0))

    @staticmethod
    def stored(value: Array) -> Array:
        """A value in the order of the network."""
        return np.ascontiguousarray(value.transpose(TO_NHWC) if value.ndim == 4 else value)

    @staticmethod
    def plain(value: Array) -> Array:
        """A value of the network in ONNX's order."""
        return value.transpose(TO_NCHW) if value.ndim == 4 else value

    def info(self, shape: tuple[int, ...]) -> Any:
        """Shape and type of a tensor."""
        return self.ann.TensorInfo(self.ann.TensorShape(shape), self.ann.DataType_Float32)

    def constant(self, value: Array) -> Any:
        """A tensor of weights."""
        self.kept.append(np.ascontiguousarray(value, np.float32))
        return self.ann.ConstTensor(self.info(value.shape), self.kept[-1])

    def produced(self, name: str, layer: Any, shape: tuple[int, ...]) -> None:
        """Note the layer that makes a value."""
        slot = layer.GetOutputSlot(0)
        slot.SetTensorInfo(self.info(shape))
        self.slots[name], self.shapes[name] = slot, shape

    def add(self, step: FusedNode) -> None:
        """A node and its activation, which is a layer of its own."""
        node = step.node
        makers: dict[str, Callable[[CaseNode], Any]] = {
            "Conv": self.convolution,
            "Add": lambda _: self.network.AddAdditionLayer(),
        }
        if node.op not in makers:
            raise Unsupported(f"operator {node.op}")
        data = node.inputs[:1] if node.op == "Conv" else node.inputs
        if missing := [name for name in data if name not in self.slots]:
            raise Unsupported(f"{node.op} of the constant {missing[0]!r}")
        shape = self.case.shapes[step.output]
        if len(shape) != 4:
            raise Unsupported(f"{node.op} of rank {len(shape)}")
        shape = tuple(shape[axis] for axis in TO_NHWC)
        layer = makers[node.op](node)
        for index, name in enumerate(data):
            self.slots[name].Connect(layer.GetInputSlot(index))
        self.produced(node.output, layer, shape)
        if step.activation:
            descriptor = self.ann.ActivationDescriptor()
            descriptor.m_Function = self.ann.ActivationFunction_ReLu
            if step.activation == "relu6":
                descriptor.m_Function = self.ann.ActivationFunction_BoundedReLu
                descriptor.m_A, descriptor.m_B = 6.0, 0.0
            after = self.network.AddActivationLayer(descriptor)
            self.slots[node.output].Connect(after.GetInputSlot(0))
            self.produced(step.output, after, shape)

    def convolution(self, node: CaseNode) -> Any:
        """A convolution with its weights in it, depthwise or without groups."""
        a, weights = node.attrs, self.case.constant(node.input(1))
        channels = self.shapes[node.input(0)][3]
        depthwise = a["group"] > 1
        if depthwise and a["group"] != channels:
            raise Unsupported("groups of more than one channel")
        kind = "DepthwiseConvolution2d" if depthwise else "Convolution2d"
        descriptor = getattr(self.ann, f"{kind}Descriptor")()
        descriptor.m_DataLayout = self.ann.DataLayout_NHWC
        descriptor.m_StrideY, descriptor.m_StrideX = a["strides"]
        descriptor.m_DilationY, descriptor.m_DilationX = a["dilations"]
        top, left, bottom, right = a["pads"]
        descriptor.m_PadTop, descriptor.m_PadLeft = top, left
        descriptor.m_PadBottom, descriptor.m_PadRight = bottom, right
        bias = self.case.constant(node.input(2)) if node.input(2) else None
        descriptor.m_BiasEnabled = bias is not None
        if depthwise:
            # [outputs of a channel, channels, height, width]
            weights = weights.reshape(channels, -1, *weights.shape[2:]).swapaxes(0, 1)
        else:
            weights = weights.transpose(TO_NHWC)
        operands = [descriptor, self.constant(weights)]
        if bias is not None:
            operands.append(self.constant(bias))
        return getattr(self.network, f"Add{kind}Layer")(*operands)
