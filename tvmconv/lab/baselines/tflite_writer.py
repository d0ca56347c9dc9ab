"""A LiteRT flatbuffer from a case: maps are NHWC, everything else keeps ONNX's order.

In a quantized model, operators that LiteRT has in 8 bits read and write int8. A concatenation reads
rescaled operands, because LiteRT needs one scale there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .case import Array, CaseNode, Unsupported
from .fusion import FusedNode, clip_bounds, fuse
from .quantized import QuantizedCase, Storage
from .tflite_graph import TO_NCHW, TO_NHWC, FlatGraph

# operators without weights that have an 8-bit form, and operators that keep stored numbers
_IN_8_BITS = ("Add", "Mul", "GlobalAveragePool", "Concat")
_KEEPING = ("MaxPool", "AveragePool", "Flatten", "Reshape", "Squeeze", "Unsqueeze")
# codes and tables of options of operators without other operands
_PLAIN = {
    "HardSwish": ("HARD_SWISH", "HardSwishOptions"),
    "Relu": ("RELU", None),
    "Sigmoid": ("LOGISTIC", None),
    "Tanh": ("TANH", None),
}
_BINARY = {"Add": ("ADD", "AddOptions"), "Mul": ("MUL", "MulOptions")}


def write_model(quantized: QuantizedCase) -> bytes:
    """The model file of a case; its integer inputs and outputs are int8.

    Raises :class:`Unsupported` if an operator or a form of it has no counterpart here.
    """
    return _Writer(quantized).write()


class _Writer(FlatGraph):
    """One method an operator."""

    def write(self) -> bytes:
        """Convert every step and serialize."""
        storage, sources = self.quantized.storage, []
        for name, value in self.case.inputs.items():
            integers = value.dtype != np.float32
            kept = storage[name].signed() if name in storage else None
            sources.append(self.produced(name, value.shape, kept if integers else None))
            if kept:
                self.convert(name, kept)
        for step in fuse(self.case):
            write = self._writer(step.node.op)
            wanted = storage[step.output].signed() if step.output in storage else None
            self.target = self.own_storage(step.node, wanted)
            values, stored = dict(self.values), dict(self.stored)
            for operand in stored if self.target is None else ():
                if operand in step.node.inputs:
                    self.convert(operand, None)
            write(step.node, step)
            self.values |= values
            self.stored |= stored
            if wanted:
                self.convert(step.output, wanted)
        self.graph.inputs = sources
        kept_outputs = self.quantized.stored_outputs
        self.graph.outputs = [
            self.converted(name, kept_outputs[name].signed() if name in kept_outputs else None)
            for name in self.case.outputs
        ]
        return self.serialize()

    def _writer(self, op: str) -> Callable[[CaseNode, FusedNode], None]:
        """The method that writes an operator."""
        name = "plain" if op in _PLAIN else "binary" if op in _BINARY else op.lower()
        if (found := getattr(self, f"_{name}", None)) is None:
            raise Unsupported(f"operator {op}")
        writer: Callable[[CaseNode, FusedNode], None] = found
        return writer

    def own_storage(self, node: CaseNode, wanted: Storage | None) -> Storage | None:
        """How an operator stores its result; None where it computes in float32."""
        variable = [name for name in node.inputs if name and name not in self.case.constants]
        if any(name not in self.stored for name in variable):
            return None
        if node.op in _KEEPING:
            return self.stored[node.inputs[0]]
        if node.op in ("Conv", "Gemm"):
            return wanted if self.quantized.weight(node.input(1)) else None
        return wanted if node.op in _IN_8_BITS and len(variable) == len(node.inputs) else None

    def weights(self, node: CaseNode, weight: Array, axis: int, bias: Array | None) -> list[int]:
        """The tensors of a weight in LiteRT's order, FP32 or int8, and of its bias.

        ``axis`` is the axis of output channels.
        """
        if self.target is None:
            return [self.constant(weight), *([] if bias is None else [self.constant(bias)])]
        pair = self.quantized.weight(node.input(1))
        assert pair is not None
        scales = pair[1]
        shape = [1] * weight.ndim
        shape[axis] = -1
        stored = np.rint(weight / scales.reshape(shape)).astype("int8")
        kept = Storage(scales, 0, np.dtype("int8"), axis)
        tensors = [self.tensor(f"w{len(self.graph.tensors)}", weight.shape, stored, kept)]
        if bias is not None:
            products = scales * self.stored[node.inputs[0]].scale
            kept = Storage(products, 0, np.dtype("int32"), 0)
            sums = np.rint(bias.astype("float64") / products).astype("int32")
            tensors.append(self.tensor(f"b{len(self.graph.tensors)}", bias.shape, sums, kept))
        return tensors

    def activation(self, step: FusedNode) -> int:
        """The fused activation's number."""
        names = {"": "NONE", "relu": "RELU", "relu6": "RELU6"}
        return int(getattr(self.schema.ActivationFunctionType, names[step.activation]))

    def window(self, node: CaseNode, low: float = 0.0) -> tuple[int, int]:
        """The padded input of a window operator, and the padding mode that remains."""
        a = node.attrs
        n, c, *size = self.case.shapes[node.inputs[0]]
        top, left, bottom, right = a["pads"]
        extra = a.get("extra", (0, 0))
        begin, end = (top, left), (bottom + extra[0], right + extra[1])
        source = self.values[node.inputs[0]]
        if not any(begin + end):
            return source, self.schema.Padding.VALID
        output = self.case.shapes[node.output][2:]
        same = True
        for i in range(2):
            span = (a["kernel_shape"][i] - 1) * a["dilations"][i] + 1
            total = max((output[i] - 1) * a["strides"][i] + span - size[i], 0)
            same &= -(-size[i] // a["strides"][i]) == output[i]
            same &= begin[i] == total // 2 and end[i] == total - total // 2
        if same:
            return source, self.schema.Padding.SAME
        shape = (n, size[0] + begin[0] + end[0], size[1] + begin[1] + end[1], c)
        kept = self.stored.get(node.inputs[0])
        target = self.tensor(f"pad{len(self.graph.tensors)}", shape, storage=kept)
        pads = [(0, 0), (begin[0], end[0]), (begin[1], end[1]), (0, 0)]
        operands = [source, self.constant(np.array(pads, "int32"))]
        if low:
            least = np.array([-128], "int8") if kept else np.array([low], "float32")
            operands.append(self.tensor(f"low{len(self.graph.tensors)}", (1,), least, kept))
            self.emit("PADV2", operands, [target], table="PadV2Options")
        else:
            self.emit("PAD", operands, [target], table="PadOptions")
        return target, self.schema.Padding.VALID

    def _conv(self, node: CaseNode, step: FusedNode) -> None:
        a, case = node.attrs, self.case
        weight = case.constant(node.input(1))
        if weight.ndim != 4:
            raise Unsupported("convolution of rank 1")
        channels = case.shapes[node.inputs[0]][1]
        depthwise = a["group"] > 1 and weight.shape[1] == 1 and a["group"] == channels
        bias = case.constant(node.input(2)) if node.input(2) else np.zeros(len(weight), "float32")
        source, padding = self.window(node)
        fields = {
            "padding": padding,
            "strideH": a["strides"][0],
            "strideW": a["strides"][1],
            "dilationHFactor": a["dilations"][0],
            "dilationWFactor": a["dilations"][1],
            "fusedActivationFunction": self.activation(step),
        }
        order = (1, 2, 3, 0) if depthwise else TO_NHWC
        ordered = weight.transpose(order)
        sources = [source, *self.weights(node, ordered, 3 if depthwise else 0, bias)]
        if depthwise:
            fields |= {"table": "DepthwiseConv2DOptions"}
            fields |= {"depthMultiplier": len(weight) // channels}
            self.emit("DEPTHWISE_CONV_2D", sources, [self.result(step)], **fields)
        else:
            self.emit("CONV_2D", sources, [self.result(step)], table="Conv2DOptions", **fields)

    def _maxpool(self, node: CaseNode, step: FusedNode) -> None:
        self._pool(node, step, "MAX_POOL_2D", low=-3.4e38)

    def _averagepool(self, node: CaseNode, step: FusedNode) -> None:
        self._pool(node, step, "AVERAGE_POOL_2D", low=0.0)

    def _pool(self, node: CaseNode, step: FusedNode, code: str, low: float) -> None:
        a = node.attrs
        source, padding = self.window(node, low)
        average = code == "AVERAGE_POOL_2D"
        padded = any(a["pads"]) or any(a["extra"])
        counts = bool(a.get("count_include_pad", 0)) and not any(a["extra"])
        if average and padded and counts != (padding == self.schema.Padding.VALID):
            raise Unsupported("AveragePool with this padding")
        self.emit(
            code,
            [source],
            [self.result(step)],
            table="Pool2DOptions",
            padding=padding,
            strideH=a["strides"][0],
            strideW=a["strides"][1],
            filterHeight=a["kernel_shape"][0],
            filterWidth=a["kernel_shape"][1],
        )

    def _globalaveragepool(self, node: CaseNode, step: FusedNode) -> None:
        axes = self.constant(np.array([1, 2], "int32"))
        sources = [self.values[node.inputs[0]], axes]
        self.emit("MEAN", sources, [self.result(step)], table="ReducerOptions", keepDims=True)

    def _gemm(self, node: CaseNode, step: FusedNode) -> None:
        a = node.attrs
        if a.get("transA", 0) or a.get("alpha", 1.0) != 1.0 or a.get("beta", 1.0) != 1.0:
            raise Unsupported("Gemm with transA, alpha or beta")
        weight = self.case.constant(node.input(1))
        weight = weight if a.get("transB", 0) else weight.T
        bias = self.case.constant(node.input(2)).reshape(-1) if node.input(2) else None
        sources = [self.values[node.inputs[0]], *self.weights(node, weight, 0, bias)]
        self.emit(
            "FULLY_CONNECTED",
            sources,
            [self.result(step)],
            table="FullyConnectedOptions",
            fusedActivationFunction=self.activation(step),
        )

    def _plain(self, node: CaseNode, step: FusedNode) -> None:
        code, table = _PLAIN[node.op]
        self.emit(code, [self.values[node.inputs[0]]], [self.result(step)], table=table)

    def _binary(self, node: CaseNode, step: FusedNode) -> None:
        code, table = _BINARY[node.op]
        rank = len(self.case.shapes[node.output])
        sources = [self.operand(name, rank) for name in node.inputs]
        activation = self.activation(step)
        self.emit(
            code, sources, [self.result(step)], table=table, fusedActivationFunction=activation
        )

    def _clip(self, node: CaseNode, step: FusedNode) -> None:
        if clip_bounds(self.case, node) != (0.0, 6.0):
            raise Unsupported("Clip other than 0 to 6")
        self.emit("RELU6", [self.values[node.inputs[0]]], [self.result(step)])

    def _leakyrelu(self, node: CaseNode, step: FusedNode) -> None:
        source, alpha = self.values[node.inputs[0]], node.attrs.get("alpha", 0.01)
        self.emit(
            "LEAKY_RELU", [source], [self.result(step)], table="LeakyReluOptions", alpha=alpha
        )

    def _lrn(self, node: CaseNode, step: FusedNode) -> None:
        a = node.attrs
        fields = {"radius": a["size"] // 2, "bias": a.get("bias", 1.0), "beta": a.get("beta", 0.75)}
        # ONNX divides alpha by the window, LiteRT does not
        fields["alpha"] = a.get("alpha", 1e-4) / a["size"]
        source, table = self.values[node.inputs[0]], "LocalResponseNormalizationOptions"
        code = "LOCAL_RESPONSE_NORMALIZATION"
        self.emit(code, [source], [self.result(step)], table=table, **fields)

    def _concat(self, node: CaseNode, step: FusedNode) -> None:
        rank = len(self.case.shapes[node.output])
        axis = node.attrs["axis"] % rank
        axis = TO_NCHW[axis] if rank == 4 else axis
        sources = [
            self.converted(name, self.target) if self.target else self.operand(name, rank)
            for name in node.inputs
        ]
        table = "ConcatenationOptions"
        self.emit("CONCATENATION", sources, [self.result(step)], table=table, axis=axis)

    def _flatten(self, node: CaseNode, step: FusedNode) -> None:
        shape = self.case.shapes[step.output]
        if len(shape) == 4 and shape[2:] != (1, 1):
            raise Unsupported(f"{node.op} to a map")
        source = self.plain(node.inputs[0])
        target = self.result(step)
        stored = [int(n) for n in self.graph.tensors[target].shape]
        sources = [source, self.constant(np.array(stored, "int32"))]
        self.emit("RESHAPE", sources, [target], table="ReshapeOptions", newShape=stored)

    _reshape = _flatten
    _squeeze = _flatten
    _unsqueeze = _flatten

    def _softmax(self, node: CaseNode, step: FusedNode) -> None:
        rank = len(self.case.shapes[node.output])
        if node.attrs.get("axis", -1) % rank != (1 if rank == 4 else rank - 1):
            raise Unsupported("Softmax along another than the last axis")
        source = self.values[node.inputs[0]]
        self.emit("SOFTMAX", [source], [self.result(step)], table="SoftmaxOptions", beta=1.0)
