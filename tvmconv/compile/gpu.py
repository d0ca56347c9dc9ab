"""A program's kernels for a GPU: source, machine code, launches, and the C that launches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmconv.compile.c_text import literal
from tvmconv.compile.cuda_compiler import compile_fatbins
from tvmconv.core.interrupts import checkpoint
from tvmconv.core.launch import Launch
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.host import host_cores
from tvmconv.program.program import Program

# the driver requires it of a module
_ALIGNMENT = 16


@dataclass(frozen=True)
class GpuCode:
    """The kernels of a program.

    ``sources`` are CUDA C++, one for each module. ``fatbins`` are the modules: machine code for the
    GPU's architectures, and PTX for later ones. ``launches`` are launches of a call in order, by
    the function's symbol. ``modules`` has the index of the module that holds a kernel, by the
    kernel's name.
    """

    machine: CudaMachine
    sources: tuple[str, ...]
    fatbins: tuple[bytes, ...]
    launches: Mapping[str, tuple[Launch, ...]]
    modules: Mapping[str, int]


def compile_gpu(functions: Any, machine: CudaMachine) -> GpuCode:
    """Compile an ``IRModule`` of scheduled ``PrimFunc`` s, as one CUDA module for each CPU.

    Raises :class:`ModelError` with the function's name if an operator has no kernel.
    """
    from tvmconv.tir.cuda.lowering import cuda_code
    from tvmconv.tvm_api import ir

    ordered = sorted(functions.functions_items(), key=lambda item: str(item[0].name_hint))
    count = min(len(ordered), host_cores())
    codes = []
    for first in range(count):
        with compiler_lock():
            codes.append(cuda_code(ir.IRModule(dict(ordered[first::count])), machine))
        checkpoint()
    made = compile_fatbins([code.source for code in codes], machine)
    checkpoint()
    launches: dict[str, tuple[Launch, ...]] = {}
    modules: dict[str, int] = {}
    for module, (code, (_, resources)) in enumerate(zip(codes, made, strict=True)):
        for symbol, found in code.launches.items():
            launches[symbol] = tuple(resources[launch.kernel].of(launch) for launch in found)
            modules |= {launch.kernel: module for launch in found}
    sources = tuple(code.source for code in codes)
    return GpuCode(machine, sources, tuple(fatbin for fatbin, _ in made), launches, modules)


def write_fatbins(gpu: GpuCode, folder: Path, prefix: str = "") -> str:
    """Write the modules as files; returns assembler that includes them as data.

    ``prefix`` begins the names of the data.
    """
    folder.mkdir(exist_ok=True)
    lines = ['\t.section .rodata.tvmconv_gpu,"a",%progbits']
    for index, fatbin in enumerate(gpu.fatbins):
        path = folder / f"kernels_{index}.fatbin"
        path.write_bytes(fatbin)
        symbol = _symbol(prefix, index)
        lines += [
            f"\t.balign {_ALIGNMENT}",
            f"\t.globl {symbol}",
            f"\t.hidden {symbol}",
            f"\t.type {symbol}, %object",
            f"\t.size {symbol}, {len(fatbin)}",
            f"{symbol}:",
            f"\t.incbin {literal(str(path))}",
        ]
    return "\n".join([*lines, '\t.section .note.GNU-stack,"",%progbits', ""])


def gpu_definitions(gpu: GpuCode, program: Program) -> list[str]:
    """C for ``model.c``: the table of launches, and a function for each function of a call.

    Functions take the parameters of the kernels' ``PrimFunc`` s, in the GPU's memory. At batch size
    1 kernels are short, and launches are replayed as a graph.
    """
    parameters = {
        call.record.kernel: len(call.operands) for call in program.calls if call.record.kernel
    }
    replay = all(not tensor.shape or tensor.shape[0] == 1 for tensor in program.inputs)
    tables, first = kernel_tables(gpu, list(parameters), replay=replay)
    functions = list[str]()
    for symbol, count in parameters.items():
        functions += _function(symbol, count, gpu.launches[symbol], first[symbol])
    return [*tables, "", *functions]


def kernel_tables(
    gpu: GpuCode, symbols: Sequence[str], *, replay: bool = False, prefix: str = ""
) -> tuple[list[str], dict[str, int]]:
    """C of the table of launches, and the index of the first launch of each function.

    ``symbols`` are the functions whose launches the table has. ``replay`` is whether launches are
    replayed as a graph by default, and ``prefix`` is as for :func:`write_fatbins`.
    """
    rows, first = list[str](), dict[str, int]()
    for symbol in symbols:
        first[symbol] = len(rows)
        rows += [_row(launch, gpu.modules[launch.kernel]) for launch in gpu.launches[symbol]]
    names = [_symbol(prefix, index) for index in range(len(gpu.fatbins))]
    oldest = gpu.machine.architectures[0].removeprefix("sm_")
    tables = [
        *(f"extern const char {name}[];" for name in names),
        *([f"static const char *const modules[] = {{{', '.join(names)}}};"] if names else []),
        *(["static const tvmconv_kernel kernels[] = {", *rows, "};"] if rows else []),
        "const tvmconv_gpu_code tvmconv_this_gpu = {",
        f"    .architecture = {oldest},",
        f"    .module_count = {len(names)},",
        f"    .kernel_count = {len(rows)},",
        f"    .replay = {int(replay)},",
        *(["    .modules = modules,"] if names else []),
        *(["    .kernels = kernels,"] if rows else []),
        "};",
    ]
    return tables, first


def _symbol(prefix: str, index: int) -> str:
    return f"{prefix}tvmconv_fatbin_{index}"


def _row(launch: Launch, module: int) -> str:
    grid, block = (", ".join(f"{n}u" for n in extents) for extents in (launch.grid, launch.block))
    shared = launch.dynamic_shared_bytes
    return f'    {{"{launch.kernel}", {module}, {{{grid}}}, {{{block}}}, {shared}u}},'


def _function(symbol: str, count: int, launches: Sequence[Launch], first: int) -> list[str]:
    """A function that makes the launches of one call, in order."""
    names = [f"p{place}" for place in range(count)]
    unused = set(range(count)) - {place for launch in launches for place in launch.arguments}
    return [
        f"static int32_t {symbol}(tvmconv_frame *frame, "
        f"{', '.join(f'void *{name}' for name in names)}) {{",
        "    int32_t status = 0;",
        *(f"    (void){names[place]};" for place in sorted(unused)),
        *(
            f"    if (!status) status = tvmconv_launch(frame, {first + index}, "
            f"(void *[]){{{', '.join(f'&{names[place]}' for place in launch.arguments)}}});"
            for index, launch in enumerate(launches)
        ),
        "    return status;",
        "}",
        "",
    ]
