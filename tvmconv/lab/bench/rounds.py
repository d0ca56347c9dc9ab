"""Interleaved rounds: every implementation is prepared and checked, then timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvmconv.core.errors import TvmconvError
from tvmconv.lab.bench.case_files import CaseInfo
from tvmconv.lab.bench.implementation_run import HELLO_SECONDS, Extras, ImplementationRun, reason
from tvmconv.lab.bench.result import OWN, PEAK, WRONG_ABOVE, CaseResult, Entry, wrong_above
from tvmconv.lab.bench.worker_process import Implementation, WorkerError, WorkerProcess

_PREPARE_SECONDS = 900.0
_LOADS = 5
# every buffer of 64 KiB or more is new memory to the system, not memory that was freed before
_FRESH_PAGES = {"MALLOC_MMAP_THRESHOLD_": "65536"}


class Workers:
    """The workers of one thread count for all cases; closes them at the end.

    ``cpus`` are the CPUs that every worker may use. With ``streams``, so many calls run at the same
    time, each with ``threads``.
    """

    def __init__(
        self,
        implementations: Sequence[Implementation],
        threads: int,
        cpus: Sequence[int],
        extras: Extras | None = None,
        streams: int = 0,
    ) -> None:
        self.threads, self.cpus, self.extras = threads, cpus, extras or Extras()
        self.streams = streams
        self._stack = ExitStack()
        self.workers: list[ImplementationRun] = []
        groups: dict[str, WorkerProcess] = {}
        for implementation in implementations:
            process = groups.get(implementation.group) if implementation.group else None
            if process is None:
                process = WorkerProcess(implementation, threads, cpus)
                self._stack.callback(process.close)
            if implementation.group:
                groups[implementation.group] = process
            self.workers.append(ImplementationRun(implementation, process))
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def hello(self) -> None:
        """Ask every worker for its library's version; libraries without a version are absent."""
        for run in self.workers:
            label = run.implementation.label
            try:
                answer = run.process.ask(HELLO_SECONDS, do="hello")
            except WorkerError as error:
                self.absent[label] = str(error)
                continue
            if "version" in answer:
                self.versions[label] = str(answer["version"])
            else:
                self.absent[label] = reason(answer)
                run.process.close()

    def measure(
        self, folder: Path, info: CaseInfo, rounds: int, seconds: float, options: Mapping[str, Any]
    ) -> CaseResult:
        """Prepare, check and time one case with every implementation."""
        if self.streams:
            options = {**options, "streams": self.streams, "cpus": len(self.cpus)}
        entries: dict[str, Entry] = {}
        live: list[ImplementationRun] = []
        for run in self.workers:
            entry = self._prepare(run, folder, info, options)
            if entry.status == "unsupported" and not run.named and run.label.startswith(OWN):
                # most layers suit one or two of our algorithms; the others are not a result
                continue
            entries[run.label] = entry
            if entry.status == "ok":
                live.append(run)
        for number in range(rounds):
            # reversed each round, so that none always runs on a core that another one has heated
            for run in live if number % 2 == 0 else reversed(live):
                if entries[run.label].status == "ok":
                    entries[run.label] = run.time_round(entries[run.label], seconds, self.extras)
        for run in live:
            run.drop()
        return CaseResult(
            info.name,
            info.kind,
            info.problem,
            info.flops,
            info.count,
            self.threads,
            tuple(entries.values()),
            precision=options.get("precision", "float32"),
            streams=self.streams,
            images=info.images,
        )

    def _prepare(
        self, run: ImplementationRun, folder: Path, info: CaseInfo, options: Mapping[str, Any]
    ) -> Entry:
        label = run.label
        entry = Entry(label, "ok", self.versions.get(label, ""), operations=info.flops)
        if label in self.absent:
            return replace(entry, status="absent", message=self.absent[label])
        request = {
            "do": "prepare",
            "folder": str(folder),
            "options": {
                **options,
                "stages": self.extras.stages,
                **dict(run.implementation.options),
            },
            "write": None,
            "slot": label,
        }
        try:
            answer = run.process.ask(_PREPARE_SECONDS, **request)
        except WorkerError as error:
            return replace(entry, status="failed", message=str(error))
        if answer.get("broken"):
            # its cases are lost, and the next case needs a process that works
            run.process.close()
        if "first_seconds" not in answer:
            status = "unsupported" if "unsupported" in answer else "failed"
            return replace(entry, status=status, message=reason(answer))
        run.first, run.stages = float(answer["first_seconds"]), answer["stages"]
        run.warms, run.colds = bool(answer["warms"]), bool(answer["colds"])
        entry = replace(
            entry,
            info=str(answer["info"]),
            error=answer["error"],
            operations=answer["operations"] or info.flops,
            facts=answer["facts"],
        )
        limit = wrong_above(info.quantized, entry.facts)
        if entry.error is not None and not entry.error <= limit:
            message = f"the outputs differ from the reference by {entry.error:.1e}"
            return replace(entry, status="wrong", message=message)
        # GPU implementations report their memory themselves
        if self.extras.memory and label != PEAK and "device_bytes" not in entry.facts:
            entry = replace(entry, facts=entry.facts | self._growth(run, request))
        if self.extras.load and label != PEAK and info.kind == "model":
            entry = replace(entry, facts=entry.facts | self._loading(run, request))
        return entry

    def _loading(self, run: ImplementationRun, request: dict[str, Any]) -> dict[str, Any]:
        """Minimum figures of loading the implementation's own file in fresh processes."""
        what = {key: request[key] for key in ("folder", "options")}
        found: list[dict[str, Any]] = []
        exported = self._once(run, do="export", **what).get("exported")
        for _ in range(_LOADS if exported else 0):
            answer = self._once(run, do="load", exported=exported, **what)
            if "facts" in answer and answer["error"] <= WRONG_ABOVE:
                found.append(answer["facts"])
        # the first ones also read libraries from the disk
        return {
            name: min((f[name] for f in found if f[name] is not None), default=None)
            for name in (found[0] if found else ())
        }

    def _once(
        self, run: ImplementationRun, environment: Mapping[str, str] | None = None, **request: Any
    ) -> dict[str, Any]:
        """The answer of a process that does nothing else; empty if it fails."""
        worker = WorkerProcess(run.implementation, self.threads, self.cpus, environment)
        try:
            return worker.ask(_PREPARE_SECONDS, **request)
        except WorkerError:
            return {}
        finally:
            worker.close()

    def _growth(self, run: ImplementationRun, request: dict[str, Any]) -> dict[str, Any]:
        """``call_bytes`` of a fresh process; empty if it fails."""
        request = {**request, "options": {**request["options"], "memory": True, "stages": False}}
        answer = self._once(run, _FRESH_PAGES, **request)
        return {"call_bytes": answer.get("facts", {}).get("call_bytes")} if answer else {}


