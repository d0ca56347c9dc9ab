"""ncnn on the CPU, from a param and bin file written here.

FP32. In a quantized model, convolutions and products use ncnn's symmetric int8, with a scale that
covers the model's own 8 bits. Values are FP32 between them, except from one convolution to the
next.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from .case import Array, Case, CaseNode, Session, Unsupported
from .fusion import FusedNode, clip_bounds, fuse
from .quantized import QuantizedCase, without_quantizers

# marks weights of one byte in the bin file
_INT8 = (0x000D4B38).to_bytes(4, "little")
# kinds and arguments of layers without weights
_PLAIN = {
    "GlobalAveragePool": ("Pooling", "0=1 4=1"),
    "Mul": ("BinaryOp", "0=2"),
    "Relu": ("ReLU", ""),
    "Sigmoid": ("Sigmoid", ""),
}
_ACTIVATION = {"": "", "relu": " 9=1", "relu6": " 9=3 -23310=2,0.0,6.0"}


version = partial(installed, "ncnn")


def prepare(case: Case, threads: int) -> Session:
    """Half-precision and bfloat16 storage off; packing of the plain input is inside a call."""
    exported = export(case, threads)
    session = open_export(case, threads, exported)
    Path(exported["file"]).unlink()
    return session


def export(case: Case, threads: int) -> dict[str, Any]:
    """ncnn's two files, and which blobs are outputs."""
    _, value = case.single_input()
    if value.shape[0] != 1:
        raise Unsupported(f"batch {value.shape[0]}; ncnn has no batch dimension")
    quantized = without_quantizers(case)
    writer = _Writer(quantized)
    text, weights = writer.write()
    param, binary = case.folder / "model.param", case.folder / "model.bin"
    param.write_text(text)
    binary.write_bytes(weights)
    plain = zip(case.outputs, quantized.case.outputs, strict=True)
    blobs = {output: writer.current[name][0] for output, name in plain}
    return {"file": str(binary), "param": str(param), "outputs": blobs}


def open_export(case: Case, threads: int, exported: Mapping[str, Any]) -> Session:
    """See :func:`prepare`."""
    import ncnn

    _, value = case.single_input()
    net = ncnn.Net()
    options = net.opt
    options.num_threads = threads
    options.use_vulkan_compute = False
    options.lightmode = True
    for flag in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage", "bf16_packed"):
        setattr(options, f"use_{flag}", False)
    net.opt = options
    net.load_param(exported["param"])
    net.load_model(exported["file"])
    # a Mat does not keep the array it was made from alive; its clone owns its memory
    plain = np.ascontiguousarray(value[0])
    data = ncnn.Mat(plain).clone()
    last: dict[str, Any] = {}

    def run() -> None:
        extractor = net.create_extractor()
        extractor.input("input", data)
        for output, blob in exported["outputs"].items():
            last[output] = extractor.extract(blob)[1]

    return Session(run, lambda: {n: np.array(m)[None] for n, m in last.items()})


