"""Texts that explain why a candidate was selected or rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvmconv.algorithms.cuda.precision import PRECISIONS
from tvmconv.core.decision import Candidate
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.selection.policy import Policy

_MIXES = (
    "finite=False: it mixes the values of several pixels or rows, so that one that is not finite, "
    "or nearly overflows, corrupts the outputs of all"
)
# the beginnings of reasons that compare candidates, and of those without a choice
FEWEST, ONLY = "fewest predicted cycles", "the only one allowed that computes this layer"
# a part of the model is named if it makes at least this share of a difference in cycles
_NAMED_SHARE = 0.15


def refuse(offer: Candidate, policy: Policy, kind: str) -> Candidate:
    """The candidate, rejected if the policy forbids it at any cost; errors are checked later."""
    if offer.rejected:
        return offer
    if offer.algorithm not in policy.algorithms:
        return replace(offer, rejected="not in algorithms=", cause="disallowed")
    if not policy.finite and not registry.algorithm(offer.algorithm, kind).sums_products:
        return replace(offer, rejected=_MIXES, cause="finite")
    if not policy.finite and offer.precision:
        largest = PRECISIONS[offer.precision].largest
        text = f"finite=False: in {offer.precision} operands beyond {largest:.6g} become infinite"
        return replace(offer, rejected=text, cause="finite")
    budget = policy.memory_budget
    if budget is not None and offer.workspace_bytes > budget:
        text = f"workspace {offer.workspace_bytes} B exceeds the budget {budget} B"
        return replace(offer, rejected=text, cause="memory")
    return offer


def refuse_foreign(offer: Candidate) -> Candidate:
    """The candidate, rejected if it multiplies products that ``finite=False`` excludes."""
    text = "finite=False: zero weights meet values of other channels, where infinity makes NaN"
    return replace(offer, rejected=text, cause="finite")


def refuse_inexact(
    offer: Candidate, workload: Conv2dWorkload, facts: WeightFacts, kind: str
) -> Candidate:
    """The candidate, rejected if integer sums would not be exact, or transformed weights finite."""
    if offer.rejected:
        return offer
    text, cause = facts.refusal(offer.algorithm, workload, kind, offer.config)
    return replace(offer, rejected=text, cause=cause) if text else offer


def outdone(offer: Candidate, chosen: Candidate, policy: Policy) -> Candidate:
    """A candidate to which another one was preferred, with the reason."""
    if offer.rejected:
        return offer
    if not policy.keeps(offer):
        return replace(offer, rejected=beyond_error(offer, policy), cause="error")
    ratio = offer.cycles / chosen.cycles
    if ratio < 1:
        return replace(offer, rejected="another one was asked for", cause="overridden")
    text = f"slower: predicted {millions(offer.cycles)}, {ratio:.2f} times the chosen"
    return replace(offer, rejected=text + differing(offer, chosen), cause="slower")


def preferred(chosen: Candidate, able: Sequence[Candidate], policy: Policy) -> str:
    """Why a candidate was preferred to the other possible candidates."""
    if not policy.keeps(chosen):
        return (
            f"kept though its {beyond_error(chosen, policy)}: no candidate keeps it, and there is "
            "no plainer sum of products"
        )
    within = [o for o in able if policy.keeps(o) and o is not chosen]
    beyond = [o for o in able if not policy.keeps(o) and o.cycles < chosen.cycles]
    if within:
        second = min(within, key=lambda o: o.cycles)
        text = (
            f"{FEWEST}: {millions(chosen.cycles)}, "
            f"{second.cycles / chosen.cycles:.2f} times faster than "
            f"{name(second, chosen)}{differing(second, chosen)}"
        )
    else:
        text = ONLY
        if len(able) > 1:
            text = f"the only one within the error budget {number(policy.budget(chosen))}"
    if beyond:
        best = min(beyond, key=lambda o: o.cycles)
        text += (
            f"; {name(best, chosen)} would be {chosen.cycles / best.cycles:.2f} times faster, "
            f"but its {beyond_error(best, policy)}"
        )
    return text


def vector_code(chosen: Candidate, able: Sequence[Candidate], policy: Policy) -> str:
    """Why a layer of a target with scalable vectors has scalable code, or NEON code.

    ``able`` are all possible candidates, including the selected one. The policy's error budget
    excludes some of them.
    """
    scalable = has_scalable_vectors(chosen)
    own, other = ("SVE", "NEON") if scalable else ("NEON", "SVE")
    others = [
        o
        for o in able
        if has_scalable_vectors(o) != scalable and o.error <= max(policy.error_budget, chosen.error)
    ]
    if not others:
        why = "nothing else that computes it is" if scalable else "no algorithm has SVE code for it"
        return f"{own} code: {why}"
    best = min(others, key=lambda o: o.cycles)
    ratio = best.cycles / chosen.cycles
    return (
        f"{own} code: {other} code is predicted to take {ratio:.2f} times as long "
        f"({name(best, chosen)})"
    )


def has_scalable_vectors(candidate: Candidate) -> bool:
    """Whether a candidate's schedule uses scalable vectors."""
    return bool(candidate.config.get("vectors", 0))