def write_reference(
    implementation: Implementation, folder: Path, exact: bool = False, threads: int = 1
) -> None:
    """Store a model's outputs, as one implementation (onnxruntime) computes them.

    ``exact`` disables optimizations that change results, which matters to INT8 models. Raises
    :class:`TvmconvError` if it fails: a bench does not time cases that it cannot check.
    """
    worker = WorkerProcess(implementation, threads)
    path = str(folder / "reference.npz")
    try:
        answer = worker.ask(
            _PREPARE_SECONDS, do="prepare", folder=str(folder), options={"exact": exact}, write=path
        )
        problem = "" if "first_seconds" in answer else reason(answer)
    except WorkerError as error:
        problem = str(error)
    finally:
        worker.close()
    if problem:
        raise TvmconvError(
            f"onnxruntime, the reference of models, failed: {problem}. Install it, or name an "
            "environment that has it by --baseline-python."
        )


def describe(result: CaseResult) -> str:
    """One line of progress."""
    how = f"{result.streams} stream(s) of " if result.streams else ""
    head = f"{result.name} ({how}{result.threads} thread(s)): "
    if result.skipped:
        return head + result.skipped
    parts = []
    for entry in result.entries:
        if entry.status != "ok":
            parts.append(f"{entry.label} {entry.status}")
        elif entry.rate:
            parts.append(f"{entry.label} {entry.rate * result.images:.1f} images/s")
        elif entry.label == PEAK:
            parts.append(f"peak {entry.gflops or 0:.0f} GFLOP/s")
        else:
            parts.append(f"{entry.label} {(entry.best or 0) * 1e3:.3f} ms")
    return head + ", ".join(parts)
