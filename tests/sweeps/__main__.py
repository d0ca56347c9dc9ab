"""The command: ``python -m tests.sweeps operators``.

Cases of every operator are drawn, built, and timed on one thread. A line is printed for each that
exceeds ``--over`` times its bound, differs from the baseline, or is more than ``--slower`` times
slower than it. The line has the command that repeats it.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import count

from tests.sweeps.cases import DRAWS, case_of
from tests.sweeps.draws import LARGEST
from tests.sweeps.running import Limits, Outcome, batches, measure

_ROUND = 24


def main() -> int:
    """Sweep; the exit status is 1 if a case exceeds a limit."""
    options = _options()
    limits = Limits(options.over, options.slower, options.above / 1e6)
    if options.only:
        operator, _, index = options.only.partition(":")
        case = case_of(options.seed, operator, int(index), options.largest)
        (outcome,) = measure([case], Limits(over=-1.0), bool(options.baseline))
        print(_line(outcome, options))
        return int(outcome.exceeds(limits))
    operators = options.operators or sorted(DRAWS)
    done: dict[str, list[Outcome]] = {operator: [] for operator in operators}
    start = time.monotonic()
    for first in count(0, _ROUND):
        for operator in operators:
            numbers = range(first, min(first + _ROUND, options.count))
            cases = [case_of(options.seed, operator, i, options.largest) for i in numbers]
            for batch in batches(cases):
                if options.seconds and time.monotonic() - start > options.seconds:
                    return _summary(done, limits)
                for outcome in measure(batch, limits, bool(options.baseline)):
                    done[operator].append(outcome)
                    if outcome.exceeds(limits):
                        print(_line(outcome, options), flush=True)
        if first + _ROUND >= options.count:
            return _summary(done, limits)
    raise AssertionError


def _line(outcome: Outcome, options: argparse.Namespace) -> str:
    again = f"python -m tests.sweeps operators --seed {options.seed} --only {outcome.case.name}"
    if options.largest != LARGEST:
        again += f" --largest {options.largest}"
    if options.baseline:
        again += f" --baseline {options.baseline}"
    if outcome.error:
        return f"{outcome.case}: {outcome.error[:300]}\n    {again}"
    parts = [f"{outcome.kernels * 1e6:.1f} us", f"{outcome.over:.1f} times its bound"]
    if outcome.baseline:
        parts.append(f"call {outcome.seconds * 1e6:.1f} us")
        parts.append(f"onnxruntime {outcome.baseline * 1e6:.1f} us ({1 / outcome.slower:.2f})")
    if outcome.wrong > 1e-5:
        parts.append(f"differs by {outcome.wrong:.1e}")
    return f"{outcome.case}: {', '.join(parts)}\n    {again}"


def _summary(done: dict[str, list[Outcome]], limits: Limits) -> int:
    """A line for each operator; 1 if any case exceeds a limit."""
    bad = 0
    print(f"{'operator':24} cases  over bound  slower  errors  largest over bound, slowest")
    for operator, outcomes in done.items():
        if not outcomes:
            continue
        over = sum(o.over > limits.over for o in outcomes)
        late = sum(o.is_late(limits) for o in outcomes)
        errors = sum(o.is_wrong for o in outcomes)
        bad += sum(o.exceeds(limits) for o in outcomes)
        worst = max(o.over for o in outcomes)
        slowest = max((o.slower for o in outcomes if o.seconds > limits.above), default=0.0)
        print(
            f"{operator:24} {len(outcomes):5}  {over:10}  {late:6}  {errors:6}  {worst:.1f}  "
            f"{slowest:.2f}"
        )
    return int(bad > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sweeps", description=__doc__)
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
