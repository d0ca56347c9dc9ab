"""Functions for GPUs that TVM's virtual machine calls, as one object file.

TVM would keep the source of kernels in a library and compile it where the library is loaded, with
options of its own. This object holds machine code, and launches it by NVIDIA's driver as a saved
model does. ``runtime/c/vm_calls.c`` has the part of it that is the same for all networks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tvmconv.compile.c_text import literal
from tvmconv.compile.gpu import GpuCode, compile_gpu, kernel_tables, write_fatbins
from tvmconv.compile.joined_calls import Joined
from tvmconv.compile.toolchain import Toolchain
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tir.general.rewrite import byte_size
from tvmconv.tvm_api.runtime import load_static_library
from tvmconv.tvm_api.types import IRModule, Module

# names that two objects of one library would otherwise both define
_SHARED = ("tvmconv_this_gpu", "tvmconv_this_description")


def gpu_library(
    functions: IRModule, calls: Mapping[str, Joined], machine: CudaMachine, prefix: str
) -> Module:
    """A TVM module with a function for each of ``calls``, by symbol.

    ``functions`` are the scheduled functions that the calls name. ``prefix`` begins names that no
    other object of the same library has. Raises :class:`ModelError` if an operator has no kernel,
    and :class:`ArtifactError` if a compiler is missing.
    """
    gpu = compile_gpu(functions, machine)
    toolchain = Toolchain.find("", machine.triple)
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as name:
        folder = Path(name)
        source, output = folder / "calls.c", folder / "calls.o"
        source.write_text("\n".join(_source(gpu, calls, machine, prefix)))
        data = folder / "gpu.s"
        data.write_text(write_fatbins(gpu, folder / "gpu", prefix))
        toolchain.one_object(output, [source, data])
        return load_static_library(str(output), list(calls))


def _source(
    gpu: GpuCode, calls: Mapping[str, Joined], machine: CudaMachine, prefix: str
) -> Iterator[str]:
    """C that includes ``vm_calls.c``."""
    for name in _SHARED:
        yield f"#define {name} {prefix}{name}"
    yield '#include "vm_calls.c"'
    tables, first = kernel_tables(gpu, list(gpu.launches), prefix=prefix)
    yield from tables
    yield "const tvmconv_description tvmconv_this_description = {"
    yield f"    .target = {literal(machine.name)},"
    yield "};"
    for number, (symbol, call) in enumerate(calls.items()):
        yield from _call(number, symbol, call, gpu, first)


def _call(
    number: int, symbol: str, call: Joined, gpu: GpuCode, first: Mapping[str, int]
) -> Iterator[str]:
    """The tables of one call, and its function."""
    operands, launches = list[str](), list[str]()
    for step in call.steps:
        for index, launch in enumerate(gpu.launches[step.kernel], first[step.kernel]):
            launches.append(f"{{{index}, {len(operands)}, {len(launch.arguments)}}}")
            pointers = [step.operands[place] for place in launch.arguments]
            operands += [f"{{{each.parameter}, {each.offset}u}}" for each in pointers]
    bytes_ = [f"{byte_size(parameter)}u" for parameter in call.parameters]
    yield _table("uint64_t", f"bytes_{number}", bytes_)
    yield _table("vm_launch", f"launches_{number}", launches)
    yield _table("vm_operand", f"operands_{number}", operands)
    tables = ", ".join(f"{name}_{number}" for name in ("bytes", "launches", "operands"))
    counts = f"{len(bytes_)}, {len(launches)}"
    yield f"static const vm_call call_{number} = {{{literal(symbol)}, {counts}, {tables}}};"
    yield f"VM_FUNCTION({symbol}, call_{number})"


def _table(kind: str, name: str, rows: Sequence[str]) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(rows) or '0'}}};"
