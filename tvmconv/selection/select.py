"""One workload and machine -> the candidates with their cost, and the decision with its reason."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from tvmconv import registry
from tvmconv.config import Config
from tvmconv.decision import Candidate, Decision
from tvmconv.errors import ConfigError
from tvmconv.machine import Machine
from tvmconv.selection.overrides import Override
from tvmconv.selection.policy import Policy, make_policy
from tvmconv.workload import Conv2dWorkload


@lru_cache(maxsize=4096)
def candidates(workload: Conv2dWorkload, machine: Machine, name: str) -> tuple[Candidate, ...]:
    """One algorithm's offers for a workload, each with its figures.

    Where the algorithm cannot compute the workload on the machine the only offer holds the
    reason in ``rejected``; all its figures are 0.
    """
    algorithm = registry.algorithm(name)
    reason = algorithm.unsupported(workload, machine)
    if registry.schedule(name, machine) is None:
        reason = reason or f"it has no schedule for {machine.family}"
    if reason:
        return (Candidate(name, Config.of(), 0.0, 0, 0, 0.0, rejected=reason),)
    offers = registry.offers(name, workload, machine)
    return tuple(make_candidate(workload, machine, name, config) for config in offers)


def make_candidate(
    workload: Conv2dWorkload, machine: Machine, name: str, config: Config, source: str = "default"
) -> Candidate:
    """A config of an algorithm with its predicted time, bytes and error."""
    algorithm, module = registry.algorithm(name), registry.schedule(name, machine)
    assert module is not None
    return Candidate(
        algorithm=name,
        config=config,
        seconds=module.predicted_seconds(workload, machine, config),
        workspace_bytes=algorithm.workspace_bytes(workload, machine, config),
        packed_weight_bytes=4 * math.prod(algorithm.packed_weight_shape(workload, machine, config)),
        error=algorithm.error_estimate(workload, machine, config),
        source=source,
    )


def select(
    workload: Conv2dWorkload,
    machine: Machine,
    *,
    layer: str = "",
    policy: Policy | None = None,
) -> Decision:
    """Choose the algorithm of one layer: the least predicted time that the policy allows.

    Parameters
    ----------
    workload
        The layer with its epilogue and input layout.
    machine
        Where it will run.
    layer
        Name for overrides, reports and errors.
    policy
        Allowed algorithms, budgets and overrides; everything within the default budgets if None.

    Raises
    ------
    ConfigError
        If nothing that the policy allows computes the workload.
    """
    policy = policy or make_policy()
    offers = [o for name in registry.ALGORITHMS for o in candidates(workload, machine, name)]
    offers = [_refuse(o, policy) for o in offers]
    forced = next((o for o in policy.overrides if o.matches(layer)), None)
    if forced is not None:
        return _forced(forced, workload, machine, layer, offers)
    able = [o for o in offers if not o.rejected]
    if not able:
        raise ConfigError(_impossible(workload, layer, offers))
    exact = [o for o in able if o.error <= policy.error_budget]
    least = min(o.error for o in able)
    pool = exact or [o for o in able if o.error == least]
    chosen = min(pool, key=lambda offer: offer.seconds)
    reason = _reason(chosen, pool)
    if not exact:
        reason = f"none keeps the error budget {policy.error_budget:.1e}; the most accurate"
    if policy.choose is not None:
        picked = policy.choose(layer, workload, tuple(able))
        if picked is not None and picked != chosen:
            chosen, reason = picked, "chosen by the caller"
    others = [o for o in offers if o != chosen]
    rejected = tuple(_outdone(o, chosen, policy) for o in others)
    return Decision(layer, workload, chosen, reason, rejected)


def _refuse(offer: Candidate, policy: Policy) -> Candidate:
    """The offer with the reason why the policy forbids it, if it does; errors are judged later."""
    if offer.rejected:
        return offer
    if offer.algorithm not in policy.algorithms:
        return replace(offer, rejected="not in algorithms=")
    budget = policy.memory_budget
    if budget is not None and offer.workspace_bytes > budget:
        text = f"workspace {offer.workspace_bytes} B exceeds the budget {budget} B"
        return replace(offer, rejected=text)
    return offer


def _outdone(offer: Candidate, chosen: Candidate, policy: Policy) -> Candidate:
    if offer.rejected:
        return offer
    if offer.error > max(policy.error_budget, chosen.error):
        text = f"error estimate {offer.error:.1e} exceeds the budget {policy.error_budget:.1e}"
        return replace(offer, rejected=text)
    ratio = offer.seconds / chosen.seconds
    text = f"slower: predicted {offer.seconds * 1e3:.3f} ms, {ratio:.2f} times the chosen"
    if ratio < 1:
        text = "not what was asked for"
    return replace(offer, rejected=text)


def _forced(
    override: Override,
    workload: Conv2dWorkload,
    machine: Machine,
    layer: str,
    offers: list[Candidate],
) -> Decision:
    """The override's algorithm with its knobs, whatever the budgets say."""
    name = override.algorithm
    problem = next((o.rejected for o in candidates(workload, machine, name) if o.rejected), "")
    if problem:
        raise ConfigError(f"layer {layer!r}: override asks for {name}, but {problem} ({workload})")
    base = min(candidates(workload, machine, name), key=lambda offer: offer.seconds).config
    try:
        config = base.replace(**override.knobs)
        module = registry.schedule(name, machine)
        assert module is not None
        module.check(workload, machine, config)
    except ConfigError as error:
        raise ConfigError(f"layer {layer!r}: override of {name}: {error}") from error
    chosen = make_candidate(workload, machine, name, config, source="override")
    rejected = tuple(
        o if o.rejected else replace(o, rejected="overridden")
        for o in offers
        if (o.algorithm, o.config) != (name, config)
    )
    return Decision(layer, workload, chosen, f"override {override.pattern!r}", rejected)


def _reason(chosen: Candidate, pool: list[Candidate]) -> str:
    if len(pool) == 1:
        return "the only one allowed that computes this layer"
    second = min((o for o in pool if o is not chosen), key=lambda o: o.seconds)
    return (
        f"least predicted time: {chosen.seconds * 1e3:.3f} ms, "
        f"{second.seconds / chosen.seconds:.2f} times faster than {second.algorithm}"
    )


def _impossible(workload: Conv2dWorkload, layer: str, offers: list[Candidate]) -> str:
    why = "; ".join(dict.fromkeys(f"{o.algorithm}: {o.rejected}" for o in offers))
    return f"layer {layer!r}: no allowed algorithm computes {workload} ({why})"