class _Writer:
    """The layer list and the weights in ncnn's own files.

    A blob may be read once, so values with several readers pass through Split layers.
    """

    def __init__(self, quantized: QuantizedCase) -> None:
        case = self.case = quantized.case
        self.quantized = quantized
        self.lines: list[str] = []
        self.weights: list[bytes] = []
        self.blobs: dict[str, str] = {}
        self.current: dict[str, list[str]] = {}
        self.uses = case.uses()
        self.count = 0

    def write(self) -> tuple[str, bytes]:
        """The param text and the bin file."""
        name, _ = self.case.single_input()
        self.emit("Input", [], ["input"], "")
        self.produced(name, "input")
        steps = fuse(self.case)
        self.readers: dict[str, list[CaseNode | None]] = {n: [None] for n in self.case.outputs}
        for step in steps:
            for operand in step.node.inputs:
                self.readers.setdefault(operand, []).append(step.node)
        for step in steps:
            self.layer(step)
        head = f"7767517\n{len(self.lines)} {self.count}\n"
        return head + "\n".join(self.lines) + "\n", b"".join(self.weights)

    def emit(self, kind: str, sources: list[str], results: list[str], args: str) -> None:
        """One layer line."""
        self.count += len(results)
        label = f"{kind}_{len(self.lines)}"
        blobs = " ".join(sources + results)
        self.lines.append(f"{kind} {label} {len(sources)} {len(results)} {blobs} {args}".rstrip())

    def produced(self, value: str, blob: str) -> None:
        """Note which blob holds a value, split for several readers."""
        readers = self.uses.get(value, 0)
        if readers > 1:
            copies = [f"{blob}_{i}" for i in range(readers)]
            self.emit("Split", [blob], copies, "")
            self.current[value] = copies
        else:
            self.current[value] = [blob]

    def floats(self, array: Array, flagged: bool = False) -> None:
        """Append weights; some layers need four zero bytes (FP32 storage) before them."""
        data = np.ascontiguousarray(array, "float32").tobytes()
        self.weights.append((b"\0\0\0\0" if flagged else b"") + data)

    def layer(self, step: FusedNode) -> None:
        """One step of the graph."""
        node, case = step.node, self.case
        write = self._plain if node.op in _PLAIN else getattr(self, f"_{node.op.lower()}", None)
        if write is None:
            raise Unsupported(f"operator {node.op}")
        variable = [n for n in node.inputs if n and n not in case.constants]
        if node.op in ("Add", "Mul", "Concat") and len(variable) != len(node.inputs):
            write = self._per_channel
        sources = [self.current[n].pop(0) for n in variable]
        blob = f"b{len(self.lines)}"
        self.step = step
        kept = self.quantized.storage.get(step.output)
        bounded = kept is not None and kept.least == 0 and node.op in ("Conv", "Gemm", "Add")
        # quantizers drop a Relu where the stored numbers cannot be negative
        write(node, sources, blob, step.activation or ("relu" if bounded else ""))
        self.produced(step.output, blob)

    def in_8_bits(self, node: CaseNode | None) -> bool:
        """Whether a layer computes in 8 bits."""
        return (
            node is not None
            and node.op in ("Conv", "Gemm")
            and node.inputs[0] in self.quantized.storage
            and self.quantized.weight(node.input(1)) is not None
        )

    def scale(self, name: str) -> Array:
        """ncnn's factor of a value that is stored in int8."""
        return np.array([127 / self.quantized.storage[name].largest], "float32")

    def weighted(self, kind: str, node: CaseNode, sources: list[str], blob: str, args: str) -> None:
        """A layer with weights, bias and, in 8 bits, their scales."""
        weight = self.case.constant(node.input(1))
        if node.op == "Gemm" and not node.attrs.get("transB", 0):
            weight = weight.T
        scales: list[Array] = []
        if self.in_8_bits(node):
            pair = self.quantized.weight(node.input(1))
            assert pair is not None
            readers = self.readers.get(self.step.output, [])
            # from one convolution to the next values stay in 8 bits
            term = 101 if node.op == "Conv" and all(map(self.in_8_bits, readers)) else 1
            args = f"{args} 8={term}"
            steps = pair[1].reshape(-1, *[1] * (weight.ndim - 1))
            stored = np.rint(weight / steps).astype("int8").tobytes()
            self.weights.append(_INT8 + stored + b"\0" * (-len(stored) % 4))
            scales = [self.per_group(node, 1 / pair[1]), self.scale(node.inputs[0])]
            scales += [self.scale(self.step.output)] if term > 100 else []
        else:
            self.floats(weight, flagged=True)
        self.emit(kind, sources, [blob], args)
        if node.input(2):
            self.floats(self.case.constant(node.input(2)))
        for numbers in scales:
            self.floats(numbers)

    def per_group(self, node: CaseNode, scales: Array) -> Array:
        """The scales of a grouped convolution for ncnn: one a group."""
        groups = node.attrs.get("group", 1)
        if groups == 1 or groups == len(scales):
            return scales
        raise Unsupported("8-bit convolution in groups of several channels")

    def _conv(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        a = node.attrs
        if len(a["strides"]) != 2:
            raise Unsupported("convolution of rank 1")
        weight = self.case.constant(node.input(1))
        top, left, bottom, right = a["pads"]
        args = (
            f"0={weight.shape[0]} 1={weight.shape[3]} 11={weight.shape[2]} "
            f"2={a['dilations'][1]} 12={a['dilations'][0]} 3={a['strides'][1]} "
            f"13={a['strides'][0]} 4={left} 15={right} 14={top} 16={bottom} "
            f"5={int(bool(node.input(2)))} 6={weight.size}"
        )
        kind = "Convolution"
        if a["group"] > 1:
            kind, args = "ConvolutionDepthWise", f"{args} 7={a['group']}"
        self.weighted(kind, node, sources, blob, args + _ACTIVATION[activation])

    def _gemm(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        a = node.attrs
        if a.get("transA", 0) or a.get("alpha", 1.0) != 1.0 or a.get("beta", 1.0) != 1.0:
            raise Unsupported("Gemm with transA, alpha or beta")
        weight = self.case.constant(node.input(1))
        weight = weight if a.get("transB", 0) else weight.T
        bias = int(bool(node.input(2)))
        args = f"0={weight.shape[0]} 1={bias} 2={weight.size}"
        self.weighted("InnerProduct", node, sources, blob, args + _ACTIVATION[activation])

    def _maxpool(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        a = node.attrs
        top, left, bottom, right = a["pads"]
        bottom, right = bottom + a["extra"][0], right + a["extra"][1]
        args = (
            f"0={int(node.op == 'AveragePool')} 1={a['kernel_shape'][1]} 11={a['kernel_shape'][0]} "
            f"2={a['strides'][1]} 12={a['strides'][0]} 3={left} 14={right} 13={top} 15={bottom} "
            f"5=1 6={int(a.get('count_include_pad', 0))}"
        )
        self.emit("Pooling", sources, [blob], args)

    def _averagepool(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        if any(node.attrs["extra"]):
            raise Unsupported("AveragePool with ceil_mode")
        self._maxpool(node, sources, blob, activation)

    def _add(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        between = f"{blob}_sum" if activation else blob
        self.emit("BinaryOp", sources, [between], "0=0")
        if activation == "relu":
            self.emit("ReLU", [between], [blob], "")
        elif activation:
            self.emit("Clip", [between], [blob], "0=0.0 1=6.0")

    def _plain(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        kind, args = _PLAIN[node.op]
        self.emit(kind, sources, [blob], args)

    def _per_channel(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        channels = self.case.shapes[node.output][1]
        (name,) = (n for n in node.inputs if n in self.case.constants)
        values = self.case.constant(name)
        if node.op == "Concat" or values.shape[-3:] != (channels, 1, 1) or activation:
            raise Unsupported(f"{node.op} with a constant of shape {values.shape}")
        self.emit("Bias" if node.op == "Add" else "Scale", sources, [blob], f"0={channels}")
        self.floats(values)

    def _lrn(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        a = node.attrs
        args = f"0=0 1={a['size']} 2={a.get('alpha', 1e-4):.9g} 3={a.get('beta', 0.75):.9g}"
        self.emit("LRN", sources, [blob], f"{args} 4={a.get('bias', 1.0):.9g}")

    def _leakyrelu(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        self.emit("ReLU", sources, [blob], f"0={node.attrs.get('alpha', 0.01):.9g}")

    def _clip(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        low, high = np.clip(clip_bounds(self.case, node), -3e38, 3e38)
        self.emit("Clip", sources, [blob], f"0={low:.9g} 1={high:.9g}")

    def _concat(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        if node.attrs["axis"] != 1:
            raise Unsupported(f"Concat along axis {node.attrs['axis']}")
        self.emit("Concat", sources, [blob], "0=0")

    def _flatten(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        shape = self.case.shapes[node.output]
        if len(shape) != 2:
            raise Unsupported(f"{node.op} to {shape}")
        self.emit("Reshape", sources, [blob], f"0={shape[1]}")

    _reshape = _flatten

    def _softmax(self, node: CaseNode, sources: list[str], blob: str, activation: str) -> None:
        shape = self.case.shapes[node.output]
        if node.attrs.get("axis", -1) not in (1, -1) or (len(shape) != 2):
            raise Unsupported("Softmax over a map")
        self.emit("Softmax", sources, [blob], "0=0 1=1")
