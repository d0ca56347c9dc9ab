"""The choice of builds without a log: the default of every comparison."""

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
    """The choice of a build with this policy, without any log by default.

    ``facts`` describe the weights; usual ones by default. Fails as
    :func:`~tvmconv.selection.select.select`.
    """
    from tvmconv.selection.select import select

    facts = facts or WeightFacts.usual_weights(workload)
    chosen = select(workload, machine, policy=policy, facts=facts).chosen
    return chosen.algorithm, chosen.config