def out_of_range(offers: Sequence[Candidate]) -> str:
    """The text about a requested precision that cannot represent the weights."""
    refused = next((offer for offer in offers if offer.cause == "range"), None)
    return f"; not {refused.precision}: {refused.rejected}" if refused else ""


def confined(foreign: bool) -> str:
    """The text about ``finite=False``, in addition to the reason for this candidate."""
    text = "; finite=False left only sums of the products"
    if foreign:
        text += (
            ", but none without zero weights in lanes of other groups or beyond the last channel, "
            "where an infinity makes NaN"
        )
    return text


def impossible(workload: Conv2dWorkload, layer: str, offers: Sequence[Candidate]) -> str:
    """The message if no candidate is left."""
    large = [o for o in offers if o.cause == "memory"]
    if large:
        smallest = min(large, key=lambda o: o.workspace_bytes)
        return (
            f"layer {layer!r} needs at least {smallest.workspace_bytes} bytes of workspace "
            f"({smallest.algorithm}), more than memory_budget allows; raise it, or allow an "
            f"algorithm without workspace in algorithms= ({workload})"
        )
    why = "; ".join(dict.fromkeys(f"{o.algorithm}: {o.rejected}" for o in offers))
    where = f"layer {layer!r}: " if layer else ""
    return f"{where}no allowed algorithm computes {workload} ({why})"


def beyond_error(offer: Candidate, policy: Policy) -> str:
    """The text about an estimate beyond the error budget."""
    return f"error estimate {number(offer.error)} exceeds the budget {number(policy.budget(offer))}"


def differing(slower: Candidate, faster: Candidate) -> str:
    """The parts of the cost model that explain the difference, with their cycles."""
    if not slower.parts or not faster.parts:
        return ""
    gap = slower.cycles - faster.cycles
    names = dict.fromkeys([*slower.parts, *faster.parts])
    gaps = {part: slower.parts.get(part, 0.0) - faster.parts.get(part, 0.0) for part in names}
    named = [(part, g) for part, g in gaps.items() if g and abs(g) >= _NAMED_SHARE * gap]
    named.sort(key=lambda item: -item[1])
    text = ", ".join(f"{part} {g / 1e6:+.3f} M" for part, g in named)
    return f" ({text})" if text else ""


def name(offer: Candidate, other: Candidate) -> str:
    """The algorithm, with its configuration if the other candidate has the same algorithm."""
    if offer.algorithm != other.algorithm:
        return offer.algorithm
    knobs = {k: v for k, v in offer.config.items() if other.config.get(k) != v}
    return f"{offer.algorithm} with " + " ".join(f"{k}={v}" for k, v in knobs.items())


def millions(cycles: float) -> str:
    """Cycles as a short text."""
    return f"{cycles / 1e6:.3f} M cycles"


def number(value: float) -> str:
    """A small number, ``5e-6`` rather than ``5e-06``."""
    return f"{value:.2g}".replace("e-0", "e-")
