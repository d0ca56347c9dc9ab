"""Which GPU measures, in which state: for the header of saved measurements."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from tvmconv.core.errors import ArtifactError
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.targets import resolve_device
from tvmconv.measuring.gpu.driver import Gpu

_ASKED = (
    *("name", "driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem"),
    *("power.limit", "temperature.gpu", "utilization.gpu", "compute_mode"),
)
_SECONDS = 30.0


def gpu_state(target: str | CudaMachine) -> dict[str, Any]:
    """Name, clocks, versions and sizes of the GPU here, by its driver and by ``nvidia-smi``.

    Clocks are the current ones, before anything runs, and the largest; nothing is set. Raises
    :class:`ArtifactError` if driver or GPU is missing, or the GPU is of an older architecture than
    the target.
    """
    machine = resolve_device(target)
    assert isinstance(machine, CudaMachine)
    facts = Gpu().facts()
    capability = 10 * facts["capability_major"] + facts["capability_minor"]
    needed = int(machine.isa.removeprefix("sm_"))
    if capability < needed:
        raise ArtifactError(
            f"kernels for {machine.name} do not run on {facts['name']}, which has sm_{capability}. "
            f"Use --target cuda:sm_{capability}."
        )
    return {**facts, "target": machine.name, "nvidia_smi": nvidia_smi(facts["pci_bus"])}


def nvidia_smi(bus: str) -> dict[str, str]:
    """The report of ``nvidia-smi`` on the GPU of a bus address; empty without the program.

    Its numbers differ from the driver's: it counts all GPUs, in the order of the bus.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    asked = f"--query-gpu={','.join(_ASKED)}"
    command = [program, asked, "--format=csv,noheader", f"--id={bus}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in done.stdout.split(",")]
    return dict(zip(_ASKED, values, strict=False))
