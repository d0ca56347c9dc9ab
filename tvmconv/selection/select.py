"""One workload and machine -> the candidates with their cost, and the decision with its reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from tvmconv import registry
from tvmconv.config import Config
from tvmconv.decision import Candidate, Decision
from tvmconv.errors import ConfigError
from tvmconv.machine import Machine
from tvmconv.workload import Conv2dWorkload


@lru_cache(maxsize=4096)
def candidates(workload: Conv2dWorkload, machine: Machine, name: str) -> tuple[Candidate, ...]:
    """One algorithm's offers for a workload, each with its figures.

    Where the algorithm cannot compute the workload on the machine the only offer holds the
    reason in ``rejected``; all its figures are 0.
    """
    algorithm = registry.algorithm(name)
    module = registry.schedule(name, machine)
    reason = algorithm.unsupported(workload, machine)
    if module is None:
        reason = reason or f"it has no schedule for {machine.family}"
    if reason or module is None:
        return (Candidate(name, Config.of(), 0.0, 0, 0, 0.0, rejected=reason or ""),)
    return tuple(
        Candidate(
            algorithm=name,
            config=config,
            seconds=module.predicted_seconds(workload, machine, config),
            workspace_bytes=algorithm.workspace_bytes(workload, machine, config),
            packed_weight_bytes=4
            * math.prod(algorithm.packed_weight_shape(workload, machine, config)),
            error=algorithm.error_estimate(workload, machine, config),
        )
        for config in registry.offers(name, workload, machine)
    )


def check_algorithms(algorithms: Sequence[str] | None) -> tuple[str, ...]:
    """The allowed algorithm names, by default all of them.

    Raises
    ------
    ConfigError
        If a name is not registered.
    """
    if algorithms is None:
        return tuple(registry.ALGORITHMS)
    allowed = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
    if unknown := [name for name in allowed if name not in registry.ALGORITHMS]:
        known = ", ".join(registry.ALGORITHMS)
        raise ConfigError(f"algorithms={unknown} are unknown; choose from {known}")
    return allowed


def select(
    workload: Conv2dWorkload,
    machine: Machine,
    *,
    layer: str = "",
    algorithms: Sequence[str] | None = None,
) -> Decision:
    """Choose the algorithm of one layer: the least predicted time among those allowed.

    Parameters
    ----------
    workload
        The layer with its epilogue and input layout.
    machine
        Where it will run.
    layer
        Name for reports and errors.
    algorithms
        Names to choose from; by default every registered algorithm.

    Raises
    ------
    ConfigError
        If none of the allowed algorithms can compute the workload.
    """
    allowed = check_algorithms(algorithms)
    offers = [o for name in registry.ALGORITHMS for o in candidates(workload, machine, name)]
    able = [o for o in offers if not o.rejected and o.algorithm in allowed]
    if not able:
        why = "; ".join(f"{o.algorithm}: {o.rejected or 'not in algorithms='}" for o in offers)
        raise ConfigError(f"layer {layer!r}: no algorithm computes {workload} ({why})")
    chosen = min(able, key=lambda offer: offer.seconds)
    rejected = [_with_reason(o, chosen, allowed) for o in offers if o is not chosen]
    return Decision(layer, workload, chosen, _reason(chosen, able), tuple(rejected))


def _reason(chosen: Candidate, able: list[Candidate]) -> str:
    if len(able) == 1:
        return "the only allowed algorithm that computes this layer"
    second = min(o.seconds for o in able if o is not chosen)
    return (
        f"least predicted time: {chosen.seconds * 1e3:.3f} ms, "
        f"{second / chosen.seconds:.2f} times faster than the next"
    )


def _with_reason(offer: Candidate, chosen: Candidate, allowed: tuple[str, ...]) -> Candidate:
    reason = offer.rejected
    if not reason and offer.algorithm not in allowed:
        reason = "not in algorithms="
    if not reason:
        reason = f"slower: predicted {offer.seconds * 1e3:.3f} ms"
    return Candidate(**{**offer.__dict__, "rejected": reason})
