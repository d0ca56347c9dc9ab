"""Choices for single layers, from a JSON file.

``{"layer1.*": {"algorithm": "direct"}, "conv5": {"algorithm": "winograd", "knobs": {"mh": 2}}}``:
keys are layer names or shell patterns, the first that matches counts; knobs replace those of the
candidate that would be chosen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tvmconv import registry
from tvmconv.config import Config
from tvmconv.errors import ConfigError


@dataclass(frozen=True)
class Override:
    """The algorithm, and perhaps some knobs, of the layers whose name matches a pattern."""

    pattern: str
    algorithm: str
    knobs: Config = field(default_factory=Config.of)

    def matches(self, layer: str) -> bool:
        """Whether the pattern is the layer's name or matches it."""
        return layer == self.pattern or fnmatchcase(layer, self.pattern)


def read_overrides(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Override, ...]:
    """Overrides from a JSON file or the mapping it would hold.

    Raises
    ------
    ConfigError
        If the file cannot be read or an entry is not understood; names file, layer and value.
    """
    if isinstance(source, Mapping):
        data: Any = source
        name = "overrides"
    else:
        name = os.fspath(source)
        try:
            data = json.loads(Path(source).read_text())
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read overrides from {name}: {error}") from error
    if not isinstance(data, Mapping):
        raise ConfigError(f"{name} must hold an object of layer names, not {type(data).__name__}")
    return tuple(_override(name, layer, entry) for layer, entry in data.items())


def _override(name: str, layer: str, entry: Any) -> Override:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("algorithm"), str):
        raise ConfigError(
            f'{name}: {layer!r} must be {{"algorithm": NAME, "knobs": {{...}}}}, not {entry!r}'
        )
    if unknown := set(entry) - {"algorithm", "knobs"}:
        raise ConfigError(f"{name}: {layer!r} has unknown entries {', '.join(sorted(unknown))}")
    algorithm, knobs = entry["algorithm"], entry.get("knobs", {})
    if algorithm not in registry.ALGORITHMS:
        known = ", ".join(registry.ALGORITHMS)
        raise ConfigError(f"{name}: {layer!r} asks for {algorithm!r}; choose from {known}")
    if not isinstance(knobs, Mapping):
        raise ConfigError(f"{name}: knobs of {layer!r} must be an object, not {knobs!r}")
    try:
        return Override(layer, algorithm, Config.from_json(knobs))
    except ConfigError as error:
        raise ConfigError(f"{name}: {layer!r}: {error}") from error


def check_used(overrides: Iterable[Override], layers: Iterable[str]) -> None:
    """Raise :class:`ConfigError` for an override that matches no convolution."""
    known = list(layers)
    for override in overrides:
        if not any(override.matches(layer) for layer in known):
            shown = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
            raise ConfigError(
                f"override {override.pattern!r} matches no convolution; the layers are {shown}"
            )
