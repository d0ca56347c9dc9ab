"""What builds take without a log: the choice that every other is measured against."""

from __future__ import annotations

from tvmconv.algorithms.winograd.integers import usual_sum
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.selection.policy import Policy
from tvmconv.tuning.pool import Choice


def untuned_choice(
    workload: Conv2dWorkload,
    machine: Device,
    policy: Policy | None = None,
    largest_sum: int | None = None,
) -> Choice:
    """What a build without any log would take.

    ``policy``, without logs, and ``largest_sum`` are those of
    :func:`~tvmconv.selection.select.select`; the latter is by default what usual weights reach.

    Raises
    ------
    ConfigError
        If no algorithm computes the workload.
    """
    from tvmconv.selection.select import select

    largest_sum = known_or_usual(workload, largest_sum)
    chosen = select(workload, machine, policy=policy, largest_sum=largest_sum).chosen
    return chosen.algorithm, chosen.config


def known_or_usual(workload: Conv2dWorkload, largest_sum: int | None) -> int:
    """What no sum of products exceeds, of layers without weights with usual ones; 0 of floats."""
    if not workload.types.is_integer:
        return 0
    return usual_sum(workload) if largest_sum is None else largest_sum
