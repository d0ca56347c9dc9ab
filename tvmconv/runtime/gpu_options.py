"""The GPU of a model, and whether launches are replayed: options of ``load`` and ``build``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.arguments import shown, whole
from ..core.errors import InputError

_MOST = (1 << 31) - 1


@dataclass(frozen=True)
class GpuOptions:
    """Options of a loaded model for GPUs.

    Parameters
    ----------
    device
        Number of the GPU, from 0, as the driver counts them.
    cuda_graph
        Whether launches are captured into a CUDA graph and replayed. None: as the variable
        ``TVMCONV_CUDA_GRAPH`` says, or else at batch size 1.
    """

    device: int = 0
    cuda_graph: bool | None = None

    @classmethod
    def of(cls, device: Any, cuda_graph: Any) -> GpuOptions:
        """A user's arguments, checked."""
        if not (cuda_graph is None or isinstance(cuda_graph, bool)):
            raise InputError(f"cuda_graph={shown(cuda_graph)} must be True, False or None")
        return cls(whole(device, "device", 0, _MOST), cuda_graph)

    def check(self, on_gpu: bool) -> None:
        """Raise :class:`InputError` if options for GPUs are given for a model for CPUs."""
        if on_gpu or self == GpuOptions():
            return
        asked = "cuda_graph=" if self.device == 0 else f"device={self.device}"
        raise InputError(
            f"{asked} requires a model for GPUs, and this model runs on the CPU. Leave it out, or "
            "build the model for a target such as cuda:sm_90."
        )
