"""The command: ``python -m tests.fuzz KIND... --seconds N --seed S``."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path

from tests.fuzz.runner import BAD, OUTCOMES, Attempts, Limits, Result, generator_of, run_attempts

KINDS = {
    "models": "Models",
    "drawn": "Drawn",
    "reading": "Reading",
    "damaged": "Damaged",
    "artifacts": "Artifacts",
    "manifests": "Manifests",
    "logs": "Logs",
    "api": "Api",
    "signals": "Signals",
    "integers": "Integers",
}


def main() -> int:
    """Run kinds one after the other; the exit status is 1 if anything happened that must not."""
    options = _options()
    return max([_run(kind, options) for kind in options.kinds])


def _run(kind: str, options: argparse.Namespace) -> int:
    attempts: Attempts = getattr(import_module(f"tests.fuzz.{kind}"), KINDS[kind])()
    counts: Counter[str] = Counter()
    start = shown = time.monotonic()
    only = options.only is not None
    for result in run_attempts(
        attempts,
        seed=options.seed,
        first=options.only if only else options.first,
        count=1 if only else options.count,
        seconds=options.seconds,
        jobs=options.jobs,
        limits=Limits(options.limit, options.memory << 20),
    ):
        counts[result.outcome] += 1
        if result.outcome in BAD:
            _keep(attempts, kind, result, options)
        if only or (options.verbose and result.outcome not in ("ok", "unchecked")):
            print(f"{result.index} {result.outcome}: {result.detail}", flush=True)
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            print(_summary(counts, shown - start), flush=True)
    print(_summary(counts, time.monotonic() - start), flush=True)
    return 1 if any(counts[outcome] for outcome in BAD) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="+", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, help="stop each kind after this time")
    parser.add_argument("--count", type=int, help="stop each kind after so many attempts")
    parser.add_argument("--first", type=int, default=0, help="number of the first attempt")
    parser.add_argument("--only", type=int, metavar="N", help="attempt N alone, and its outcome")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=60, help="seconds of one attempt")
    parser.add_argument("--memory", type=int, default=4096, help="MiB of address space more")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where failing inputs are written")
    parser.add_argument("--verbose", action="store_true", help="show refusals as well")
    options = parser.parse_args()
    if options.seconds is None and options.count is None:
        options.seconds = 60.0
    return options


def _keep(attempts: Attempts, kind: str, result: Result, options: argparse.Namespace) -> None:
    """Show a failure and how to repeat it; write its input."""
    again = f"python -m tests.fuzz {kind} --seed {options.seed} --only {result.index}"
    print(
        f"{result.outcome.upper()} of attempt {result.index}: {again}\n{result.detail}", flush=True
    )
    if options.keep is None:
        return
    case = attempts.make(generator_of(options.seed, result.index))
    folder = options.keep / f"{kind}-{options.seed}-{result.index}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in attempts.files(case).items():
        (folder / name).write_bytes(data)
    (folder / "outcome.txt").write_text(f"{result.outcome}\n{again}\n{result.detail}\n")


def _summary(counts: Counter[str], seconds: float) -> str:
    total = sum(counts.values())
    parts = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES)
    return f"{total} attempts in {seconds:.0f} s ({total / max(seconds, 1e-9):.1f}/s): {parts}"


if __name__ == "__main__":
    sys.exit(main())
