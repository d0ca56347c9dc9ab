"""The programs of a model for each of its input shapes and targets, from the graph to code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmconv.artifact.manifest import Manifest
from tvmconv.artifact.record import Planned, record_program, several_targets
from tvmconv.compile.culprit import failing_kernels
from tvmconv.compile.network import compile_functions, scheduled
from tvmconv.compile.program import CompiledProgram
from tvmconv.core.decision import KernelCall, Unscheduled
from tvmconv.core.errors import ConfigError
from tvmconv.core.tensor import Shapes
from tvmconv.core.unexpected import reported
from tvmconv.frontend import LoadedModel, to_relax
from tvmconv.frontend.inputs import fitted
from tvmconv.frontend.shape_lists import check_different
from tvmconv.graph.lower import lower
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine
from tvmconv.program.collect import Collection
from tvmconv.selection.agreement import Agreement
from tvmconv.selection.policy import Policy
from tvmconv.tvm_api import ir, tirx
from tvmconv.tvm_api.types import IRModule

Progress = Callable[[str, int, int], None]


def check_count(count: int, machine: Device, batch: str | None = None) -> None:
    """Raise :class:`ConfigError` for several shapes, or any batch, on a device that serves one."""
    if batch is not None and not isinstance(machine, Machine):
        raise ConfigError(
            f"batch={batch!r} for {machine.name}. Expected a CPU. Build a model for each batch "
            "size, with shapes=."
        )
    if count > 1 and not isinstance(machine, Machine):
        raise ConfigError(
            f"shapes= has {count} shapes for {machine.name}. Expected one for a GPU. Build a model "
            "for each shape."
        )


class Programs:
    """Programs for one target that share constants and kernels; its length counts them.

    ``progress`` is called with a stage's name, the steps done and the total steps. ``others`` are
    the programs for other targets of the model, whose constants are shared.
    """

    def __init__(
        self,
        machine: Device,
        policy: Policy,
        progress: Progress,
        others: Sequence[Programs] = (),
    ) -> None:
        self._machine, self._policy, self._progress = machine, policy, progress
        self._collection: Collection = Collection(others[0]._collection if others else None)
        agreements = [other._agreement for other in others]
        self._agreement: Agreement = Agreement(machine, policy, agreements)
        self._planned: dict[int, Planned] = {}
        self._shapes: list[list[tuple[int, ...]]] = []
        # functions before their schedules, and the calls of each program
        self._functions: list[tuple[IRModule, tuple[KernelCall, ...]]] = []

    def __len__(self) -> int:
        return len(self._planned)

    def add(
        self, index: int, loaded: LoadedModel, shapes: Shapes | None
    ) -> tuple[Unscheduled, ...]:
        """Import and lower a model for its shapes; returns convolutions without an algorithm.

        ``index`` is the program's place in the model. Call it inside the compiler's lock.
        """
        self._shapes.append([info.shape for info in loaded.inputs])
        check_different(self._shapes)
        self._progress("import", 0, 1)
        with reported("importing the model"), fitted(shapes):
            module = to_relax(loaded)
        self._progress("import", 1, 1)
        with reported("lowering the model"):
            lowered = lower(
                module,
                self._machine,
                policy=self._policy,
                progress=self._progress,
                agreement=self._agreement,
            )
        # constants belong to the collection alone
        functions = ir.IRModule(
            {v: f for v, f in lowered.mod.functions_items() if isinstance(f, tirx.PrimFunc)}
        )
        self._functions.append((functions, lowered.calls))
        with reported(self._failing):
            decisions = self._collection.add(
                scheduled(lowered.mod, self._machine),
                loaded.inputs,
                loaded.outputs,
                lowered.calls,
                lowered.decisions,
            )
        self._planned[index] = Planned(
            decisions, lowered.unscheduled, lowered.reorders, lowered.padding_overhead_bytes
        )
        return lowered.unscheduled

    def planned(self) -> list[Planned]:
        """The decisions for each program, in their order in the model."""
        return [self._planned[index] for index in sorted(self._planned)]

    def compiled(self, name: str, cc: str) -> CompiledProgram:
        """Generate the code of all programs."""
        added = list(self._planned)
        program = self._collection.program([added.index(index) for index in sorted(added)])
        with reported(self._failing):
            functions = self._collection.functions()
            return compile_functions(program, functions, self._machine, name=name, cc=cc)

    @classmethod
    def each(
        cls, machines: Sequence[Device], policy: Policy, progress: Progress
    ) -> tuple[Programs, ...]:
        """The programs of a model for each of its targets."""
        found: list[Programs] = []
        for machine in machines:
            found.append(cls(machine, policy, progress, found))
        return tuple(found)

    def _failing(self) -> str:
        found = [failing_kernels(mod, calls, self._machine) for mod, calls in self._functions]
        return max(found, key=len)


def compile_programs(
    programs: Sequence[Programs],
    machines: Sequence[Machine | CudaMachine],
    loaded: LoadedModel,
    policy: Policy,
    cc: str,
) -> tuple[Manifest, CompiledProgram]:
    """The manifest and the code of a model, from its programs for each of the machines."""
    codes = [each.compiled(loaded.name, cc) for each in programs]
    with reported("recording the model"):
        manifests = [
            record_program(
                code.program,
                machine,
                each.planned(),
                model_name=loaded.name,
                model_sha256=loaded.sha256,
                policy=policy.to_json(),
            )
            for machine, each, code in zip(machines, programs, codes, strict=True)
        ]
        manifest = several_targets(manifests, [code.program for code in codes])
        return manifest, CompiledProgram.joined(codes)
