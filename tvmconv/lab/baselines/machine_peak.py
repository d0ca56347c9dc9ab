"""The peak of a layer's FMA or dot products, measured in the same rounds."""

from __future__ import annotations

from .case import Case, Session


def version() -> str:
    """Version of TVM, which compiles the probe."""
    from tvmconv.core.version import package_version

    return package_version("apache-tvm")


def prepare(case: Case, threads: int) -> Session:
    """The probe for the bench's target and the layer's types."""
    from tvmconv.core.datatypes import FLOAT32
    from tvmconv.core.workload import Conv2dWorkload
    from tvmconv.lab.bench.dot_peak import peak_runner
    from tvmconv.machines.targets import resolve_machine

    machine = resolve_machine(case.options.get("target", "native"), threads)
    layer = case.options.get("workload")
    types = Conv2dWorkload.parse(layer).types if layer else FLOAT32
    run, operations = peak_runner(machine, threads, types)
    return Session(run, dict, info=machine.isa, operations=operations)
