"""Overrides for single layers, from a JSON file.

``{"layer1.*": {"algorithm": "direct"}, "conv5": {"algorithm": "winograd", "knobs": {"mh": 2}}}``:
keys are layer names or shell patterns, of which the first match applies. Knobs (schedule
parameters) select the candidate of the algorithm that agrees with most of them, and replace its
values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tvmconv.core.arguments import file_path, shown
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.files import read_regular
from tvmconv.kernels import registry

MAX_FILE_BYTES = 64 * 1024 * 1024

_FORM = '{"algorithm": NAME, "knobs": {KNOB: VALUE}}, knobs being optional'


@dataclass(frozen=True)
class Override:
    """The algorithm, and optionally some parameters, of layers whose name matches a pattern.

    ``pattern`` is a layer's name, or a shell pattern (``*``, ``?``, ``[...]``). ``algorithm`` is a
    registered name, and ``knobs`` are parameter values to fix. ``source`` is the file with the
    override, for messages.
    """

    pattern: str
    algorithm: str
    knobs: Config = field(default_factory=Config.of)
    source: str = "overrides"

    def matches(self, layer: str) -> bool:
        """Whether the pattern is the layer's name or matches it."""
        return layer == self.pattern or fnmatchcase(layer, self.pattern)

    def __str__(self) -> str:
        return f"{self.source}: {self.pattern!r}"


def read_overrides(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Override, ...]:
    """Overrides from a JSON file, or from the mapping that it would contain.

    Raises ``ConfigError`` if the file cannot be read or an entry is invalid; names file, layer and
    value.
    """
    if isinstance(source, Mapping):
        name, data = "overrides", dict(source)
    else:
        path = file_path(source, "overrides", ConfigError)
        name = str(path)
        try:
            text = read_regular(path, MAX_FILE_BYTES, ConfigError)
            data = json.loads(text, object_pairs_hook=_unique)
        except OSError as error:
            raise ConfigError(
                f"cannot read overrides from {name}: {error.strerror}. Check the path."
            ) from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{name} must be a JSON object of layer names: {error}. Correct the file."
            ) from None
    if not isinstance(data, dict):
        raise ConfigError(f"{name} must hold an object of layer names, not {type(data).__name__}")
    return tuple(_override(name, layer, entry) for layer, entry in data.items())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys, the second of which would silently win."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"duplicate key {key!r}")
        result[key] = value
    return result


def _override(name: str, layer: str, entry: Any) -> Override:
    if not isinstance(layer, str):
        raise ConfigError(f"{name}: layer names must be strings, got {shown(layer)}")
    if not isinstance(entry, Mapping) or not isinstance(entry.get("algorithm"), str):
        raise ConfigError(f"{name}: {layer!r} must be {_FORM}; it is {shown(entry)}")
    if unknown := set(entry) - {"algorithm", "knobs"}:
        text = ", ".join(sorted(map(shown, unknown)))
        raise ConfigError(f"{name}: {layer!r} has unknown entries {text}; write {_FORM}")
    algorithm, knobs = entry["algorithm"], entry.get("knobs", {})
    if problem := registry.unknown(algorithm):
        known = ", ".join(registry.choices())
        raise ConfigError(
            f"{name}: {layer!r} asks for {algorithm!r}, but {problem}; choose from {known}"
        )
    if not isinstance(knobs, Mapping):
        raise ConfigError(f"{name}: knobs of {layer!r} must be an object, not {shown(knobs)}")
    if "trace" in knobs:
        raise ConfigError(f"{name}: knobs of {layer!r} name a trace. Use a tuning log for traces.")
    try:
        return Override(layer, algorithm, Config.from_json(knobs), name)
    except ConfigError as error:
        raise ConfigError(f"{name}: {layer!r}: {error}") from error


def check_used(overrides: Iterable[Override], layers: Iterable[str]) -> None:
    """Raise :class:`ConfigError` for an override that matches no convolution."""
    known = list(dict.fromkeys(layers))
    for override in overrides:
        if not any(override.matches(layer) for layer in known):
            shown = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
            raise ConfigError(
                f"{override} matches no convolution. Fix or remove it. Layers: {shown}."
            )
