"""The machine's multiply-add peak as a contender, so that it is measured in the same rounds."""

from __future__ import annotations

from .case import Case, Session


def version() -> str:
    """Version of TVM, which compiles the probe."""
    from tvmconv.bench.host import package_version

    return package_version("apache-tvm")


def prepare(case: Case, threads: int) -> Session:
    """The probe for the instruction set of the bench's target."""
    from tvmconv.bench.peak import fma_runner
    from tvmconv.machines.targets import resolve_machine

    machine = resolve_machine(case.options.get("target", "native"), threads)
    run, operations = fma_runner(machine, threads)
    return Session(run, dict, info=machine.isa, operations=operations)
