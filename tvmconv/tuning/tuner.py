"""Tunes one workload: search, interleaved measurement with the default, record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.device import Device
from tvmconv.records.logfile import append
from tvmconv.records.record import Record
from tvmconv.records.space import KNOBS
from tvmconv.tuning.anchor import Anchor
from tvmconv.tuning.deciding import Contest
from tvmconv.tuning.default_choice import untuned_choice
from tvmconv.tuning.journal import SPILLED, Journal, Trial
from tvmconv.tuning.measure import Final, Measurer
from tvmconv.tuning.pool import Choice
from tvmconv.tuning.results import MeasuredChoice, measured_record
from tvmconv.tuning.search import HOPELESS, Search, next_search, searches
from tvmconv.tuning.settings import Outcome, Settings

# how many of the search's best are measured again, and how many of these to the end
_SHORT_LIST = 8
_FINALISTS = 4
_SHORT = 6
# candidates of every algorithm that is not the predicted best, to show that it can compete
_FIRST_LOOK = 4


Observer = Callable[[Outcome], None]
# proposals that are built together, of one or several searches
Batch = dict[Search, list[Config]]


class WorkloadTuner:
    """One workload on one machine.

    The record goes to ``log``, trials to ``journal``. ``provenance`` returns ``versions`` and
    ``date`` of a record. ``facts`` describe the weights; usual ones by default.
    """

    def __init__(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        measurer: Measurer,
        settings: Settings,
        log: Path,
        journal: Journal,
        provenance: Callable[[], Mapping[str, Any]],
        facts: WeightFacts | None = None,
    ) -> None:
        self.workload = workload
        self.machine = machine
        self.measurer = measurer
        self.settings = settings
        self.log = log
        self.journal = journal
        self.provenance = provenance
        facts = facts or WeightFacts.usual_weights(workload)
        self.default = untuned_choice(workload, machine, settings.policy, facts)
        self.searches = searches(workload, machine, settings, facts)
        self.outcome = Outcome(workload, default=self.default[0])
        known = journal.result(str(workload), self._anchor_key()) or {}
        self.anchor = Anchor(self.default, float(known.get("seconds", math.inf)))

    def run(self, deadline: float = math.inf, observe: Observer = lambda _: None) -> Outcome:
        """Search until the trials, the space or the time end; then decide.

        ``deadline`` is in the time of ``time.monotonic``; ``observe`` is called after every trial.
        """
        start = time.monotonic()
        name = str(self.workload)
        if self.journal.finished(name, self.settings.to_json()):
            self.outcome.recall(self.journal.result(name, self.settings.to_json()))
            observe(self.outcome)
            return self.outcome
        complete = True
        try:
            for batch in self._batches():
                if time.monotonic() > deadline:
                    complete = False
                    break
                self._measure(batch, observe)
                self.outcome.seconds = time.monotonic() - start
        finally:
            self.anchor.close()
        self._decide()
        if complete:
            self.journal.keep(name, self.settings.to_json(), self.outcome.to_json())
            self.journal.finish(name, self.settings.to_json())
        self.outcome.seconds, self.outcome.done = time.monotonic() - start, True
        observe(self.outcome)
        return self.outcome

    def _batches(self) -> Iterator[Batch]:
        """Proposals until the trials or spaces end, or ``early_stop`` of them gained nothing."""
        stale, best = 0, math.inf
        for batch in self._proposals():
            yield batch
            stale += sum(map(len, batch.values()))
            if self.outcome.best_seconds < best:
                best, stale = self.outcome.best_seconds, 0
            if 0 < self.settings.early_stop <= stale:
                return

    def _proposals(self) -> Iterator[Batch]:
        """All algorithms at once first, then the best, and sometimes its rivals."""
        left = self.settings.trials
        batch = self._first_look(left)
        open_searches = list(self.searches)
        for round_number in count(1):
            if batch:
                yield batch
            left -= sum(map(len, batch.values()))
            if left <= 0 or not open_searches:
                return
            search = next_search(open_searches, round_number)
            proposed = search.propose(min(self.settings.batch, left))
            batch = {search: proposed} if proposed else {}
            if not proposed:
                open_searches.remove(search)

    def _first_look(self, left: int) -> Batch:
        """The leader's first batch and a few candidates of every other algorithm.

        They are built together, and the leader's last: some direct kernels take seconds to compile,
        and other workers would wait for the last one.
        """
        batch: Batch = {}
        size = self.settings.batch
        for search in self.searches:
            if proposed := search.propose(min(size, left)):
                batch[search] = proposed
                left -= len(proposed)
            size = min(size, _FIRST_LOOK)
        return dict(reversed(batch.items()))

    def _measure(self, batch: Batch, observe: Observer) -> None:
        name = str(self.workload)
        # the default is timed even if it spills; other settings may have had another default
        known = {
            choice: trial
            for choice, trial in self.journal.trials(name).items()
            if choice != self.default or trial.status != SPILLED
        }
        choices: list[Choice] = [
            (search.space.algorithm, config)
            for search, configs in batch.items()
            for config in configs
        ]
        results: dict[Choice, float] = {}
        for choice in choices:
            if trial := known.get(choice):
                self.outcome.remembered += 1
                results[choice] = self._take(trial, observe)
        fresh = [choice for choice in choices if choice not in known]
        if fresh:
            best = self.outcome.best_seconds
            for trial in self.measurer.trials(
                self.workload, self.machine, fresh, best, self.anchor
            ):
                self._keep_anchor()
                self.journal.add(name, [trial])
                results[trial.algorithm, trial.config] = self._take(trial, observe)
        # in the order of the proposals, so that a continued run gives the model the same times
        for search, configs in batch.items():
            search.learn({c: results[search.space.algorithm, c] for c in configs})

    def _anchor_key(self) -> dict[str, Any]:
        algorithm, config = self.default
        return {"anchor": algorithm, "config": config.to_json()}

    def _keep_anchor(self) -> None:
        """Store the time that all times of the journal refer to, for a continued run."""
        key = self._anchor_key()
        name = str(self.workload)
        if math.isfinite(self.anchor.seconds) and self.journal.result(name, key) is None:
            self.journal.keep(name, key, {"seconds": self.anchor.seconds})

    def _take(self, trial: Trial, observe: Observer) -> float:
        self.outcome.trials += 1
        if trial.status != "timed":
            self.outcome.failures[trial.status] += 1
        if (trial.algorithm, trial.config) == self.default:
            self.outcome.default_seconds = trial.seconds
        if trial.seconds < self.outcome.best_seconds:
            self.outcome.best_seconds = trial.seconds
            self.outcome.best = trial.algorithm
        observe(self.outcome)
        return trial.seconds

    def _finalists(self) -> list[Choice]:
        """The best of every algorithm that is near the lead, then the next best of all.

        They are measured again: the minimum of many noisy times is a lucky one.
        """
        ranked = sorted(
            (seconds, search.space.algorithm, str(config), config)
            for search in self.searches
            for config, seconds in search.times.items()
            if math.isfinite(seconds)
        )
        near = HOPELESS * self.outcome.best_seconds
        firsts = {name: c for seconds, name, _, c in reversed(ranked) if seconds < near}
        ordered: list[Choice] = list(firsts.items())
        ordered += [(name, config) for _, name, _, config in ranked]
        unique = [c for c in dict.fromkeys(ordered) if c != self.default]
        listed = unique[: max(_SHORT_LIST, len(firsts))]
        if len(listed) <= _FINALISTS:
            return listed
        final = self.settings.final
        short = Final(min(_SHORT, final.rounds), final.seconds / 2, draft=True)
        measured = self.measurer.interleaved(self.workload, self.machine, listed, short)
        good = [m for m in measured if isinstance(m, MeasuredChoice)]
        # medians of ratios to the median of a round, as in the search
        middles = [median(times) for times in zip(*(m.samples for m in good), strict=True)]
        places = sorted(
            (median(s / middle for s, middle in zip(m.samples, middles, strict=True)), number)
            for number, m in enumerate(good)
        )
        chosen = [(good[n].algorithm, good[n].config) for _, n in places[:_FINALISTS]]
        return chosen or listed[:_FINALISTS]

    def _decide(self) -> None:
        """Measure the finalists with the default, and log the best of each algorithm."""
        if not (finalists := self._finalists()):
            return
        contest = Contest(
            self.workload, self.machine, self.measurer, self.default, self.settings.final
        )
        if (decided := contest.decide(finalists, self.outcome)) is None:
            return
        default, winners = decided
        append(self.log, [self._record(default, winner).to_line() for winner in winners])
        if winners:
            self.outcome.status = "recorded"

    def _record(self, default: MeasuredChoice, winner: MeasuredChoice) -> Record:
        return measured_record(
            self.workload,
            self.machine,
            default,
            winner,
            tuner=self.settings.described(KNOBS, self.outcome.trials, self.measurer.weights),
            device=self.measurer.identity(),
            **self.provenance(),
        )
