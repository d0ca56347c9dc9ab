"""torch on the CPU: traced, frozen and optimized for inference (oneDNN inside)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .case import Array, Case, CaseNode, Session, Unsupported
from .fusion import clip_bounds


def version() -> str:
    """Version of torch."""
    import torch

    return str(torch.__version__)


def prepare(case: Case, threads: int) -> Session:
    """Interpret the nodes with ``torch.nn.functional`` once, under the tracer."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    values = [torch.from_numpy(value) for value in case.inputs.values()]
    module = module_of(case).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.freeze(torch.jit.trace(module, values))
        optimized = torch.jit.optimize_for_inference(traced)
    return session_of(optimized, values, case.outputs)


def session_of(module: Any, values: list[Any], names: tuple[str, ...], info: str = "") -> Session:
    """Calls of a module with the same tensors."""
    last: list[Any] = [None]

    def run() -> None:
        last[0] = module(*values)

    def outputs() -> dict[str, Array]:
        results = last[0] if isinstance(last[0], tuple) else (last[0],)
        return {n: r.numpy() for n, r in zip(names, results, strict=True)}

    return Session(run, outputs, info=info)


def module_of(case: Case) -> Any:
    """The case as a ``torch.nn.Module`` that holds its constants."""
    import torch

    unknown = {node.op for node in case.nodes} - set(_OPERATORS)
    if unknown:
        raise Unsupported(f"operator(s) {', '.join(sorted(unknown))}")

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            # plain data: reading the case's files would break torch.compile's graph
            self.inputs, self.outputs = tuple(case.inputs), tuple(case.outputs)
            self.nodes = tuple(_with_values(case, node) for node in case.nodes)
            used = {name for node in self.nodes for name in node.inputs}
            self.names = tuple(name for name in case.constants if name in used)
            for index, name in enumerate(self.names):
                self.register_buffer(f"constant{index}", torch.from_numpy(case.constants[name]))

        def forward(self, *arguments: Any) -> Any:
            values = dict(zip(self.inputs, arguments, strict=True))
            for index, name in enumerate(self.names):
                values[name] = getattr(self, f"constant{index}")
            for node in self.nodes:
                operands = [values[name] if name else None for name in node.inputs]
                values[node.output] = _OPERATORS[node.op](case, node, operands)
            results = tuple(values[name] for name in self.outputs)
            return results if len(results) > 1 else results[0]

    return Net()


def _with_values(case: Case, node: CaseNode) -> CaseNode:
    """The node with attributes instead of operands that are constants of the operator."""
    if node.op == "Clip":
        low, high = clip_bounds(case, node)
        return replace(node, inputs=node.inputs[:1], attrs={"min": low, "max": high})
    if node.op == "ReduceMean" and not node.attrs.get("axes"):
        axes = case.constant(node.input(1)).tolist()
        return replace(node, inputs=node.inputs[:1], attrs={**node.attrs, "axes": axes})
    return node


def _conv(case: Case, node: CaseNode, x: list[Any]) -> Any:
    import torch.nn.functional as F

    a = node.attrs
    rank = len(a["strides"])
    begin, end = a["pads"][:rank], a["pads"][rank:]
    data, padding = x[0], tuple(begin)
    if begin != end:
        data, padding = F.pad(data, _torch_pads(begin, end)), (0,) * rank
    bias = x[2] if len(x) > 2 else None
    function = {1: F.conv1d, 2: F.conv2d}[rank]
    return function(
        data, x[1], bias, tuple(a["strides"]), padding, tuple(a["dilations"]), a["group"]
    )


def _torch_pads(begin: list[int], end: list[int]) -> list[int]:
    """ONNX's begin and end lists as torch's innermost-first pairs."""
    return [p for pair in zip(reversed(begin), reversed(end), strict=True) for p in pair]


