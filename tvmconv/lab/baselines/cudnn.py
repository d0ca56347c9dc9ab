"""cuDNN's fastest algorithm for one convolution, by its own search (``cudnn.benchmark`` of torch).

It tries plain and channels-last tensors, and cuDNN's fused call where the epilogue is a bias with
ReLU. The fastest of them is the session. The search covers all engines that cuDNN's heuristics name
for the case's precision (``cudnn.benchmark_limit`` is 0, for no limit).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import torch_cuda
from .case import Case, Session, Unsupported

version, broken = torch_cuda.version, torch_cuda.broken
_TRIED = 5


def prepare(case: Case, threads: int) -> Session:
    """Every form is called once and timed; the fastest stays."""
    import torch

    convolutions = [node for node in case.nodes if node.op == "Conv"]
    if len(convolutions) != 1:
        raise Unsupported("one convolution with its epilogue only")
    module, values = torch_cuda.module_on_device(case)
    forms: dict[str, Callable[[], Any]] = {"NCHW": lambda: module(*values)}
    last_module, _ = torch_cuda.module_on_device(case)
    last_module = last_module.to(memory_format=torch.channels_last)
    last_values = [value.contiguous(memory_format=torch.channels_last) for value in values]
    forms["channels last"] = lambda: last_module(*last_values)
    fused = _fused(case, values)
    if fused is not None:
        forms["NCHW, fused"] = fused
    sampler = torch_cuda.session_of(case, forms["NCHW"]).sampler
    assert sampler is not None
    times: dict[str, float] = {}
    for name, form in forms.items():
        try:
            times[name] = min(sampler(form, _TRIED, 0))
        except RuntimeError:
            # cuDNN has no engine for every form
            continue
    best = min(times, key=times.__getitem__)
    return torch_cuda.session_of(case, forms[best], f"cudnn.benchmark, {best}")


def _fused(case: Case, values: list[Any]) -> Callable[[], Any] | None:
    """cuDNN's call of convolution, bias and ReLU, if the layer has this form."""
    import torch

    operators = [node.op for node in case.nodes]
    node = case.nodes[0]
    a = node.attrs
    rank = len(a["strides"])
    equal = a["pads"][:rank] == a["pads"][rank:]
    if operators != ["Conv", "Relu"] or not node.input(2) or not equal:
        return None
    if torch_cuda.device_of(case) != "cuda":
        return None
    weight, bias = (
        torch_cuda.on_device(case, case.constant(name)) for name in (node.input(1), node.input(2))
    )
    return lambda: torch.cudnn_convolution_relu(
        values[0],
        weight,
        bias,
        tuple(a["strides"]),
        tuple(a["pads"][:rank]),
        tuple(a["dilations"]),
        a["group"],
    )
