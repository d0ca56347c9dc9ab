"""CPU features that the code of a module may use, by the names that Linux has for them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tvmconv.machines.architectures import architecture_of
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine


@cache
def required_features(machine: Device) -> tuple[str, ...]:
    """CPU flags that a module built for ``machine`` may need.

    The union of the model's own list and of all instruction sets that LLVM enables for its CPU
    name. Empty for GPUs, because the code that launches their kernels is plain C.
    """
    if not isinstance(machine, Machine):
        return ()
    return tuple(sorted(enabled_features(machine.tvm_target()) | set(machine.features)))


def enabled_features(target: Mapping[str, Any]) -> frozenset[str]:
    """CPU flags of the instruction sets that LLVM enables for a target in TVM's dictionary form."""
    from tvmconv.tvm_api.target import features

    # cl-opt is a setting of the whole process, not an instruction set
    others = ("num-cores", "cl-opt")
    options = {key: value for key, value in target.items() if key not in others}
    enabled = features(options)
    architecture = architecture_of(str(target.get("mtriple", "x86_64")))
    flags = architecture.features if architecture else {}
    return frozenset(flags[name] for name in enabled if name in flags)
