"""The peak of a layer's FMA or dot products, measured in the same rounds."""

from __future__ import annotations

from .case import Case, Session


def version() -> str:
    """Version of TVM, which compiles the probe."""
    from tvmconv.measuring.host import package_version

    return package_version("apache-tvm")


def prepare(case: Case, threads: int) -> Session:
    """The probe for the instruction set of the bench's target; for INT8 layers its dot products."""
    from tvmconv.core.workload import Conv2dWorkload
    from tvmconv.lab.bench.dot_peak import dot_runner
    from tvmconv.lab.bench.peak import fma_runner
    from tvmconv.machines.targets import resolve_machine

    machine = resolve_machine(case.options.get("target", "native"), threads)
    layer = case.options.get("workload")
    integers = layer is not None and Conv2dWorkload.parse(layer).types.is_integer
    run, operations = (dot_runner if integers else fma_runner)(machine, threads)
    return Session(run, dict, info=machine.isa, operations=operations)
