"""Evolutionary search over the knobs of one algorithm, guided by a learned cost model."""

from __future__ import annotations

import hashlib
import math
import random

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.device import Device
from tvmconv.records.space import Space, make_space
from tvmconv.tuning.cost_model import CostModel, predicted
from tvmconv.tuning.settings import Settings

# algorithms predicted slower than the best by more than this are not tried
_WORTH = 3.0
# algorithms measured slower than the best by more than this get no further trials
HOPELESS = 1.5
_POPULATION = 96
_GENERATIONS = 4
_PARENTS = 16
_RANDOM_SHARE = 0.1
_FIRST_RANDOM_SHARE = 0.5
_CROSSOVER = 0.3
_NEIGHBOR_SHARE = 0.4
_LEADERS = 3
_TOURNAMENT = 4


class Search:
    """Proposes configs and learns from their times.

    Like MetaSchedule's evolutionary strategy: generations of mutations of the best configs, ranked
    by the cost model. The best unseen ones are measured, with some random ones among them. The same
    seed and the same times give the same proposals.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        text = f"{seed}|{space.workload}|{space.machine.isa}|{space.machine.cores}"
        digest = hashlib.sha256(f"{text}|{space.algorithm}".encode()).digest()
        self._random = random.Random(digest)
        self._model = CostModel(space)
        self.times: dict[Config, float] = {}
        self._starts = sorted(space.starts, key=lambda c: (predicted(space, c), str(c)))
        self._proposed: set[Config] = set()

    @property
    def best(self) -> tuple[Config, float] | None:
        """The fastest config so far and its seconds."""
        good = [(t, str(c), c) for c, t in self.times.items() if math.isfinite(t)]
        if not good:
            return None
        seconds, _, config = min(good)
        return config, seconds

    def propose(self, count: int) -> list[Config]:
        """Configs to measure next, each once; fewer than ``count`` where the space ends."""
        first = [c for c in dict.fromkeys(self._starts) if c not in self._proposed]
        chosen = first[:count]
        self._proposed.update(chosen)
        ranked = self._evolve() if len(chosen) < count else []
        # the first batch also shows the model configs that the analytic one would never propose
        quota = round((_RANDOM_SHARE if self.times else _FIRST_RANDOM_SHARE) * count)
        neighbors = self._neighbors(round(_NEIGHBOR_SHARE * count)) if self.times else []
        for config in (*neighbors, *ranked):
            if len(chosen) >= count - quota:
                break
            if config not in self._proposed:
                chosen.append(config)
                self._proposed.add(config)
        misses = 0
        while len(chosen) < count and misses < 8 * count:
            drawn = self._promising()
            if drawn is None or drawn in self._proposed:
                misses += 1
                continue
            chosen.append(drawn)
            self._proposed.add(drawn)
        return chosen

    def learn(self, times: dict[Config, float]) -> None:
        """Learn measured seconds, infinite where a config failed."""
        self.times.update(times)
        self._model.fit(self.times)

    def _evolve(self) -> list[Config]:
        """Unmeasured configs, the most promising first."""
        measured = sorted(self.times, key=lambda c: (self.times[c], str(c)))
        population = measured[:_PARENTS] or list(self._starts)
        population += self._some(_POPULATION - len(population))
        seen: dict[Config, float] = {}
        for generation in range(_GENERATIONS + 1):
            fresh = [c for c in dict.fromkeys(population) if c not in seen]
            seen.update(zip(fresh, self._model.scores(fresh), strict=True))
            if generation == _GENERATIONS:
                break
            parents = sorted(dict.fromkeys(population), key=lambda c: (-seen[c], str(c)))
            population = self._offspring(parents[: _POPULATION // 3])
        unseen = [c for c in seen if c not in self._proposed]
        return sorted(unseen, key=lambda c: (-seen[c], str(c)))

    def _neighbors(self, count: int) -> list[Config]:
        """Unmeasured neighbors of the few best: a model of few samples cannot tell them apart."""
        best = sorted(self.times, key=lambda c: (self.times[c], str(c)))[:_LEADERS]
        drawn = [
            self.space.mutate(self._random.choice(best), self._random) for _ in range(8 * count)
        ]
        fresh = [c for c in dict.fromkeys(drawn) if c is not None and c not in self._proposed]
        scores = dict(zip(fresh, self._model.scores(fresh), strict=True))
        return sorted(fresh, key=lambda c: (-scores[c], str(c)))[:count]

    def _offspring(self, parents: list[Config]) -> list[Config]:
        children = []
        for _ in range(_POPULATION):
            one = self._random.choice(parents)
            if self._random.random() < _CROSSOVER:
                other = self._random.choice(parents)
                child = self.space.cross(one, other, self._random)
            else:
                child = self.space.mutate(one, self._random)
            if child is not None:
                children.append(child)
        return children or parents

    def _promising(self) -> Config | None:
        """The best predicted of a few random configs: most are slow, and slow to compile."""
        drawn = self._some(_TOURNAMENT)
        scores = dict(zip(drawn, self._model.scores(drawn), strict=True))
        return max(drawn, key=lambda c: (scores[c], str(c)), default=None)

    def _some(self, count: int) -> list[Config]:
        drawn = (self.space.sample(self._random) for _ in range(max(count, 0)))
        return [config for config in drawn if config is not None]


def searches(
    workload: Conv2dWorkload, machine: Device, settings: Settings, facts: WeightFacts | None = None
) -> list[Search]:
    """Searches of the algorithms that are predicted within reach of the best, which is first."""
    spaces, least, policy = [], {}, settings.policy
    offered = registry.offered(machine, settings.precision, workload)
    for name in settings.algorithms or offered:
        if name not in offered:
            continue
        rounds = "" not in registry.algorithm(name, machine.kind).precisions
        budget = policy.low_precision_budget if rounds else policy.error_budget
        try:
            space = make_space(workload, machine, name, budget, facts, settings.precision)
        except ConfigError:
            continue
        if space.starts:
            spaces.append(space)
            least[name] = min(predicted(space, start) for start in space.starts)
    bound = _WORTH * min(least.values(), default=math.inf)
    worth = [space for space in spaces if least[space.algorithm] <= bound]
    worth.sort(key=lambda space: least[space.algorithm])
    return [Search(space, settings.seed) for space in worth]


def next_search(searches: list[Search], round_number: int) -> Search:
    """The leader two times of three, and the searches near it, once every algorithm was tried."""

    def seconds(search: Search) -> float:
        return search.best[1] if search.best else math.inf

    ranked = sorted(searches, key=seconds)
    near = [s for s in ranked if seconds(s) <= HOPELESS * seconds(ranked[0])] or ranked[:1]
    return near[0] if round_number % 3 else near[round_number // 3 % len(near)]
