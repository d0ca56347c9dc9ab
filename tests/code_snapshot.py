"""Proof that a refactoring changes no generated code: record before it, compare after it.

``python -m tests.code_snapshot record before.zip``, change, then ``... compare before.zip``.

A snapshot holds the object code of the example networks, the selections, and the assembly of
kernels for the layers of the suites. Kernels are the selected ones, and every algorithm's default
for the suites of papers. It is made for named machines and without tuning logs, so any host can
make it. Kernels are recorded with their configs. A comparison builds the same kernels even if a
cost model now selects others, and reports changed selections separately.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.networks import NETWORKS
from tests.assembly import assembly
from tests.kernels import V3, V4
from tvmconv.building import build
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.measuring.suites import Layer, load_problems, names
from tvmconv.selection.select import select

_EVERY_ALGORITHM = ("dnn12", "winograd16")
_FILE_NAMES = re.compile(r"^\s*\.(?:file|ident)\b.*\n", re.MULTILINE)

# name, code, and what was chosen: a network's decisions or a kernel's config
Entry = tuple[str, bytes, Any]


def networks(only: list[str]) -> Iterator[Entry]:
    """Object code and decisions of each network."""
    for name, factory in NETWORKS.items():
        for machine in (V3, V4) if not only or name in only else ():
            model = build(factory(), machine, threads=1, log="none")
            chosen = {d.layer: [d.chosen.algorithm, str(d.chosen.config)] for d in model.decisions}
            yield f"{name} {machine.name}", b"".join(model._library.objects.code.values()), chosen


def kernels(configs: dict[str, Any] | None) -> Iterator[Entry]:
    """Assembly of the suites' kernels: the recorded ones, or all that a snapshot should hold."""
    if configs is None:
        configs = {" ".join(key): None for key in _wanted()}
    for key, config in configs.items():
        problem, machine, algorithm = key.split()
        workload = Conv2dWorkload.parse(problem)
        target = {m.name: m for m in (V3, V4)}[machine]
        try:
            kernel = make_kernel(workload, target, algorithm, config and Config.from_json(config))
        except ConfigError:
            continue
        text = _FILE_NAMES.sub("", assembly(kernel).text)
        yield key, text.encode(), kernel.config.to_json()


def _wanted() -> Iterator[tuple[str, str, str]]:
    seen = set()
    for suite in names():
        for layer in load_problems(suite):
            if not isinstance(layer, Layer) or layer.workload in seen:
                continue
            seen.add(layer.workload)
            for machine in (V3, V4):
                chosen = [select(layer.workload, machine).chosen.algorithm]
                for name in registry.ALGORITHMS if suite in _EVERY_ALGORITHM else chosen:
                    yield str(layer.workload), machine.name, name


def record(path: Path, only: list[str], without_kernels: bool) -> None:
    """Write a snapshot."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        chosen = {}
        for name, code, choice in _entries(None, only, without_kernels):
            archive.writestr(f"{name}.code", code)
            chosen[name] = choice
            print(name, len(code), flush=True)
        archive.writestr("chosen.json", json.dumps(chosen))


def compare(path: Path, only: list[str], without_kernels: bool) -> int:
    """Print what differs from a snapshot; the number of differences."""
    different = seen = 0
    with zipfile.ZipFile(path) as archive:
        before = json.loads(archive.read("chosen.json"))
        configs = {key: before[key] for key in before if key.count(" ") == 2}
        for name, code, choice in _entries(configs, only, without_kernels):
            seen += 1
            same_code = name in before and code == archive.read(f"{name}.code")
            if not same_code:
                different += 1
                print(f"{name}: other code; {_changes(before.get(name), choice)}", flush=True)
            elif choice != before[name]:
                print(f"{name}: the same code; {_changes(before[name], choice)}", flush=True)
    print(f"{seen} compared, {different} different")
    return different


def _entries(configs: dict[str, Any] | None, only: list[str], without_kernels: bool) -> Any:
    yield from networks(only)
    if not without_kernels:
        yield from kernels(configs)


def _changes(before: Any, after: Any) -> str:
    if before == after:
        return "the same choices"
    if before is None:
        return "not in the snapshot"
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return "; ".join(f"{key}: {before.get(key)} -> {after.get(key)}" for key in keys)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.code_snapshot", description=__doc__)
    parser.add_argument("verb", choices=["record", "compare"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--networks", default="", help="names, separated by commas; all by default")
    parser.add_argument("--no-kernels", action="store_true", help="networks only")
    options = parser.parse_args()
    only = [name for name in options.networks.split(",") if name]
    if options.verb == "record":
        record(options.path, only, options.no_kernels)
        return 0
    return min(compare(options.path, only, options.no_kernels), 1)


if __name__ == "__main__":
    sys.exit(main())
