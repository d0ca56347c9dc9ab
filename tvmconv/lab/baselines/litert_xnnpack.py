"""LiteRT (XNNPACK) on the CPU, from a flatbuffer written here; NHWC in and out."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version as installed

import numpy as np

from .case import Array, Case, Session
from .quantized import without_quantizers
from .tflite_graph import TO_NCHW, TO_NHWC
from .tflite_writer import write_model

# converts int8 to uint8 and back when added to a byte
_SIGN = np.uint8(128)

version = partial(installed, "ai-edge-litert")


def prepare(case: Case, threads: int) -> Session:
    """The interpreter with its default XNNPACK delegate; the input copy is not part of a call.

    Integer inputs and outputs are int8 inside.
    """
    from ai_edge_litert.interpreter import Interpreter

    quantized = without_quantizers(case)
    interpreter = Interpreter(model_content=write_model(quantized), num_threads=threads)
    interpreter.allocate_tensors()
    for value, detail in zip(case.inputs.values(), interpreter.get_input_details(), strict=True):
        data = value.transpose(TO_NHWC) if value.ndim == 4 else value
        if data.dtype == np.uint8:
            data = (data + _SIGN).view(np.int8)
        interpreter.set_tensor(detail["index"], np.ascontiguousarray(data))
    # the public invoke() checks Python state before each call, which costs microseconds
    invoke = interpreter._interpreter.Invoke
    details = {d["name"].partition(":")[0]: d["index"] for d in interpreter.get_output_details()}
    kept = [quantized.stored_outputs.get(name) for name in quantized.case.outputs]

    def outputs() -> dict[str, Array]:
        result = {}
        for name, index, storage in zip(case.outputs, details.values(), kept, strict=True):
            tensor = interpreter.get_tensor(index)
            if storage and storage.dtype == np.uint8:
                tensor = tensor.view(np.uint8) + _SIGN
            result[name] = tensor.transpose(TO_NCHW) if tensor.ndim == 4 else tensor
        return result

    names = {detail["op_name"] for detail in interpreter._get_ops_details()}
    return Session(invoke, outputs, info=", ".join(sorted(names)))
