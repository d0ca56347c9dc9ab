"""torch.compile on a GPU: TorchInductor's kernels and library calls, in a CUDA graph."""

from __future__ import annotations

from . import torch_cuda
from .case import Case, Session

version, broken = torch_cuda.version, torch_cuda.broken


def prepare(case: Case, threads: int) -> Session:
    """Compiled at once with the usual mode; this bench makes the CUDA graphs."""
    import torch

    module, values = torch_cuda.module_on_device(case)
    compiled = torch.compile(module)
    return torch_cuda.session_of(case, lambda: compiled(*values), "torch.compile")
