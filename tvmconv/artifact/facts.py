"""The properties of a compiled model, read from its manifest."""

from __future__ import annotations

from tvmconv.artifact.manifest import Manifest, MemoryReport
from tvmconv.core.decision import Decision, KernelCall, Unscheduled
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.device import Device


class ModelFacts:
    """Shortcuts to the fields of ``manifest``."""

    manifest: Manifest

    @property
    def name(self) -> str:
        """The ONNX model's name."""
        return self.manifest.model_name

    @property
    def machine(self) -> Device:
        """The description of the CPU or GPU that the kernels were built for."""
        return self.manifest.machine

    @property
    def threads(self) -> int:
        """Threads of one call, as far as the process has CPUs for them."""
        return self.manifest.threads

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Inputs in argument order."""
        return self.manifest.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Outputs in result order."""
        return self.manifest.outputs

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Algorithm and configuration of every convolution, with the reason."""
        return self.manifest.decisions

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        """Kernel calls in execution order."""
        return self.manifest.calls

    @property
    def unscheduled(self) -> tuple[Unscheduled, ...]:
        """Convolutions that no algorithm supports, with the reason."""
        return self.manifest.unscheduled

    @property
    def memory(self) -> MemoryReport:
        """Planned bytes."""
        return self.manifest.memory
