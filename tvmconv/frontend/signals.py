"""The pieces of a signal that STFT transforms."""

from __future__ import annotations

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.tensors import check_shape


def stft_frames(graph: OnnxGraph, node: OnnxNode) -> tuple[int, int]:
    """The step between two frames and the length of a frame."""
    shape = graph.shape(node.inputs[0])
    if len(shape) != 3 or shape[2] not in (1, 2):
        raise node.misfit(f"the signal has shape {shape}; it must be (batch, length, 1 or 2)")
    step = _scalar(graph, node, 1, "frame_step")
    window = node.input(2)
    length = shape[1]
    if node.input(3):
        length = _scalar(graph, node, 3, "frame_length")
    elif window:
        length = (*graph.shape(window), 0)[0]
    if window and graph.shape(window) != (length,):
        raise node.misfit(
            f"the window has shape {graph.shape(window)}, but frame_length is {length}"
        )
    if step < 1 or not 1 <= length <= shape[1]:
        raise node.error(
            f"frame_step={step} and frame_length={length} do not fit a signal of {shape[1]} values"
        )
    return step, length


def stft_outputs(graph: OnnxGraph, node: OnnxNode) -> list[TensorInfo]:
    """The output of an STFT; onnx's inference takes another default of ``onesided``."""
    step, length = stft_frames(graph, node)
    data = graph.types[node.inputs[0]]
    count = (data.shape[1] - length) // step + 1
    bins = length // 2 + 1 if node.attrs.get("onesided", 1) else length
    shape = (data.shape[0], count, bins, 2)
    check_shape(shape, data.dtype, f"node {node.name!r} ({node.op}): output {node.outputs[0]!r}")
    return [TensorInfo(node.outputs[0], shape, data.dtype)]


def _scalar(graph: OnnxGraph, node: OnnxNode, index: int, what: str) -> int:
    name = node.input(index)
    value = graph.constants.get(name)
    if value is None or value.size != 1:
        state = "missing" if not name else "computed at run time" if value is None else value.shape
        raise node.error(
            f"its {what} (input {index}) is {state}. Expected a constant scalar",
            "store it as a constant in the model",
        )
    return int(value.reshape(-1)[0])
