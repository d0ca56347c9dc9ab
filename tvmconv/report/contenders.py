"""Who takes part in a bench: the peak, our builds or algorithms, and the peers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tvmconv import peers as peer_table
from tvmconv.report.bench_result import OWN, PEAK
from tvmconv.report.worker_process import Contender

if TYPE_CHECKING:
    from tvmconv.report.bench import Plan
    from tvmconv.report.variants import Variant


def contenders(plan: Plan, kind: str) -> list[Contender]:
    """The columns for ``models``, ``layers`` or ``products``; ours and the peak first."""
    target = ("target", plan.target)
    found = [Contender(PEAK, peer_table.OWN[PEAK].module, sys.executable, (target,))]
    own = peer_table.OWN[OWN].module
    if kind == "products":
        for label, prepacked in (("gemm", False), ("gemm, B packed before", True)):
            product = (target, ("prepacked", prepacked))
            group = f"{OWN} gemm"
            found.append(Contender(f"{OWN} {label}", own, sys.executable, product, group))
    elif kind == "models":
        names = [name.strip() for name in plan.algorithms.split(",")] if plan.algorithms else None
        for label, log in _builds(plan):
            options = (target, ("algorithms", names), ("log", log))
            found.append(Contender(label, own, sys.executable, options, OWN))
    elif plan.log and not plan.algorithms:
        for label, log in _builds(plan):
            found.append(Contender(label, own, sys.executable, (target, ("log", log)), OWN))
    else:
        for variant in _variants(plan):
            form = (target, ("variant", variant.to_json()))
            group = f"{OWN} {variant.algorithm}"
            found.append(Contender(f"{OWN} {variant}", own, sys.executable, form, group))
    for name in plan.peers:
        peer = peer_table.PEERS[name]
        if getattr(peer, kind):
            found.append(Contender(name, peer.module, plan.python(name)))
    return found


def _builds(plan: Plan) -> list[tuple[str, str | None]]:
    """Labels and logs of the builds to compare."""
    if plan.log in (None, "none"):
        return [(OWN, plan.log)]
    return [(f"{OWN} untuned", "none"), (f"{OWN} tuned", plan.log)]


def _variants(plan: Plan) -> tuple[Variant, ...]:
    from tvmconv.report.variants import parse_variants
    from tvmconv.target import resolve_machine

    machine = resolve_machine(plan.target)
    return parse_variants(plan.algorithms, [layer.workload for layer in plan.layers], machine)
