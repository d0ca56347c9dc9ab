"""Measuring candidates on the GPU of this machine."""

from __future__ import annotations

from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.measuring.gpu.state import gpu_state
from tvmconv.tuning.measure import LocalMeasurer

WEIGHTS = "as calls in a row leave L2"


class GpuMeasurer(LocalMeasurer):
    """This machine's GPU: kernels are compiled in parallel and timed one at a time."""

    weights = WEIGHTS

    def identity(self) -> dict[str, str]:
        """Name and driver of the GPU, under the name that records have for what measured."""
        return dict(self._identity)

    def ensure(self, machine: Device, what: str) -> None:
        """Raise :class:`ArtifactError` for code that the GPU here cannot run."""
        assert isinstance(machine, CudaMachine)
        state = gpu_state(machine)
        smi = state["nvidia_smi"]
        self._identity = {
            "cpu": str(state["name"]),
            "driver": str(smi.get("driver_version", f"CUDA {state['driver_cuda']}")),
        }

    _identity: dict[str, str] = {}  # noqa: RUF012
