"""torch's own convolution for the CPU, im2col with a BLAS product: oneDNN and NNPACK are off."""

from __future__ import annotations

from typing import Any

from . import torch_jit
from .case import Array, Case, Session

version = torch_jit.version


def prepare(case: Case, threads: int) -> Session:
    """Call the operators one by one; the convolution's kernel is told in the session's info."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.backends.mkldnn.set_flags(False)
    torch.backends.nnpack.set_flags(False)
    values = [torch.from_numpy(value) for value in case.inputs.values()]
    module = torch_jit.module_of(case).eval()
    with torch.autograd.profiler.profile() as profile:
        module(*values)
    names = {event.name for event in profile.function_events if "conv" in event.name}
    last: list[Any] = [None]

    def run() -> None:
        last[0] = module(*values)

    def outputs() -> dict[str, Array]:
        results = last[0] if isinstance(last[0], tuple) else (last[0],)
        return {n: r.numpy() for n, r in zip(case.outputs, results, strict=True)}

    return Session(run, outputs, info=", ".join(sorted(names)))
