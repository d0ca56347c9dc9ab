"""The reason for a selection in one short sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmconv.core.decision import Candidate, Decision
from tvmconv.selection.reasons import FEWEST, ONLY

# smaller ratios are shown in percent
_PERCENT_BELOW = 1.1
# causes by which the user's budgets and options leave out an algorithm
_EXCLUDED = {"disallowed", "memory", "error", "finite"}


def short_reason(decision: Decision) -> str:
    """``4.1x faster than im2col``: the advantage over the best other algorithm.

    If nothing was compared, for example after an override, the first clause of the reason.
    """
    if not decision.reason.startswith((FEWEST, ONLY)):
        return decision.reason.partition(";")[0]
    chosen = decision.chosen
    others = [o for o in decision.rejected if o.algorithm != chosen.algorithm]
    slower = [o for o in others if o.cause == "slower"]
    if slower:
        best = min(slower, key=lambda o: o.cycles)
        text = f"{ratio_text(best.cycles / chosen.cycles)} {best.algorithm}"
    elif any(o.cause in _EXCLUDED for o in others):
        text = "the only algorithm within your options"
    else:
        text = "the only algorithm for this layer"
    return f"{text}; tuned" if chosen.source != "default" else text


def ratio_text(ratio: float) -> str:
    """``4.1x faster than``, ``3% faster than`` or ``as fast as``."""
    if ratio >= _PERCENT_BELOW:
        return f"{ratio:.1f}x faster than"
    percent = round(100 * (ratio - 1))
    return f"{percent}% faster than" if percent > 0 else "as fast as"


def algorithm_text(candidate: Candidate) -> str:
    """The algorithm, with the output tile if it has one: ``winograd 4x4``."""
    return tiled(candidate.algorithm, candidate.config.to_json())


def tiled(algorithm: str, knobs: Mapping[str, Any]) -> str:
    """An algorithm with the output tile of its schedule parameters."""
    if "mh" in knobs and "mw" in knobs:
        return f"{algorithm} {knobs['mh']}x{knobs['mw']}"
    return algorithm
