"""The manifest of a program, and its memory report."""

from __future__ import annotations

from dataclasses import replace

from tvmconv.artifact.program_record import MemoryReport
from tvmconv.artifact.record import Planned, record_program
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.targets import resolve_machine
from tvmconv.program.program import Program


def test_memory_is_that_of_the_program() -> None:
    outputs = (TensorInfo("y", (3, 5), "float32"), TensorInfo("s", (), "int64"))
    program = Program((), outputs, (), (), 640, 1024, 1000, 256)
    machine = replace(resolve_machine("x86-64-v3"), cores=3)
    manifest = record_program(program, machine, [Planned(padding_bytes=48)])
    assert manifest.memory == MemoryReport(1024, 60 + 8, 640, 3 * 256, 48)
    assert (manifest.threads, manifest.outputs) == (3, outputs)
