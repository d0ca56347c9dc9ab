"""``tvmconv cpu``: the CPU description that kernels are chosen by, and its measurement."""

from __future__ import annotations

from typing import Annotated

from tvmconv.cli import options
from tvmconv.cli.output import emit, tell
from tvmconv.cli.values import flag
from tvmconv.core.errors import InputError


def command(
    target: options.Target = "native",
    threads: options.Threads = None,
    measure: Annotated[
        bool, flag("--measure", help="Measure the rates of this CPU's cores (seconds).")
    ] = False,
    keep: Annotated[
        bool, flag("--keep", help="Use the rates in native builds (requires --measure).")
    ] = False,
    forget: Annotated[bool, flag("--forget", help="Remove the kept rates.")] = False,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Print the CPU description that kernels are chosen by, or measure its rates.

    \b
    Examples:
      tvmconv cpu
      tvmconv cpu --target x86-64-v3 --json
      tvmconv cpu --measure --keep
      tvmconv cpu --forget
    """
    from tvmconv.machines import saved
    from tvmconv.machines.targets import resolve_machine, shipped_machine
    from tvmconv.report.clock import Clock, clock_of
    from tvmconv.report.machine import machine_report

    if keep and not measure:
        raise InputError("--keep requires --measure")
    if (keep or forget) and target != "native":
        raise InputError(
            f"--keep and --forget support the target native only, got {target}. Leave out --target."
        )
    shipped = shipped_machine(target, threads)
    notes: tuple[str, ...] = ()
    if forget:
        removed = saved.forget(shipped)
        notes = (f"Removed {removed}." if removed else "Nothing was kept.",)
    if measure:
        from tvmconv.lab.bench.dot_peak import dword_steps
        from tvmconv.machines.probe import measure as probe

        found = probe(shipped, lambda name: tell(f"measuring {name}"), lambda: dword_steps(shipped))
        machine, clock = found.machine, Clock(found.hertz, measured=True)
        if keep:
            path = saved.save(machine, found.hertz)
            notes += (f"Kept in {path}; builds for native use it.",)
    else:
        machine = resolve_machine(target, threads)
        clock = clock_of(machine)
    emit(machine_report(machine, shipped, clock, notes), as_json, report)
