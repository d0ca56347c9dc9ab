"""What builds take without a log: the choice that every other is measured against."""

from __future__ import annotations

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.device import Device
from tvmconv.selection.policy import Policy
from tvmconv.tuning.pool import Choice


def untuned_choice(
    workload: Conv2dWorkload,
    machine: Device,
    policy: Policy | None = None,
    facts: WeightFacts | None = None,
) -> Choice:
    """What a build without any log would take.

    Parameters
    ----------
    workload, machine, policy
        As of :func:`~tvmconv.selection.select.select`; the policy has no logs.
    facts
        Of the weights; by default those of usual weights.

    Raises
    ------
    ConfigError
        If no algorithm computes the workload.
    """
    from tvmconv.selection.select import select

    facts = facts or WeightFacts.usual_weights(workload)
    chosen = select(workload, machine, policy=policy, facts=facts).chosen
    return chosen.algorithm, chosen.config
