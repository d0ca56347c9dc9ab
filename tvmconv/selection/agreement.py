"""Selections that agree with the programs for other shapes and targets, to share packed weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import TypeVar

from tvmconv.core.config import Config
from tvmconv.core.decision import Candidate, Decision
from tvmconv.core.errors import ConfigError
from tvmconv.kernels import registry
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine
from tvmconv.selection.policy import Policy
from tvmconv.selection.reasons import outdone, refuse, vector_code
from tvmconv.selection.select import make_candidate

Key = TypeVar("Key")

# the share of a program's predicted cycles that agreement may cost in all layers together
_SHARE = 0.01


@dataclass(frozen=True)
class PackedLayout:
    """The form of a layer's packed weights: equal forms of equal weights have equal bytes."""

    algorithm: str
    precision: str
    dtype: str
    shape: tuple[int, ...]


class Agreement:
    """The packed layouts of the programs so far, by layer.

    ``others`` are the agreements of other targets, of which one with equal channel blocks is used.
    """

    def __init__(self, machine: Device, policy: Policy, others: Iterable[Agreement] = ()) -> None:
        self._machine, self._policy = machine, policy
        self._layouts: dict[str, dict[PackedLayout, Config]] = {}
        for other in others:
            if other._machine.channel_block == machine.channel_block:
                self._layouts = other._layouts

    def add(self, decisions: Iterable[Decision]) -> None:
        """Add the layouts of a program's decisions."""
        for decision in decisions:
            known = self._layouts.setdefault(decision.layer, {})
            known.setdefault(self._layout(decision), decision.chosen.config)

    def improved(self, decisions: Mapping[Key, Decision]) -> dict[Key, Decision]:
        """Decisions of another program, changed where agreement saves most bytes for few cycles."""
        offers = []
        for key, decision in decisions.items():
            if (other := self._agreeing(decision)) is not None:
                extra = other.cycles - decision.chosen.cycles
                offers.append((extra / max(other.packed_weight_bytes, 1), extra, key, other))
        left = _SHARE * sum(decision.chosen.cycles for decision in decisions.values())
        result = dict(decisions)
        for _, extra, key, other in sorted(offers, key=lambda offer: offer[:2]):
            if extra <= left:
                left -= extra
                result[key] = self._changed(decisions[key], other)
        return result

    def _layout(self, decision: Decision, candidate: Candidate | None = None) -> PackedLayout:
        chosen, workload = candidate or decision.chosen, decision.workload
        algorithm = registry.algorithm(chosen.algorithm, self._machine.kind)
        shape = algorithm.packed_weight_shape(workload, self._machine, chosen.config)
        kind = algorithm.packed_type(workload)
        return PackedLayout(chosen.algorithm, chosen.precision, kind, tuple(shape))

    def _agreeing(self, decision: Decision) -> Candidate | None:
        """The fastest candidate with a known layout, if the chosen one has none."""
        known = self._layouts.get(decision.layer, {})
        if self._is_asked_for(decision) or self._layout(decision) in known:
            return None
        slower = [o for o in decision.rejected if o.cause == "slower"]
        offers = [*slower, *self._variants(decision, [decision.chosen, *slower], known)]
        agreeing = [o for o in offers if self._layout(decision, o) in known]
        return min(agreeing, key=lambda offer: offer.cycles, default=None)

    def _variants(
        self,
        decision: Decision,
        offers: Sequence[Candidate],
        known: Mapping[PackedLayout, Config],
    ) -> Iterator[Candidate]:
        """Candidates with one or two parameters of a config that has a known layout."""
        if decision.workload.types.is_integer:
            return  # whether sums are exact was found out for the offers alone
        for layout, config in known.items():
            for offer in offers:
                if (offer.algorithm, offer.precision) != (layout.algorithm, layout.precision):
                    continue
                shared = config.keys() & offer.config.keys()
                other = {k: config[k] for k in sorted(shared) if config[k] != offer.config[k]}
                for names in chain(combinations(other, 1), combinations(other, 2)):
                    changed = offer.config.replace(**{name: other[name] for name in names})
                    if (variant := self._variant(decision, offer, changed)) is not None:
                        yield variant

    def _variant(self, decision: Decision, offer: Candidate, config: Config) -> Candidate | None:
        """A candidate with another config, if the config is legal and within the budgets."""
        workload, name = decision.workload, offer.algorithm
        try:
            made = make_candidate(workload, self._machine, name, config)
        except ConfigError:
            return None
        refused = refuse(made, self._policy, self._machine.kind).rejected
        return None if refused or not self._policy.keeps(made) else made

    def _is_asked_for(self, decision: Decision) -> bool:
        policy = self._policy
        named = any(override.matches(decision.layer) for override in policy.overrides)
        return named or policy.choose is not None

    def _changed(self, decision: Decision, other: Candidate) -> Decision:
        """A decision for another one of its candidates."""
        chosen = replace(other, rejected="", cause="")
        before = decision.chosen
        ratio = chosen.cycles / before.cycles
        rejected = [
            self._outdone(offer, chosen)
            for offer in (before, *decision.rejected)
            if (offer.algorithm, offer.config) != (other.algorithm, other.config)
        ]
        reason = f"shares its weights with another program: {ratio:.2f} times the fewest cycles"
        if isinstance(self._machine, Machine) and self._machine.vector.scalable:
            able = [chosen, *(o for o in rejected if o.cause in ("slower", "sharing"))]
            reason += f"; {vector_code(chosen, able, self._policy)}"
        return replace(decision, chosen=chosen, reason=reason, rejected=tuple(rejected))

    def _outdone(self, offer: Candidate, chosen: Candidate) -> Candidate:
        """A candidate with the reason against it, after the change."""
        if offer.cause not in ("", "slower"):
            return offer
        if offer.cycles < chosen.cycles:
            text = "its packed weights would be stored in addition to those of another program"
            return replace(offer, rejected=text, cause="sharing")
        return outdone(replace(offer, rejected="", cause=""), chosen, self._policy)
