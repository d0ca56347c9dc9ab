"""The containers of a LiteRT flatbuffer: tensors, buffers, operator codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .case import Array
from .fusion import FusedNode
from .quantized import QuantizedCase, Storage

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)


class FlatGraph:
    """Collects tensors, buffers and operators; ``self.values`` maps names to tensor indices.

    ``self.maps`` holds the names whose tensor is stored NHWC. ``self.stored`` is the storage of
    8-bit tensors, ``self.target`` the storage of the current step's result.
    """

    def __init__(self, quantized: QuantizedCase) -> None:
        import ai_edge_litert.schema_py_generated as schema

        self.quantized = quantized
        self.case = quantized.case
        self.stored: dict[str, Storage] = {}
        self.target: Storage | None = None
        self.schema: Any = schema
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.buffers = [schema.BufferT()]
        self.model.operatorCodes = []
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.name = [], [], "main"
        self.codes: dict[int, int] = {}
        self.values: dict[str, int] = {}
        self.maps: set[str] = set()

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        data: Array | None = None,
        storage: Storage | None = None,
    ) -> int:
        """A new tensor; a constant with ``data``, quantized with ``storage``."""
        record = self.schema.TensorT()
        record.name, record.shape = name, [int(n) for n in shape]
        dtype = storage.dtype if storage else np.dtype("float32") if data is None else data.dtype
        record.type = getattr(self.schema.TensorType, str(dtype).upper())
        if storage:
            record.quantization = self.schema.QuantizationParametersT()
            record.quantization.scale = np.atleast_1d(storage.scale).tolist()
            record.quantization.zeroPoint = [storage.zero_point] * storage.scale.size
            record.quantization.quantizedDimension = storage.axis if storage.scale.ndim else 0
        record.buffer = 0
        if data is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), "uint8")
            self.model.buffers.append(buffer)
            record.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(record)
        return len(self.graph.tensors) - 1

    def constant(self, data: Array) -> int:
        """A constant tensor; float64 and int64 are narrowed."""
        kind = "int32" if np.issubdtype(data.dtype, np.integer) else "float32"
        return self.tensor(f"c{len(self.graph.tensors)}", data.shape, data.astype(kind))

    def produced(self, name: str, shape: Sequence[int], storage: Storage | None = None) -> int:
        """The tensor of a value in ONNX's shape; rank 4 is stored NHWC."""
        if len(shape) == 4:
            self.maps.add(name)
            shape = [shape[axis] for axis in TO_NHWC]
        self.values[name] = self.tensor(name, shape, storage=storage)
        self.stored.pop(name, None)
        if storage:
            self.stored[name] = storage
        return self.values[name]

    def converted(self, name: str, storage: Storage | None) -> int:
        """A value's tensor in another storage; FP32 without storage."""
        own = self.stored.get(name)
        if own is storage is None or (storage and storage.same(own)):
            return self.values[name]
        source = self.values[name]
        shape = self.graph.tensors[source].shape
        target = self.tensor(f"{name}_{len(self.graph.tensors)}", shape, storage=storage)
        self.emit("QUANTIZE" if storage else "DEQUANTIZE", [source], [target])
        return target

    def convert(self, name: str, storage: Storage | None) -> None:
        """Store a value differently from here on."""
        self.values[name] = self.converted(name, storage)
        self.stored.pop(name, None)
        if storage:
            self.stored[name] = storage

    def result(self, step: FusedNode) -> int:
        """The tensor of a step's result."""
        return self.produced(step.output, self.case.shapes[step.output], self.target)

    def plain(self, name: str) -> int:
        """A value in ONNX's order; maps of more than one pixel are transposed for it."""
        if name not in self.maps:
            return self.values[name]
        n, c, h, w = self.case.shapes[name]
        if h == w == 1:
            return self.values[name]
        target = self.tensor(f"{name}_nchw", (n, c, h, w), storage=self.stored.get(name))
        self.transpose(self.values[name], target, TO_NCHW)
        return target

    def operand(self, name: str, rank: int) -> int:
        """A value or constant as an operand of an element-wise operator."""
        if name in self.values:
            return self.values[name]
        data = self.case.constant(name)
        if rank == 4 and data.ndim:
            data = data.reshape((1,) * (4 - data.ndim) + data.shape).transpose(TO_NHWC)
        return self.constant(data)

    def emit(self, code: str, sources: list[int], results: list[int], **options: Any) -> None:
        """One operator; ``options`` are the fields of its options table, named by ``table``."""
        number = getattr(self.schema.BuiltinOperator, code)
        if number not in self.codes:
            record = self.schema.OperatorCodeT()
            record.builtinCode, record.deprecatedBuiltinCode = number, min(number, 127)
            record.version = 1
            self.model.operatorCodes.append(record)
            self.codes[number] = len(self.model.operatorCodes) - 1
        operator = self.schema.OperatorT()
        operator.opcodeIndex = self.codes[number]
        operator.inputs, operator.outputs = sources, results
        if table := options.pop("table", None):
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, table)
            operator.builtinOptions = getattr(self.schema, f"{table}T")()
            for field, value in options.items():
                setattr(operator.builtinOptions, field, value)
        self.graph.operators.append(operator)

    def transpose(self, source: int, target: int, order: Sequence[int]) -> None:
        """A TRANSPOSE operator."""
        permutation = self.constant(np.array(order, "int32"))
        self.emit("TRANSPOSE", [source, permutation], [target], table="TransposeOptions")

    def serialize(self) -> bytes:
        """The model file."""
        import flatbuffers

        self.model.subgraphs = [self.graph]
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