def _pool(case: Case, node: CaseNode, x: list[Any]) -> Any:
    import torch.nn.functional as F

    a = node.attrs
    rank = len(a["strides"])
    if rank != 2:
        raise Unsupported(f"{node.op} of rank {rank}")
    begin, end = a["pads"][:rank], a["pads"][rank:]
    data, padding = x[0], tuple(begin)
    if node.op == "MaxPool":
        if begin != end or any(a["extra"]):
            tail = [e + more for e, more in zip(end, a["extra"], strict=True)]
            data = F.pad(data, _torch_pads(begin, tail), value=float("-inf"))
            padding = (0,) * rank
        return F.max_pool2d(
            data, tuple(a["kernel_shape"]), tuple(a["strides"]), padding, tuple(a["dilations"])
        )
    if begin != end:
        raise Unsupported("AveragePool with unequal padding")
    return F.avg_pool2d(
        data,
        tuple(a["kernel_shape"]),
        tuple(a["strides"]),
        padding,
        ceil_mode=any(a["extra"]),
        count_include_pad=bool(a.get("count_include_pad", 0)),
    )


def _gemm(case: Case, node: CaseNode, x: list[Any]) -> Any:
    import torch.nn.functional as F

    a = node.attrs
    if a.get("transA", 0) or a.get("alpha", 1.0) != 1.0 or a.get("beta", 1.0) != 1.0:
        raise Unsupported("Gemm with transA, alpha or beta")
    weight = x[1] if a.get("transB", 0) else x[1].t()
    return F.linear(x[0], weight, x[2] if len(x) > 2 else None)


def _clip(case: Case, node: CaseNode, x: list[Any]) -> Any:
    low, high = clip_bounds(case, node)
    return x[0].clamp(low, high)


def _batch_norm(case: Case, node: CaseNode, x: list[Any]) -> Any:
    import torch.nn.functional as F

    return F.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=node.attrs.get("epsilon", 1e-5))


def _reshape(case: Case, node: CaseNode, x: list[Any]) -> Any:
    return x[0].reshape(case.shapes[node.output])


def _softmax(case: Case, node: CaseNode, x: list[Any]) -> Any:
    return x[0].softmax(node.attrs.get("axis", -1))


def _lrn(case: Case, node: CaseNode, x: list[Any]) -> Any:
    import torch.nn.functional as F

    a = node.attrs
    alpha, beta = a.get("alpha", 1e-4), a.get("beta", 0.75)
    return F.local_response_norm(x[0], a["size"], alpha, beta, a.get("bias", 1.0))


def _reduce_mean(case: Case, node: CaseNode, x: list[Any]) -> Any:
    return x[0].mean(tuple(node.attrs["axes"]), keepdim=bool(node.attrs.get("keepdims", 1)))


def _functional(name: str, **fixed: Any) -> Callable[[Case, CaseNode, list[Any]], Any]:
    def apply(case: Case, node: CaseNode, x: list[Any]) -> Any:
        import torch.nn.functional as F

        return getattr(F, name)(*x, **fixed)

    return apply


def _concat(case: Case, node: CaseNode, x: list[Any]) -> Any:
    import torch

    return torch.cat(x, node.attrs["axis"])


_OPERATORS: dict[str, Callable[[Case, CaseNode, list[Any]], Any]] = {
    "Add": lambda case, node, x: x[0] + x[1],
    "AveragePool": _pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "Div": lambda case, node, x: x[0] / x[1],
    "Flatten": _reshape,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda case, node, x: x[0].mean((2, 3), keepdim=True),
    "HardSigmoid": lambda case, node, x: (
        x[0] * node.attrs.get("alpha", 0.2) + node.attrs.get("beta", 0.5)
    ).clamp(0, 1),
    "HardSwish": _functional("hardswish"),
    "LRN": _lrn,
    "LeakyRelu": lambda case, node, x: _functional(
        "leaky_relu", negative_slope=node.attrs.get("alpha", 0.01)
    )(case, node, x),
    "MatMul": lambda case, node, x: x[0] @ x[1],
    "MaxPool": _pool,
    "Mul": lambda case, node, x: x[0] * x[1],
    "ReduceMean": _reduce_mean,
    "Relu": _functional("relu"),
    "Reshape": _reshape,
    "Sigmoid": lambda case, node, x: x[0].sigmoid(),
    "Softmax": _softmax,
    "Squeeze": _reshape,
    "Sum": lambda case, node, x: sum(x[1:], start=x[0]),
    "Sub": lambda case, node, x: x[0] - x[1],
    "Tanh": lambda case, node, x: x[0].tanh(),
    "Transpose": lambda case, node, x: x[0].permute(tuple(node.attrs["perm"])),
    "Unsqueeze": _reshape,
}
