"""im2col and cuBLAS: the matrix by ``torch.nn.functional.unfold``, then one product an image.

The im2win paper compares with it on GPUs.
"""

from __future__ import annotations

from typing import Any

from . import torch_cuda, torch_jit
from .case import Case, Session, Unsupported

version, broken = torch_cuda.version, torch_cuda.broken


def prepare(case: Case, threads: int) -> Session:
    """Stages are the matrix, and the product with the epilogue."""
    import torch
    import torch.nn.functional as F

    node = case.nodes[0]
    a = node.attrs
    if node.op != "Conv" or a["group"] != 1 or len(a["strides"]) != 2:
        raise Unsupported("plain 2-D convolutions only")
    torch_cuda.exactly(case)
    names = list(case.inputs)
    inputs = {n: torch_cuda.on_device(case, v) for n, v in case.inputs.items()}
    used = {name for each in case.nodes for name in each.inputs} & set(case.constants)
    constants = {n: torch_cuda.on_device(case, case.constants[n]) for n in used}
    weight = constants[node.input(1)]
    flat = weight.reshape(weight.shape[0], -1)
    shape = case.shapes[node.output]
    begin, end = a["pads"][:2], a["pads"][2:]

    def columns() -> Any:
        data, padding = inputs[names[0]], tuple(begin)
        if begin != end:
            data, padding = F.pad(data, torch_jit._torch_pads(begin, end)), (0, 0)
        return F.unfold(
            data, tuple(weight.shape[2:]), tuple(a["dilations"]), padding, tuple(a["strides"])
        )

    def call() -> Any:
        result = torch.matmul(flat, columns()).reshape(shape)
        if node.input(2):
            result += constants[node.input(2)][:, None, None]
        values = {**inputs, **constants, node.output: result}
        for each in case.nodes[1:]:
            operands = [values[name] if name else None for name in each.inputs]
            values[each.output] = torch_jit._OPERATORS[each.op](case, each, operands)
        return values[case.outputs[0]]

    stages = [("im2col", columns), ("product", call)]
    return torch_cuda.session_of(case, call, "unfold, matmul", stages)
