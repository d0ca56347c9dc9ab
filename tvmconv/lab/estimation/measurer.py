"""Times that are estimates: candidates for processors that are not at hand, run under qemu."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tvmconv.core.errors import ArtifactError, TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.lab.estimation.cores import core_of
from tvmconv.lab.estimation.estimate import described_method
from tvmconv.lab.estimation.kernels import run_kernels
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine, processor
from tvmconv.tuning.anchor import Anchor
from tvmconv.tuning.candidate import SeededOperands
from tvmconv.tuning.journal import Trial
from tvmconv.tuning.measure import Final
from tvmconv.tuning.pool import Choice, Failure
from tvmconv.tuning.results import MeasuredChoice

# candidates that are linked and run together, and the limit of their packed weights
_TOGETHER = 8
_MOST_BYTES = 128 << 20
# limit of the emulation of one candidate
_SECONDS = 120.0
# errors of TVM and its passes where a schedule does not fit
_FAULTS = (TvmconvError, RuntimeError, ValueError, TypeError, KeyError)

Result = MeasuredChoice | Failure


class EstimatingMeasurer:
    """Estimated seconds instead of measured ones, see :mod:`tvmconv.lab.estimation`.

    Candidates are compiled in this process, linked together, and run once, which checks their
    results and counts their code. Estimates have no noise: one sample is enough.
    """

    # the estimate assumes hits in L1
    weights, tracker = "in L1", None

    def __init__(self, machine: Machine) -> None:
        self.core = core_of(machine)
        self._known: dict[tuple[str, Choice], Result] = {}

    def identity(self) -> dict[str, str]:
        """The method, in place of a device."""
        return {"cpu": f"estimate for {self.core.model}", "estimate": self.times}

    @property
    def times(self) -> str:
        """How estimates are made, in a sentence."""
        return described_method(self.core)

    def trials(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        best: float = math.inf,
        anchor: Anchor | None = None,
    ) -> Iterator[Trial]:
        """See :class:`~tvmconv.tuning.measure.Measurer`; ``best`` and ``anchor`` are not used."""
        for (algorithm, config), result in zip(
            choices, self._results(workload, processor(machine), choices), strict=True
        ):
            if isinstance(result, Failure):
                yield Trial(algorithm, config, result.kind, math.inf)
            else:
                yield Trial(algorithm, config, "timed", result.samples[0], result.error)

    def interleaved(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        final: Final,
    ) -> list[MeasuredChoice | Failure]:
        """See :class:`~tvmconv.tuning.measure.Measurer`; one sample of each."""
        return list(self._results(workload, processor(machine), choices))

    def _results(
        self, workload: Conv2dWorkload, machine: Machine, choices: Sequence[Choice]
    ) -> Iterator[Result]:
        """Results of all choices, in order; known ones are not run again."""
        for start in range(0, len(choices), _TOGETHER):
            part = choices[start : start + _TOGETHER]
            self._run_fresh(workload, machine, part)
            for choice in part:
                yield self._known[str(workload), choice]

    def _run_fresh(
        self, workload: Conv2dWorkload, machine: Machine, choices: Sequence[Choice]
    ) -> None:
        operands = _operands(str(workload), machine.lanes)
        waiting: list[tuple[Choice, Kernel]] = []
        size = 0
        for choice in choices:
            if (str(workload), choice) in self._known:
                continue
            try:
                kernel = make_kernel(workload, machine, *choice)
                kernel.prim_func()
            except _FAULTS as error:
                self._known[str(workload), choice] = Failure("error", str(error))
                continue
            waiting.append((choice, kernel))
            size += kernel.expression.packed_weight_bytes(workload, machine, kernel.config)
            if size > _MOST_BYTES:
                self._run(operands, waiting)
                waiting, size = [], 0
        self._run(operands, waiting)

    def _run(self, operands: SeededOperands, waiting: Sequence[tuple[Choice, Kernel]]) -> None:
        """Run kernels together, or one by one where one of them crashes."""
        if not waiting:
            return
        kernels = [kernel for _, kernel in waiting]
        arrays = [operands.arrays(kernel) for kernel in kernels]
        try:
            estimate, outputs = run_kernels(kernels, arrays, seconds=_SECONDS * len(kernels))
        except _FAULTS as error:
            if len(waiting) > 1:
                for each in waiting:
                    self._run(operands, [each])
                return
            ((choice, _),) = waiting
            kind = "crashed" if isinstance(error, ArtifactError) else "error"
            self._known[str(operands.workload), choice] = Failure(kind, str(error))
            return
        for (choice, kernel), layer, output in zip(waiting, estimate.layers, outputs, strict=True):
            checked = operands.judged(kernel, output)
            seconds = estimate.core.seconds(layer.cost.cycles)
            self._known[str(operands.workload), choice] = (
                MeasuredChoice(*choice, (seconds,), checked["error"], checked["limit"])
                if checked["status"] == "correct"
                else Failure("wrong", f"error {checked['error']:.3g}")
            )


@lru_cache(maxsize=1)
def _operands(workload: str, lanes: int) -> SeededOperands:
    return SeededOperands(workload, lanes)
