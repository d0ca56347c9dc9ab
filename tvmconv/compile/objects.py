"""Machine code of a program's kernels: one object file for each function."""

from __future__ import annotations

import tempfile
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextvars import copy_context
from pathlib import Path
from typing import Any

from tvmconv.compile.kernel_cache import CachedKernels
from tvmconv.compile.machine_code import Objects
from tvmconv.core.interrupts import checkpoint
from tvmconv.machines.host import host_cores
from tvmconv.machines.record import Machine
from tvmconv.program.program import Place, Program
from tvmconv.runtime import forks
from tvmconv.tir.general.c_functions import NATURAL
from tvmconv.tir.general.record_vector_code import recorded_code
from tvmconv.tir.general.record_workspace import recorded
from tvmconv.tir.pipeline import c_calls, compile_function

# delay of Ctrl-C while kernels are compiled
_POLL_SECONDS = 0.1


def compile_objects(functions: Any, machine: Machine, program: Program) -> Objects:
    """Compile an ``IRModule`` of scheduled ``PrimFunc`` s in parallel on the CPUs of this process.

    Each kernel is a separate module, so its code depends on neither the number of CPUs nor other
    kernels. Operands of ``program`` that belong to the caller are aligned to their elements only.
    """
    natural = unaligned_parameters(program)
    named = {}
    for _, func in sorted(functions.functions_items(), key=lambda item: str(item[0].name_hint)):
        symbol = str(func.attrs["global_symbol"])
        named[symbol] = func.with_attr(NATURAL, natural.get(symbol, ()))
    cached = CachedKernels(named, machine)
    pool = ThreadPoolExecutor(host_cores(), "tvmconv-compile")
    with recorded() as workspace, recorded_code() as vectors:

        @forks.native(lengthy=True)
        def compile_one(symbol: str) -> bytes:
            with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
                path = Path(folder) / "kernel.o"
                compile_function(named[symbol], machine, calls=c_calls).write_object(path)
                code = path.read_bytes()
            cached.keep(symbol, code, workspace.get(symbol, 0), vectors.get(symbol, ""))
            return code

        # TVM's passes and LLVM run without Python's lock; contexts pass the records on
        jobs = {
            symbol: pool.submit(copy_context().run, compile_one, symbol)
            for symbol in cached.missing
        }
        pending = set(jobs.values())
        try:
            while pending:
                done, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
                for job in done:
                    job.result()
                checkpoint()
        finally:
            # LLVM may compile a kernel for seconds; Ctrl-C does not wait for its thread
            pool.shutdown(wait=False, cancel_futures=True)
        made = {symbol: job.result() for symbol, job in jobs.items()}
        code = {symbol: made[symbol] if symbol in made else cached.code[symbol] for symbol in named}
        workspace, vectors = workspace | cached.workspace, vectors | cached.vectors
        return Objects(code, workspace, vectors if machine.vector.scalable else {})


def unaligned_parameters(program: Program) -> dict[str, tuple[int, ...]]:
    """Indices of parameters that are an input or output in any call of any program, by symbol."""
    found: dict[str, set[int]] = {}
    calls = (call for each in program.programs for call in each.all_calls())
    for call in calls:
        for index, operand in enumerate(call.operands):
            if operand.place in (Place.INPUT, Place.OUTPUT):
                found.setdefault(call.record.kernel, set()).add(index)
    return {symbol: tuple(sorted(indices)) for symbol, indices in found.items()}
