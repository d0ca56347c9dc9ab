"""Candidates of a workload on a machine with their costs, and the selection with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tvmconv.core.config import Config
from tvmconv.core.decision import Candidate, Decision
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine
from tvmconv.selection.overrides import Override
from tvmconv.selection.policy import Policy, make_policy
from tvmconv.selection.reasons import (
    confined,
    impossible,
    out_of_range,
    outdone,
    preferred,
    refuse,
    refuse_foreign,
    refuse_inexact,
    vector_code,
)


@lru_cache(maxsize=4096)
def candidates(workload: Conv2dWorkload, machine: Device, name: str) -> tuple[Candidate, ...]:
    """One algorithm's candidates for a workload, each with its figures.

    If the algorithm cannot compute the workload on the machine, the only candidate has the reason
    in ``rejected``, and all its figures are 0.
    """
    reason = registry.unavailable(name, workload, machine)
    if reason:
        return (Candidate(name, Config.of(), 0.0, 0, 0, 0.0, rejected=reason, cause="unsupported"),)
    offers = registry.offers(name, workload, machine)
    return tuple(make_candidate(workload, machine, name, config) for config in offers)


def make_candidate(
    workload: Conv2dWorkload, machine: Device, name: str, config: Config, source: str = "default"
) -> Candidate:
    """A configuration of an algorithm with its predicted cycles, bytes and error.

    Raises ``ConfigError`` if the configuration exceeds a limit of the machine.
    """
    algorithm = registry.algorithm(name, machine.kind)
    schedule = registry.required(name, workload, machine)
    config = registry.knobs(name, machine).complete(config)
    registry.check(name, workload, machine, config)
    return Candidate(
        algorithm=name,
        config=config,
        cycles=schedule.predicted_cycles(workload, machine, config),
        workspace_bytes=algorithm.workspace_bytes(workload, machine, config),
        packed_weight_bytes=algorithm.packed_weight_bytes(workload, machine, config),
        error=algorithm.error_estimate(workload, machine, config),
        source=source,
        parts=registry.explain_cost(name, workload, machine, config),
        precision=algorithm.precision(config),
    )


def offers_of(
    workload: Conv2dWorkload, machine: Device, name: str, policy: Policy
) -> tuple[Candidate, ...]:
    """An algorithm's candidates: its own, and configurations from tuning logs.

    The cycles of a record are the predicted cycles of the default, scaled by the measured ratio of
    both. They are comparable with the predictions of all other candidates.
    """
    offers = candidates(workload, machine, name)
    if not policy.logs or offers[0].rejected:
        return offers
    from tvmconv.records.lookup import tuned

    logged = {}
    for found in tuned(workload, machine, name, policy.logs):
        candidate = make_candidate(workload, machine, name, found.config, found.source)
        base = make_candidate(
            workload, machine, found.default_algorithm, found.default_config
        ).cycles
        # the model's parts do not add up to a measured time
        logged[found.config] = replace(candidate, cycles=base * found.ratio, parts={})
    return (*(o for o in offers if o.config not in logged), *logged.values())


def select(
    workload: Conv2dWorkload,
    machine: Device,
    *,
    layer: str = "",
    policy: Policy | None = None,
    facts: WeightFacts | None = None,
) -> Decision:
    """Select the algorithm of one layer: the fewest predicted cycles that the policy allows.

    Raises ``ConfigError`` if nothing that the policy allows computes the workload. ``layer`` is the
    name for overrides, reports and errors. Without a policy, everything within the default budgets
    is allowed. ``facts`` are properties of the layer's weights, by default properties that hold for
    all weights.
    """
    policy = policy or make_policy()
    if workload.types.is_integer:
        # all integers are finite
        policy = replace(policy, finite=True)
    facts = facts or WeightFacts.any_weights(workload)
    return _Selection(workload, machine, layer, policy, facts).decision()


@dataclass(frozen=True)
class _Selection:
    """The selection for one layer."""

    workload: Conv2dWorkload
    machine: Device
    layer: str
    policy: Policy
    facts: WeightFacts

    def decision(self) -> Decision:
        """See :func:`select`."""
        workload, machine, policy = self.workload, self.machine, self.policy
        offers = [
            refuse(self._checked(offer), policy, machine.kind)
            for name in registry.offered(machine, policy.precision, workload)
            for offer in offers_of(workload, machine, name, policy)
            # omit candidates of precisions that were not requested
            if offer.precision in ("", policy.precision)
        ]
        if not policy.finite:
            offers = self._confined(offers)
        override = next((o for o in policy.overrides if o.matches(self.layer)), None)
        if override is not None:
            return self._decision(self._overridden(override), f"asked for by {override}", offers)
        able = [o for o in offers if not o.rejected]
        if not able:
            raise ConfigError(impossible(workload, self.layer, offers))
        pool = [o for o in able if policy.keeps(o)] or _fallback(able, machine.kind)
        chosen = min(pool, key=lambda offer: offer.cycles)
        reason = preferred(chosen, able, policy) + out_of_range(offers)
        if not policy.finite:
            algorithm = registry.algorithm(chosen.algorithm, machine.kind)
            reason += confined(algorithm.adds_foreign_products(workload, machine))
        if policy.choose is not None:
            picked = policy.choose(self.layer, workload, tuple(able))
            if picked is not None and picked != chosen:
                chosen = self._picked(picked)
                self._check_exact(chosen, "overrides=")
                reason = "chosen by the caller's function"
        return self._decision(chosen, reason, offers)

    def _checked(self, offer: Candidate) -> Candidate:
        return refuse_inexact(offer, self.workload, self.facts, self.machine.kind)

    def _confined(self, offers: Sequence[Candidate]) -> list[Candidate]:
        """Candidates that do not multiply values of other channels; all if none remains."""

        def is_foreign(offer: Candidate) -> bool:
            return registry.algorithm(offer.algorithm, self.machine.kind).adds_foreign_products(
                self.workload, self.machine
            )

        if all(offer.rejected or is_foreign(offer) for offer in offers):
            return list(offers)
        return [refuse_foreign(o) if not o.rejected and is_foreign(o) else o for o in offers]

    def _decision(self, chosen: Candidate, reason: str, offers: Sequence[Candidate]) -> Decision:
        policy, machine = self.policy, self.machine
        others = [o for o in offers if (o.algorithm, o.config) != (chosen.algorithm, chosen.config)]
        if isinstance(machine, Machine) and machine.vector.scalable:
            able = [chosen, *(o for o in others if not o.rejected)]
            reason += f"; {vector_code(chosen, able, policy)}"
        rejected = tuple(outdone(o, chosen, policy) for o in others)
        return Decision(self.layer, self.workload, chosen, reason, rejected)

    def _overridden(self, override: Override) -> Candidate:
        """The fastest candidate with the override's parameters, or the closest one."""
        name, knobs, policy = override.algorithm, override.knobs, self.policy
        offers = offers_of(self.workload, self.machine, name, policy)
        if problem := next((o.rejected for o in offers if o.rejected), ""):
            raise ConfigError(f"layer {self.layer!r}: {override} asks for {name}, but {problem}")

        def distance(offer: Candidate) -> tuple[int, float]:
            return sum(offer.config.get(k) != v for k, v in knobs.items()), offer.cycles

        asked = knobs.get("precision")
        offers = tuple(o for o in offers if asked in (None, o.precision)) or offers
        exact = [o for o in offers if not self._checked(o).rejected]
        base = min(exact or offers, key=distance)
        if not knobs and not policy.keeps(base):
            within = [o for o in offers if policy.keeps(o)]
            base = min(within or offers, key=distance)
        try:
            config = base.config.replace(**knobs)
            chosen = make_candidate(self.workload, self.machine, name, config, source="override")
        except ConfigError as error:
            raise ConfigError(f"layer {self.layer!r}: {override}: {error}") from error
        self._check_exact(chosen, str(override))
        return self._in_memory(chosen, str(override))

    def _picked(self, picked: Candidate) -> Candidate:
        """A callback's selection with its own figures: the callback may have changed the config."""
        if not isinstance(picked, Candidate) or registry.unknown(picked.algorithm):
            raise ConfigError(
                f"layer {self.layer!r}: the function in overrides= must return a candidate or "
                f"None, not {picked!r}"
            )
        name, returned = picked.algorithm, f"layer {self.layer!r}: overrides= returned"
        if problem := registry.unavailable(name, self.workload, self.machine):
            raise ConfigError(f"{returned} {name}, but {problem}")
        try:
            chosen = make_candidate(
                self.workload, self.machine, name, picked.config, source="override"
            )
        except ConfigError as error:
            raise ConfigError(f"{returned} {name}: {error}") from error
        return self._in_memory(chosen, "overrides=")

    def _check_exact(self, chosen: Candidate, who: str) -> None:
        """Raise :class:`ConfigError` for a candidate that is not exact for the weights."""
        refused = self._checked(chosen)
        if refused.rejected:
            is_range = refused.cause == "range"
            other = "tf32 or float32" if is_range else "a smaller tile or for direct"
            raise ConfigError(
                f"layer {self.layer!r}: {who} asks for {chosen.algorithm} {chosen.config}, but "
                f"{refused.rejected}: ask for {other}"
            )

    def _in_memory(self, chosen: Candidate, who: str) -> Candidate:
        """The candidate, unless it exceeds the memory budget, which has no exceptions."""
        budget = self.policy.memory_budget
        if budget is not None and chosen.workspace_bytes > budget:
            raise ConfigError(
                f"layer {self.layer!r}: {who} asks for {chosen.algorithm}, which needs "
                f"{chosen.workspace_bytes} bytes of workspace; memory_budget is {budget}: "
                "raise it or ask for another algorithm"
            )
        return chosen


def _fallback(able: Sequence[Candidate], kind: str) -> list[Candidate]:
    """The candidates if none meets the error budget: sums of products, as defined."""
    sums = [o for o in able if registry.algorithm(o.algorithm, kind).sums_products]
    smallest = min(o.error for o in able)
    return sums or [o for o in able if o.error == smallest]
