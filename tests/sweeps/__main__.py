"""The command: ``python -m tests.sweeps operators``.

Cases of every operator are drawn, built, and timed on one thread. Operators come in another order
for each seed, so that short runs reach all of them. A line is printed for each find, which

- fails to build (``FAILED``), or differs from the baseline (``WRONG``),
- is ``SLOWER`` than the baseline, by more than ``--slower`` times, or
- takes more than ``--over`` times its bound (``OVER``).

The line after it is the command that repeats it alone. Few finds are lasting: others ran on the
processor. The summary begins with the operators that have finds.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator

from tests.sweeps.cases import DRAWS, case_of
from tests.sweeps.draws import LARGEST
from tests.sweeps.running import Limits, Outcome, batches, measure

_ROUND = 24


def main() -> int:
    """Sweep; the exit status is 1 if a case exceeds a limit."""
    options = _options()
    # the baseline uses features that are hidden from tvmconv
    within = 1.0 if os.environ.get("TVMCONV_HIDE_FEATURES") else 0.0
    limits = Limits(options.over, options.slower, options.above / 1e6, within)
    if options.only:
        operator, _, index = options.only.partition(":")
        case = case_of(options.seed, operator, int(index), options.largest)
        (outcome,) = measure([case], Limits(over=-1.0), bool(options.baseline))
        print(_line(outcome, options, limits))
        return int(outcome.exceeds(limits))
    operators = options.operators or sorted(DRAWS)
    random.Random(options.seed).shuffle(operators)
    done: dict[str, list[Outcome]] = {operator: [] for operator in operators}
    for outcome in _outcomes(operators, options, limits):
        done[outcome.case.name.partition(":")[0]].append(outcome)
        if outcome.exceeds(limits):
            print(_line(outcome, options, limits), flush=True)
    return _summary(done, limits, options)


def _outcomes(
    operators: list[str], options: argparse.Namespace, limits: Limits
) -> Iterator[Outcome]:
    """All cases, some of each operator at a time, until the time is over."""
    start = time.monotonic()
    for first in range(0, options.count, _ROUND):
        for operator in operators:
            numbers = range(first, min(first + _ROUND, options.count))
            cases = [case_of(options.seed, operator, i, options.largest) for i in numbers]
            for batch in batches(cases):
                if options.seconds and time.monotonic() - start > options.seconds:
                    return
                yield from measure(batch, limits, bool(options.baseline))


def _line(outcome: Outcome, options: argparse.Namespace, limits: Limits) -> str:
    again = f"python -m tests.sweeps operators --seed {options.seed} --only {outcome.case.name}"
    if options.largest != LARGEST:
        again += f" --largest {options.largest}"
    if options.baseline:
        again += f" --baseline {options.baseline}"
    hidden = os.environ.get("TVMCONV_HIDE_FEATURES")
    if hidden:
        again = f"TVMCONV_HIDE_FEATURES={hidden} {again}"
    if outcome.error:
        return f"FAILED {outcome.case}: {outcome.error[:300]}\n    {again}"
    kinds = {
        f"WRONG by {outcome.wrong:.1e}": outcome.is_wrong,
        f"SLOWER {outcome.slower:.2f} times": outcome.is_late(limits),
        f"OVER {outcome.over:.1f} times": outcome.over > limits.over,
    }
    kind = ", ".join(name for name, applies in kinds.items() if applies) or "within limits"
    parts = [f"call {outcome.seconds * 1e6:.1f} us"] if outcome.seconds else []
    if outcome.baseline:
        parts.append(f"onnxruntime {outcome.baseline * 1e6:.1f} us")
    parts.append(f"kernels {outcome.kernels * 1e6:.1f} us")
    parts.append(f"bound {outcome.bound * 1e6:.1f} us")
    return f"{kind}: {outcome.case}: {', '.join(parts)}\n    {again}"


def _summary(done: dict[str, list[Outcome]], limits: Limits, options: argparse.Namespace) -> int:
    """A line for each operator, those with finds first; 1 if any case exceeds a limit."""
    finds = {
        operator: sum(o.exceeds(limits) for o in outcomes) for operator, outcomes in done.items()
    }
    print("\noperator                  cases  over  slower  wrong  times over bound, over baseline")
    for operator in sorted(done, key=lambda name: (-finds[name], name)):
        outcomes = done[operator]
        if not outcomes:
            continue
        over = sum(o.over > limits.over for o in outcomes)
        late = sum(o.is_late(limits) for o in outcomes)
        wrong = sum(o.is_wrong for o in outcomes)
        worst = max(o.over for o in outcomes)
        slowest = max((o.slower for o in outcomes if o.seconds > limits.above), default=0.0)
        compared = f"{slowest:.2f}" if slowest else "-"
        counts = f"{len(outcomes):5}  {over:4}  {late:6}  {wrong:5}"
        print(f"{operator:25} {counts}  {worst:.1f}, {compared}")
    missed = sorted(operator for operator, outcomes in done.items() if not outcomes)
    count = sum(map(len, done.values()))
    print(f"{count} cases of {len(done) - len(missed)} operators, {sum(finds.values())} finds.")
    if missed:
        print(f"Not reached in {options.seconds:.0f} s: {' '.join(missed)}")
    if options.baseline and os.environ.get("TVMCONV_HIDE_FEATURES"):
        print(
            "The baseline uses hidden features of the processor: it may be faster for them alone."
        )
    return int(sum(finds.values()) > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sweeps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=["operators"])
    parser.add_argument("--operators", nargs="+", choices=sorted(DRAWS), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000, help="cases of each operator")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--largest", type=int, default=LARGEST, help="elements of a tensor")
    parser.add_argument("--over", type=float, default=4.0, help="times over the bound")
    parser.add_argument("--baseline", choices=["onnxruntime"], help="compare with it")
    parser.add_argument("--slower", type=float, default=1.2, help="times the baseline's time")
    parser.add_argument("--above", type=float, default=20.0, help="microseconds that count for it")
    parser.add_argument("--only", metavar="NAME:N", help="case N alone, and its figures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
