"""The properties of a compiled model, read from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from tvmconv.artifact.manifest import Manifest
from tvmconv.artifact.program_record import MemoryReport
from tvmconv.core.decision import Decision, KernelCall, Unscheduled
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.device import Device


class ModelFacts:
    """Shortcuts to the fields of ``manifest``."""

    manifest: Manifest

    @property
    def programs(self) -> tuple[ProgramFacts, ...]:
        """The program of each shape that the model was built for, in the order of ``shapes=``.

        Other properties of the model describe the first program.
        """
        return tuple(map(ProgramFacts, self.manifest.programs))

    @property
    def targets(self) -> tuple[TargetFacts, ...]:
        """The model for each of its targets, in the order in which they are preferred.

        Other properties describe the target that runs here, or else the first one.
        """
        manifest = self.manifest
        names = [target.name for target in manifest.targets]
        return tuple(map(TargetFacts, map(manifest.for_target, names) if names else [manifest]))

    def program_with(self, shapes: Mapping[str, tuple[int, ...]]) -> ProgramFacts | None:
        """The first program whose inputs have these shapes by name; None if there is none.

        Batched inputs may have any number of images.
        """
        for program in self.programs:
            infos = {info.name: info for info in program.inputs}
            if all(name in infos and infos[name].fits(shape) for name, shape in shapes.items()):
                return program
        return None

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
        return tuple(self.manifest.decisions)

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
        """Planned bytes; the largest of all programs."""
        reports = [program.memory for program in self.manifest.programs]
        return reduce(MemoryReport.joined, reports)


class ProgramFacts(ModelFacts):
    """A model with the program for one shape of its inputs alone."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def __repr__(self) -> str:
        return f"ProgramFacts({'; '.join(map(str, (*self.inputs, *self.outputs)))})"


class TargetFacts(ModelFacts):
    """A model for one of its targets."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def __repr__(self) -> str:
        return f"TargetFacts({self.machine.described})"
