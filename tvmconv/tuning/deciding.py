"""The measurements that decide which candidates of a search become records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.records.record import outliers
from tvmconv.tuning.measure import Final, Measurer
from tvmconv.tuning.pool import Choice
from tvmconv.tuning.results import MeasuredChoice, fastest_gains, gain, seems_better
from tvmconv.tuning.settings import Outcome

# rounds of the deciding measurement over the rounds of the first one
_CONFIRMING = 2


@dataclass(frozen=True)
class Contest:
    """One workload on one machine, its ``default`` choice, and where both are measured."""

    workload: Conv2dWorkload
    machine: Device
    measurer: Measurer
    default: Choice
    final: Final

    def decide(
        self, finalists: Sequence[Choice], outcome: Outcome
    ) -> tuple[MeasuredChoice, list[MeasuredChoice]] | None:
        """The default and the finalists that beat it, the fastest of each algorithm.

        Candidates that seem faster are measured once more, with twice the rounds and in new
        processes. This measurement alone decides: the cache placement of a process's pages is
        random, and constant for all its rounds. The preselection does not bias it, because it used
        other samples. The gain and the failures are written to ``outcome``. Returns None if nothing
        could be measured.
        """
        default, good = self._measured(finalists, self.final, outcome)
        if default is None or not good:
            outcome.status = "not measured"
            return None
        winners: list[MeasuredChoice] = []
        hopeful = [m for m in good if seems_better(default.samples, m.samples)]
        if hopeful:
            longer = replace(self.final, rounds=_CONFIRMING * self.final.rounds)
            choices = [(m.algorithm, m.config) for m in hopeful]
            again, measured = self._measured(choices, longer, outcome)
            if again is not None and measured:
                default, good = again, measured
                winners = fastest_gains(default, good)
        base = default.samples
        first = max(winners or good, key=lambda m: gain(base, m.samples))
        outcome.best = first.algorithm
        outcome.speedup, outcome.lower_bound = gain(default.samples, first.samples)
        both = (default.samples, first.samples)
        outcome.samples = sum(map(len, both))
        outcome.outliers = sum(map(outliers, both))
        return default, winners

    def _measured(
        self, others: Sequence[Choice], final: Final, outcome: Outcome
    ) -> tuple[MeasuredChoice | None, list[MeasuredChoice]]:
        """The default and others interleaved; failures are counted and left out."""
        results = self.measurer.interleaved(
            self.workload, self.machine, [self.default, *others], final
        )
        for failed in (m for m in results if not isinstance(m, MeasuredChoice)):
            outcome.failures[failed.kind] += 1
        default, *measured = (m if isinstance(m, MeasuredChoice) else None for m in results)
        return default, [m for m in measured if m is not None]
