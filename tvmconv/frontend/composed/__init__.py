"""Operators that are graphs of other operators.

Each module writes the operators of one family and registers them when it is imported.
"""

from __future__ import annotations

from importlib import import_module

from tvmconv.frontend.composed.compose import Composer
from tvmconv.frontend.composed.parts import COMPOSITIONS

__all__ = ["COMPOSITIONS", "Composer"]

_FAMILIES = (
    "activation",
    "attention",
    "attention_microsoft",
    "embedding",
    "linear_attention",
    "losses",
    "normalization",
    "products",
    "quantized",
    "rotary",
    "tfidf",
)

for _family in _FAMILIES:
    import_module(f"{__name__}.{_family}")
