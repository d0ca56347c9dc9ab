"""All phases on the machine with the GPU, one after another, even if some of them fail."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from examples.gpu.checks import baselines, find_gpu
from examples.gpu.networks import planned, write_networks
from examples.gpu.phases import Phase, command, environment, phases

# seconds that are left for the summary, and for the end of a process
_LEAST_SECONDS, _GRACE = 8.0, 5.0
_SHOWN = 12
# states of a row that are faults
_FAULTS = ("failed", "wrong")
# how often the archive is updated while a phase runs
_EVERY_SECONDS = 5.0
NETWORKS = ("networks", "torch-compile")


def measure(
    kit: Path,
    results: Path,
    small: bool,
    target: str,
    total: float,
    only: Sequence[str] = (),
    device: int = 0,
    emulator: Mapping[str, str] | None = None,
) -> int:
    """Run phases until the ``total`` seconds are over.

    ``kit`` is the folder that was prepared by this version of the code. ``results`` is a folder for
    a file of each phase, rewritten after every case, and ``summary.json``; or a file that ends in
    ``.zip`` and holds these. ``device`` is the number of the GPU in the driver's order;
    ``emulator`` has variables of an emulated one. Returns 0 if everything was measured, 1 if a
    phase did not end by itself, or has missing cases or faulty rows, and 2 without a GPU that runs
    the kernels.
    """
    start = time.monotonic()
    state = {**environment(), **(emulator or {})}
    there, output = find_gpu(device, target, state)
    print(output, flush=True)
    if not there:
        return 2
    print("\n".join(baselines(state)), flush=True)
    summary: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        packed = results if results.suffix == ".zip" else None
        results = Path(folder) / "results" if packed else results
        (packed.parent if packed else results).mkdir(parents=True, exist_ok=True)
        results.mkdir(exist_ok=True)
        archive = Archive(results, packed)
        places = [Path(folder) / path for path in planned(small)]
        waiting = list(phases(kit, small, places, only))
        while waiting:
            phase = waiting.pop(0)
            left = total - (time.monotonic() - start)
            row: dict[str, Any] = {"phase": phase.name}
            summary.append(row)
            if left < _LEAST_SECONDS:
                row["status"] = "left out: the time was up"
                continue
            print(f"== {phase.name}, {left:.0f} s left", flush=True)
            began = time.monotonic()
            try:
                if phase.name in NETWORKS and not places[-1].is_file():
                    write_networks(Path(folder), small)
                later = 0.0 if small else sum(each.seconds for each in waiting)
                spent = time.monotonic() - began
                limit = max(left - later, min(phase.seconds, left)) - spent
                arguments = command(phase, kit, target, device)
                row |= _measured(phase, results, arguments, state, limit, archive)
            except Exception as error:
                # the next phase may work
                row["status"] = f"failed: {type(error).__name__}: {error}"
            row["seconds"] = round(time.monotonic() - began, 1)
            _write(results / "summary.json", summary)
            archive.update()
            print(f"{row['status']}, {row['seconds']:.0f} s", flush=True)
        _write(results / "summary.json", summary)
        archive.update()
    print("\n".join(["", *table(summary)]), flush=True)
    return 0 if all(row["status"] == "done" for row in summary) else 1


def _measured(
    phase: Phase,
    results: Path,
    arguments: Sequence[str],
    state: Mapping[str, str],
    limit: float,
    archive: Archive,
) -> dict[str, Any]:
    """How a phase ended, and its results."""
    path = results / f"{phase.name}.json.gz"
    path.unlink(missing_ok=True)
    status, output = run([*arguments, "--report", str(path)], state, limit, archive.update)
    row: dict[str, Any] = {"status": status}
    if path.is_file():
        row |= {"file": path.name, **missing(path)}
        lost = ["some cases"] if row["missing"] else []
        lost += [f"rows that failed or are wrong ({row['faults']})"] if row["faults"] else []
        if lost and status == "done":
            row["status"] = f"done, but for {' and '.join(lost)}"
    if row["status"] != "done":
        row["said"] = output.splitlines()[-_SHOWN:]
        print("\n".join(row["said"]), flush=True)
    return row


def run(
    arguments: Sequence[str],
    state: Mapping[str, str],
    seconds: float,
    meanwhile: Callable[[], object] = lambda: None,
) -> tuple[str, str]:
    """How a bench ended, and its output; saved cases remain when its time is up."""
    until = time.monotonic() + max(seconds, 0.0)
    with tempfile.TemporaryFile("w+") as log:
        # a file: a pipe stays open as long as any child holds it
        process = subprocess.Popen(arguments, env=dict(state), stdout=log, stderr=subprocess.STDOUT)
        try:
            while (left := until - time.monotonic()) > _EVERY_SECONDS and process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=min(_EVERY_SECONDS, left))
                meanwhile()
            code = process.wait(timeout=max(until - time.monotonic(), 0.0))
            status = "done" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            status = "ended: its time was up, cases that were done are saved"
            process.terminate()
            try:
                process.wait(timeout=_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        log.seek(0)
        return status, log.read()


def missing(path: Path) -> dict[str, Any]:
    """Cases of a saved bench that were not measured, and rows without a time by their reasons.

    ``faults`` counts rows that failed or are wrong; their reasons come first. A library that is
    absent is not a fault.
    """
    from tvmconv.lab.bench.result import read_saved

    result = read_saved(path)
    measured = [case.name for case in result.results if not case.skipped]
    left = list(result.settings.get("cases", ()))
    for name in measured:
        if name in left:
            left.remove(name)
    faults: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for case in result.results:
        if case.skipped:
            others.setdefault(f"{case.kind}: {case.skipped}", []).append(case.name)
        for entry in case.entries:
            # an unsupported layer is not missing
            if entry.status != "unsupported" and (entry.status != "ok" or not entry.rounds):
                text = f"{entry.label} {entry.status}: {entry.message}"
                rows = faults if entry.status in _FAULTS else others
                rows.setdefault(text, []).append(case.name)
    count = sum(map(len, faults.values()))
    lost = {"missing": left, "faults": count, "rows_without_time": faults | others}
    return {"cases": len(measured), **lost}


def table(summary: Sequence[Mapping[str, Any]]) -> list[str]:
    """The summary in lines: phases, then missing cases and rows."""
    lines = []
    for row in summary:
        cases = f"{row['cases']} cases, " if "cases" in row else ""
        lines.append(f"{row['phase']:16} {cases}{row['status']}, {row.get('seconds', 0):.0f} s")
        if row.get("missing"):
            lines.append(f"    no cases: {', '.join(row['missing'])}")
        found = row.get("rows_without_time", {})
        for text, names in list(found.items())[:_SHOWN]:
            lines.append(f"    {', '.join(names)[:80]}: {text[:160]}")
        if len(found) > _SHOWN:
            lines.append(f"    and {len(found) - _SHOWN} reasons more: summary.json")
    return lines


def _write(path: Path, summary: Sequence[Mapping[str, Any]]) -> None:
    written = path.with_suffix(".new")
    written.write_text(json.dumps(summary, indent=1))
    written.replace(path)


class Archive:
    """One file with the results of a folder; no file where ``path`` is None.

    Files of the folder are replaced at once.
    """

    def __init__(self, folder: Path, path: Path | None) -> None:
        self._folder, self._path = folder, path
        self._seen: dict[str, tuple[int, int]] = {}

    def update(self) -> bool:
        """Write the file anew if the folder has changed; returns whether it had."""
        if self._path is None:
            return False
        files = sorted(p for p in self._folder.glob("*.json*") if p.suffix in (".json", ".gz"))
        stats = {path.name: path.stat() for path in files}
        seen = {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}
        if not seen or seen == self._seen:
            return False
        written = self._path.with_name(f"{self._path.name}.new")
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, path.name)
        written.replace(self._path)
        self._seen = seen
        return True
