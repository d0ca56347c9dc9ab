"""Parts of a prediction."""

from __future__ import annotations


def slowest(**parts: float) -> dict[str, float]:
    """The part with the most cycles, where all parts run at the same time."""
    name = max(parts, key=lambda part: parts[part])
    return {name: parts[name]}
