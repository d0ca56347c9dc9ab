"""LiteRT (XNNPACK) on the CPU, from a flatbuffer written here; NHWC in and out."""

from __future__ import annotations

import numpy as np

from .case import Array, Case, Session
from .tflite_writer import write_model


def version() -> str:
    """Version of LiteRT."""
    from importlib.metadata import version as installed

    return installed("ai-edge-litert")


def prepare(case: Case, threads: int) -> Session:
    """The interpreter with its default XNNPACK delegate; the input copy is not part of a call."""
    from ai_edge_litert.interpreter import Interpreter

    _, value = case.single_input()
    interpreter = Interpreter(model_content=write_model(case), num_threads=threads)
    interpreter.allocate_tensors()
    data = value.transpose(0, 2, 3, 1) if value.ndim == 4 else value
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ascontiguousarray(data))
    # the public invoke() checks Python state before each call, which costs microseconds
    invoke = interpreter._interpreter.Invoke
    details = {d["name"].partition(":")[0]: d["index"] for d in interpreter.get_output_details()}

    def outputs() -> dict[str, Array]:
        result = {}
        for name, index in zip(case.outputs, details.values(), strict=True):
            tensor = interpreter.get_tensor(index)
            result[name] = tensor.transpose(0, 3, 1, 2) if tensor.ndim == 4 else tensor
        return result

    names = {detail["op_name"] for detail in interpreter._get_ops_details()}
    return Session(invoke, outputs, info=", ".join(sorted(names)))
