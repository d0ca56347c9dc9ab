"""The target of a saved model whose code runs on this host."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from contextlib import suppress

from tvmconv.artifact.manifest import Manifest
from tvmconv.artifact.target_record import TargetRecord
from tvmconv.core.errors import ArtifactError
from tvmconv.machines.gate import ensure_executable
from tvmconv.machines.host import HIDE_VARIABLE, host_features, host_model, host_vector_bits
from tvmconv.machines.record import Machine

# names a target of models with several
TARGET_VARIABLE = "TVMCONV_TARGET"


def for_host(manifest: Manifest, what: str) -> Manifest:
    """The manifest with the fields for the target that runs here, as C selects it.

    ``what`` names the model in errors. Raises ``ArtifactError`` if this CPU lacks a feature that
    the code may use, or if the variable ``TVMCONV_TARGET`` names no target of the model.
    """
    machine = manifest.machine
    is_foreign = isinstance(machine, Machine) and machine.architecture != platform.machine()
    if not manifest.targets or is_foreign:
        built = f"{what} was built for {machine.described}"
        ensure_executable(manifest.required_features, built)
        return manifest
    asked = os.environ.get(TARGET_VARIABLE, "")
    names = [target.name for target in manifest.targets]
    if asked and asked not in names:
        raise ArtifactError(
            f"{TARGET_VARIABLE} is {asked!r}. Expected a target of {what}: {', '.join(names)}. "
            "Name one of these, or unset the variable."
        )
    named = [target for target in manifest.targets if asked in ("", target.name)]
    for target in named:
        if not missing(target):
            return manifest.for_target(target.name)
    hidden = f" or {HIDE_VARIABLE} hides some" if os.environ.get(HIDE_VARIABLE) else ""
    lacks = "; ".join(f"{each.name} requires {', '.join(missing(each))}" for each in named)
    which = f"{TARGET_VARIABLE} names a target" if asked else "all its targets were built for CPUs"
    raise ArtifactError(
        f"{what} cannot run here: {which} with features that this CPU ({host_model()}) "
        f"lacks{hidden}. {lacks}. Build it for this machine as well."
    )


def select(targets: Sequence[TargetRecord]) -> int:
    """The index of the target that :func:`for_host` selects, or else 0."""
    asked = os.environ.get(TARGET_VARIABLE, "")
    fitting = (i for i, each in enumerate(targets) if asked in ("", each.name))
    return next((i for i in fitting if not missing(targets[i])), 0)


def described_here(manifest: Manifest) -> Manifest:
    """The same if a target of several runs here; otherwise the manifest as it is."""
    with suppress(ArtifactError):
        return for_host(manifest, "the model") if manifest.targets else manifest
    return manifest


def missing(target: TargetRecord) -> tuple[str, ...]:
    """The CPU features that a target requires and this host lacks."""
    lacking = tuple(sorted(set(target.required_features) - host_features()))
    machine = target.machine
    bits = machine.exact_vector_bits if isinstance(machine, Machine) else 0
    return lacking or ((f"{bits}-bit SVE",) if bits and bits != host_vector_bits() else ())
