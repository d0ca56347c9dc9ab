"""Which GPU a model runs on, and how its launches are made: what ``load`` and ``build`` take."""

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
        Which of the GPUs that the driver shows, from 0.
    cuda_graph
        Whether launches are captured into a CUDA graph and replayed; None for what
        ``TVMCONV_CUDA_GRAPH`` says, or else for models of one image at a time.
    """

    device: int = 0
    cuda_graph: bool | None = None

    @classmethod
    def of(cls, device: Any, cuda_graph: Any) -> GpuOptions:
        """A user's arguments.

        Raises
        ------
        InputError
            If the device is no number of a GPU, or ``cuda_graph`` neither a boolean nor None.
        """
        if not (cuda_graph is None or isinstance(cuda_graph, bool)):
            raise InputError(f"cuda_graph={shown(cuda_graph)} must be True, False or None")
        return cls(whole(device, "device", 0, _MOST), cuda_graph)

    def check(self, on_gpu: bool) -> None:
        """Raise :class:`InputError` for options that a model for the processor has not."""
        if on_gpu or self == GpuOptions():
            return
        asked = "cuda_graph=" if self.device == 0 else f"device={self.device}"
        raise InputError(
            f"{asked} requires a model for GPUs, and this model runs on the CPU. Leave it out, or "
            "build the model for a target such as cuda:sm_90."
        )
