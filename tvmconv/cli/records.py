"""``tvmconv records``: review, join, check and clean tuning records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmconv.cli import destinations, options
from tvmconv.cli.command import add, group
from tvmconv.cli.output import emit, tell
from tvmconv.cli.values import argument, number, value

if TYPE_CHECKING:
    from tvmconv.records.logfile import Log

app = group("Show, merge, prune, verify and export tuning records.")

Logs = Annotated[list[Path], argument("LOG...", help="Tuning logs.")]
OneLog = Annotated[Path, argument("LOG", help="Tuning log.")]
Out = Annotated[
    Path | None,
    destinations.log_file("-o", "--output", help="Log to write instead of the given log."),
]
Match = Annotated[str, value("TEXT", help="Select records by a part of workload or algorithm.")]


def show(logs: Logs, match: Match = "", as_json: options.Json = False) -> None:
    """List the records of logs, and the lines that cannot be read."""
    _show(logs, match, as_json, only_best=False)


def best(logs: Logs, match: Match = "", as_json: options.Json = False) -> None:
    """List the best record of each workload, machine and algorithm."""
    _show(logs, match, as_json, only_best=True)


def merge(
    logs: Logs,
    output: Annotated[Path, destinations.log_file("-o", "--output", help="Log to write.")],
) -> None:
    """Join logs; every record once. An existing output file takes part."""
    from tvmconv.records import logfile, store

    with logfile.locked(output):
        sources = [output, *logs] if output.exists() else list(logs)
        parts = [_read(path).records for path in dict.fromkeys(sources)]
        records = store.merge(parts)
        logfile.rewrite(output, [record.to_line() for record in records])
    tell(f"{output}: {len(records)} records of {len(sources)} logs")


def prune(
    log: OneLog,
    output: Out = None,
    min_speedup: Annotated[
        float, number(0.0, help="Drop records with a smaller speed-up over the default.")
    ] = 0.0,
    as_json: options.Json = False,
) -> None:
    """Keep only the best records that this version's schedules accept."""
    from tvmconv.records import logfile, store
    from tvmconv.tuning.reports import prune_report

    with logfile.locked(log):
        kept, dropped = store.prune(_read(log).records, min_speedup)
        logfile.rewrite(output or log, [record.to_line() for record in kept])
    emit(prune_report(len(kept), dropped, output or log), as_json)


def export(
    logs: Logs,
    match: Match = "",
    output: Annotated[
        Path | None,
        destinations.log_file("-o", "--output", help="Log to write; standard output otherwise."),
    ] = None,
) -> None:
    """Write the best records of logs as one log, to share it; standard output by default."""
    from tvmconv.records import logfile, store

    kept, _ = store.prune(_records(list(map(_read, logs)), match))
    lines = [record.to_line() for record in kept]
    if output is None:
        for line in lines:
            typer.echo(line)
        return
    with logfile.locked(output):
        logfile.rewrite(output, lines)
    tell(f"{output}: {len(lines)} records")


def verify(
    log: OneLog,
    match: Match = "",
    output: Annotated[
        Path | None,
        destinations.log_file("-o", "--output", help="Log to append the confirmed records to."),
    ] = None,
    target: options.Target = "native",
    threads: Annotated[
        int | None,
        number(1, help="Select records for this number of threads.", show_default="all records"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check every record's output and measure its gain again on this CPU.

    Records are measured with the threads that they are for. With --output the confirmed records
    are appended to a log as records of this CPU.
    """
    from tvmconv.machines.targets import resolve_machine
    from tvmconv.records import logfile
    from tvmconv.tuning.measure import Final, LocalMeasurer
    from tvmconv.tuning.pool import Pool
    from tvmconv.tuning.reports import verify_report
    from tvmconv.tuning.session import check_host, host_provenance
    from tvmconv.tuning.verify import verify as check

    machine = resolve_machine(target, threads)
    check_host(machine)
    records = _records([_read(log)], match)
    with Pool() as pool:
        rows, confirmed = check(
            records,
            machine,
            threads,
            LocalMeasurer(pool),
            host_provenance,
            Final(),
            lambda row: tell(f"{row['workload']} {row['algorithm']}: {row['status']}"),
        )
    if output is not None:
        logfile.append(output, [record.to_line() for record in confirmed])
    emit(verify_report(rows, log), as_json)


def _read(path: Path) -> Log:
    from tvmconv.records import logfile

    logfile.check_log(path)
    return logfile.read_log(path)


def _records(logs: list[Log], match: str) -> tuple[Any, ...]:
    from tvmconv.records import store

    records = store.merge([log.records for log in logs])
    return store.for_workloads(records, match) if match else records


def _show(logs: list[Path], match: str, as_json: bool, only_best: bool) -> None:
    from tvmconv.records import store
    from tvmconv.tuning.reports import records_report

    read = [_read(path) for path in logs]
    records = _records(read, match)
    if only_best:
        records = store.best(records)
    skipped = [line for part in read for line in part.skipped]
    emit(records_report(", ".join(map(str, logs)), records, skipped), as_json)


for _function in (show, best, merge, prune, verify, export):
    add(app, _function.__name__, _function)
