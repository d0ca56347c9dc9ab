"""torch.compile on the CPU: TorchInductor's C++ kernels, with oneDNN for convolutions."""

from __future__ import annotations

import os

from . import torch_jit
from .case import Case, Session

version = torch_jit.version


def prepare(case: Case, threads: int) -> Session:
    """Weights are frozen, so that oneDNN packs them before the calls.

    Compiled files are in the case's folder, and not in a cache that later runs would find.
    """
    import torch

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(case.folder / "inductor")
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    values = [torch.from_numpy(value) for value in case.inputs.values()]
    compiled = torch.compile(torch_jit.module_of(case).eval(), options={"freezing": True})
    return torch_jit.session_of(compiled, values, case.outputs, "TorchInductor")
