"""The command line: ``prepare``, ``measure`` and ``report``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import examples.gpu
from examples.gpu.checks import missing_packages

_TOTAL_SECONDS = 460.0
_TARGET = "cuda:sm_90"
_EMULATED = "emulated"


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code is 0 where all was done."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.gpu",
        description=examples.gpu.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("prepare", "measure", "report"))
    parser.add_argument("folder", type=Path, help="KIT, KIT.zip for measure, RESULTS for report")
    parser.add_argument(
        "-o", "--output", type=Path, help="RESULTS, or RESULTS.zip for one file; of a report, its"
    )
    parser.add_argument(
        "--target", help=f"what kernels are compiled for, {_TARGET}; of measure that of the kit"
    )
    parser.add_argument(
        "--device", type=int, default=0, metavar="N", help="which GPU measures, from 0"
    )
    parser.add_argument("--phases", default="", help="names, separated by commas; all by default")
    parser.add_argument(
        "--seconds", type=float, default=_TOTAL_SECONDS, help="what measure may take"
    )
    parser.add_argument(
        "--small", action="store_true", help="tiny layers on an emulated GPU: a check without one"
    )
    given = parser.parse_args(arguments)
    if lacking := missing_packages():
        print("\n".join(lacking), file=sys.stderr)
        return 2
    # only now, as these import what may have been missing
    from examples.gpu.measuring import measure
    from examples.gpu.phases import emulated
    from examples.gpu.preparing import contents, prepare, prepared_target, unpacked

    folder, only = given.folder.resolve(), tuple(filter(None, given.phases.split(",")))
    if given.action == "report":
        from examples.gpu.rows import report

        text = report(folder)
        if given.output:
            given.output.write_text(text)
        else:
            sys.stdout.write(text)
        return 0
    if given.action == "prepare":
        if given.small:
            os.environ.update(emulated(folder.with_name(f"{folder.name}-{_EMULATED}")))
        return prepare(folder, given.small, given.target or _TARGET, only)
    if not folder.exists():
        parser.error(f"there is no kit at {folder}")
    results = (given.output or Path("gpu-results")).resolve()
    total = 3600.0 if given.small and given.seconds == _TOTAL_SECONDS else given.seconds
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as place:
        kit = contents(unpacked(folder, Path(place) / "kit"))
        if not kit.is_dir():
            parser.error(f"{folder} was prepared by another version of the code: prepare it again")
        target = prepared_target(kit)
        if given.target not in (None, target):
            parser.error(f"{folder} was prepared for {target}, not for {given.target}")
        state = emulated(Path(place) / _EMULATED) if given.small else {}
        return measure(kit, results, given.small, target, total, only, given.device, state)


if __name__ == "__main__":
    sys.exit(main())
