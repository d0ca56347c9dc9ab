"""Several targets of one model, in the order in which a CPU is matched to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tvmconv.core.errors import TargetError
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.features import required_features
from tvmconv.machines.gate import lacks
from tvmconv.machines.host import host_model
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import TargetLike, resolve_device

# a target, or several CPUs of one architecture
TargetsLike: TypeAlias = "TargetLike | Sequence[TargetLike]"


def resolve_devices(
    target: TargetsLike = "native", threads: int | None = None, gpu: int = 0
) -> tuple[Machine | CudaMachine, ...]:
    """The machine models of a target or a list of targets, the preferred ones first.

    A target is before another one if its code requires more CPU features: all that the other one
    requires, and others. Among the remaining targets, a later one in the list is first.

    Raises ``TargetError`` as :func:`~tvmconv.machines.targets.resolve_device`. Also for a list with
    a GPU, with two architectures or systems, or with a name twice.
    """
    if isinstance(target, str) or not isinstance(target, Sequence):
        return (resolve_device(target, threads, gpu),)
    if not target:
        raise TargetError("the list of targets is empty. Expected one target or more. Name one.")
    devices = [resolve_device(each, threads, gpu) for each in target]
    if len(devices) == 1:
        return (devices[0],)
    machines = [each for each in devices if isinstance(each, Machine)]
    if gpus := [each.name for each in devices if not isinstance(each, Machine)]:
        raise TargetError(
            f"a list of targets has the GPU {', '.join(gpus)}. Expected CPUs only. Build a model "
            "for each GPU."
        )
    names = [each.name for each in machines]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TargetError(
            f"a list of targets has {', '.join(twice)} twice. Expected different names. Remove one."
        )
    if len({each.triple for each in machines}) > 1:
        triples = ", ".join(f"{each.name} ({each.triple})" for each in machines)
        raise TargetError(
            f"a list of targets has several architectures or systems: {triples}. Expected one. "
            "Build a model for each."
        )
    return tuple(_ordered(machines))


def running_here(targets: Sequence[str]) -> str:
    """The name in a list of CPUs that a model for all of them selects on this host.

    Raises ``TargetError`` as :func:`resolve_devices`, and if this host runs none.
    """
    ordered = [each for each in resolve_devices(targets) if isinstance(each, Machine)]
    for machine in ordered:
        if not lacks(machine):
            return next(name for name in targets if resolve_device(name).name == machine.name)
    missing = "; ".join(f"{each.name} requires {', '.join(lacks(each))}" for each in ordered)
    raise TargetError(
        f"targets {', '.join(targets)}: this CPU ({host_model()}) runs none of them. {missing}. "
        "Expected a target that runs here. Name one, such as native."
    )


def _ordered(machines: Sequence[Machine]) -> list[Machine]:
    features = {each.name: _features(each) for each in machines}
    left, found = list(machines[::-1]), []
    while left:
        first = next(
            each
            for each in left
            if not any(features[each.name] < features[other.name] for other in left)
        )
        left.remove(first)
        found.append(first)
    return found


def _features(machine: Machine) -> frozenset[str]:
    """The CPU features of a target's code, and the length of its vectors if only one will do."""
    bits = machine.exact_vector_bits
    return frozenset(required_features(machine)) | ({f"{bits}-bit SVE"} if bits else set())
