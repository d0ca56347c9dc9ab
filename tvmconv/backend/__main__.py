"""``python -m tvmconv.backend``: run the backend tests of the installed onnx."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from tvmconv.backend import table
from tvmconv.backend.cases import KINDS, load_cases
from tvmconv.backend.judge import FOREIGN, WRONG, Verdict
from tvmconv.backend.pool import judge_all


def main(arguments: list[str] | None = None) -> int:
    """Run the tests and print a table; 1 if a result is wrong or an error is foreign."""
    options = _options(arguments)
    cases = load_cases(tuple(options.kind or KINDS), options.filter)
    verdicts: list[Verdict] = []
    for verdict in judge_all(cases, options.jobs):
        verdicts.append(verdict)
        if options.verbose:
            print(f"{verdict.name}: {verdict.outcome} {verdict.reason}".strip(), flush=True)
    if not verdicts:
        print(f"no test matches {options.filter!r}. Choose another --filter.", file=sys.stderr)
        return 2
    if options.table:
        table.save(verdicts, options.table)
    print(table.text(verdicts), end="")
    return int(any(verdict.outcome in (WRONG, FOREIGN) for verdict in verdicts))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tvmconv.backend", description=__doc__)
    parser.add_argument("--kind", choices=KINDS, action="append", help="kind of tests; all")
    parser.add_argument("--filter", default="", metavar="REGEX", help="part of the tests' names")
    cpus = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=cpus, help=f"processes; {cpus}")
    parser.add_argument("--table", type=Path, metavar="FILE", help="save the results as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each test's result")
    options = parser.parse_args(arguments)
    try:
        re.compile(options.filter)
    except re.error as error:
        parser.error(f"--filter {options.filter!r} is not a regular expression: {error}")
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs} must be 1 or more")
    return options


if __name__ == "__main__":
    sys.exit(main())
