"""torch's own convolution for the CPU, im2col with a BLAS product: oneDNN and NNPACK are off."""

from __future__ import annotations

from . import torch_jit
from .case import Case, Session

version = torch_jit.version


def prepare(case: Case, threads: int) -> Session:
    """Call the operators one by one; the session's info names the convolution's kernel."""
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
    return torch_jit.session_of(module, values, case.outputs, ", ".join(sorted(names)))
