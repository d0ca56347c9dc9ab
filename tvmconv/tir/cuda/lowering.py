"""Lowers scheduled functions for a GPU to CUDA source and to the launches of their kernels.

Functions have static shapes, so that the host code only launches kernels with constant grids. This
module reads these launches. The program that tvmconv generates performs them.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import ir, tirx
from tvm.s_tir.pipeline import finalize_device_passes

from tvmconv.algorithms.cuda.slices import LARGE_BLOCK
from tvmconv.core.errors import ModelError
from tvmconv.core.launch import Launch
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tir.annotations import RESIDENT
from tvmconv.tir.cuda import double_buffers, half, predicated_loads, predicated_stores, tap_tables
from tvmconv.tir.cuda.extrema import DEFINITIONS
from tvmconv.tir.cuda.mma import DEFINITIONS as MMA_DEFINITIONS
from tvmconv.tir.cuda.mma import calls_mma
from tvmconv.tir.cuda.pipeline import function_passes, is_kernel, kernel_passes, kernels_alone
from tvmconv.tir.cuda.plain_names import plain_names
from tvmconv.tir.cuda.workspace_parameters import with_workspace
from tvmconv.tir.pipeline import Pipeline

# launch parameter: bytes of shared memory whose size the kernel does not know
_DYNAMIC_SHARED = "tirx.use_dyn_shared_memory"
_LAUNCH = "tirx.call_ffi_kernel"
_AXES = ("x", "y", "z")
# Where TVM's runtime for CUDA is loaded, TVM compiles what it prints, unless this variable is set
_SOURCE_ONLY = "TVM_COMPILE_FORCE_FALLBACK"
_PRINTING = threading.Lock()
# nvcc does not derive this bound from launch bounds, and would keep tests that cannot fail
_ASSUMED = re.compile(r"__launch_bounds__\((\d+)[^)]*\) \w+\([^)]*\) \{\n")
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\) (\w+?)_kernel(?:_\d+)?\(")
# number of threads in a block -> blocks that a multiprocessor holds with 65536 registers. In a GEMM
# tile, a block of 256 threads needs 128 registers a thread. Smaller blocks accumulate more values a
# thread and would spill. Other kernels with these block sizes need far fewer registers
_RESIDENT = {256: 2, 128: 3, 64: 6}
_THREADS = 512
# maximum grid size along x, and along y and z
_MOST_X, _MOST_YZ = 2**31 - 1, 65535
# the names that TVM's printed kernels use; TVM's own preamble costs nvcc a second
_PREAMBLE = """#include <cstdint>
#define uint unsigned int
#define uchar unsigned char
#define ushort unsigned short
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ULL)
#define CUDART_NAN __longlong_as_double(0x7ff8000000000000ULL)
"""


@dataclass(frozen=True)
class CudaCode:
    """Kernels of one function, or of several.

    ``source`` is CUDA C++ of the kernels, each ``extern "C"``. ``launches`` has the launches of
    each function in order, by its symbol.
    """

    source: str
    launches: Mapping[str, tuple[Launch, ...]]


def cuda_code(functions: Any, machine: CudaMachine) -> CudaCode:
    """Lower scheduled functions to CUDA source and launches.

    Raises ``ModelError`` if a function computes outside of kernels, or its launches depend on its
    arguments. ``functions`` is a ``PrimFunc`` with its symbol, or a ``tvm.IRModule`` of them.
    """
    if isinstance(functions, tirx.PrimFunc):
        functions = ir.IRModule({str(functions.attrs["global_symbol"]): functions})
    symbols = {str(f.attrs["global_symbol"]): var for var, f in functions.functions_items()}
    # TVM adds _kernel to the names of kernels
    bare = {symbol: symbol.removesuffix("_kernel") for symbol in symbols}
    names = {symbol: symbol if name in symbols else name for symbol, name in bare.items()}
    functions = ir.IRModule(
        {
            var: plain_names(with_workspace(functions[var])).with_attr(
                "global_symbol", names[symbol]
            )
            for symbol, var in symbols.items()
        }
    )
    split = Pipeline(function_passes(machine))(functions)
    hosts = {
        str(func.attrs["global_symbol"]): func
        for _, func in split.functions_items()
        if not is_kernel(func)
    }
    lowered = Pipeline([kernels_alone(), *kernel_passes()])(split)
    kernels = [func for _, func in lowered.functions_items()]
    printed = {str(func.attrs["global_symbol"]) for func in kernels}
    launches = {symbol: _launches(symbol, hosts[name], printed) for symbol, name in names.items()}
    device = finalize_device_passes()(lowered)
    text = _printed(device, machine) if kernels else ""
    called = "".join(
        definitions
        for definitions, calls in (
            (half.DEFINITIONS, half.names_half),
            (MMA_DEFINITIONS, calls_mma),
            (predicated_loads.DEFINITIONS, predicated_loads.calls_guarded),
            (predicated_stores.DEFINITIONS, predicated_stores.calls_stores),
            (double_buffers.DEFINITIONS, double_buffers.calls_turned),
        )
        if calls(text)
    )
    called += tap_tables.definitions(kernels)
    resident = {
        str(func.attrs["global_symbol"]): int(func.attrs[RESIDENT])
        for _, func in functions.functions_items()
        if RESIDENT in func.attrs
    }
    kernels_text = _BOUNDS.sub(
        lambda match: _bounds(match, resident), text[max(0, text.find('extern "C"')) :]
    )
    kernels_text = _ASSUMED.sub(r"\g<0>  __builtin_assume(threadIdx.x < \1);\n", kernels_text)
    return CudaCode(_PREAMBLE + DEFINITIONS + called + kernels_text, launches)


def _printed(device: Any, machine: CudaMachine) -> str:
    """The CUDA source that TVM prints for kernels."""
    build = tvm.get_global_func("target.build.cuda")
    # another thread's call would restore the variable too early
    with _PRINTING:
        before = os.environ.get(_SOURCE_ONLY)
        os.environ[_SOURCE_ONLY] = "1"
        try:
            module = build(device, tvm.target.Target(machine.tvm_target()))
        finally:
            if before is None:
                del os.environ[_SOURCE_ONLY]
            else:
                os.environ[_SOURCE_ONLY] = before
    return str(module.inspect_source("cuda"))


def _bounds(match: re.Match[str], resident: Mapping[str, int]) -> str:
    """Launch bounds that also name the minimum number of resident blocks.

    Without this number nvcc uses more registers, and a multiprocessor holds one block of 256
    threads. That block has nothing to overlap its barriers with.
    """
    threads = int(match[1])
    usual = _RESIDENT.get(threads, max(1, _THREADS // threads))
    head, kernel = match[0].split(" ", 1)
    asked = resident.get(match[2], usual)
    # other kernels of the function also have such blocks, and need more registers a thread
    blocks = min(asked, usual) if threads == LARGE_BLOCK else asked
    return f"{head[:-1]}, {blocks}) {kernel}"


def _launches(symbol: str, host: Any, kernels: set[str]) -> tuple[Launch, ...]:
    """The launches of a host function."""
    places: dict[Any, int | None] = {buffer: place for place, buffer in enumerate(host.params)}
    found: list[Launch] = []

    def read(statement: Any) -> None:
        if isinstance(statement, tirx.SeqStmt):
            for part in statement.seq:
                read(part)
        elif isinstance(statement, tirx.DeclBuffer):
            # an alias of the same memory
            places[statement.buffer] = _place(statement.data, places)
        elif isinstance(statement, tirx.Evaluate) and isinstance(statement.value, ir.Call):
            found.append(_launch(symbol, statement.value, places, kernels))
        elif isinstance(statement, tirx.AttrStmt):
            read(statement.body)
        else:
            raise ModelError(
                f"cannot lower {symbol} to CUDA: its host code contains "
                f"{type(statement).__name__}. Expected kernel launches only. Bind every loop of "
                "its schedule to blocks and threads."
            )

    read(host.body)
    return tuple(found)


def _place(pointer: Any, places: Mapping[Any, int | None]) -> int | None:
    """The index of the parameter that a pointer names; None for other pointers."""
    named = getattr(getattr(pointer, "op", None), "name", "") == "tirx.buffer_data"
    return places.get(pointer.args[0]) if named else None


def _launch(symbol: str, call: Any, places: Mapping[Any, int | None], kernels: set[str]) -> Launch:
    """One launch in TVM's form: the kernel, its arguments, then the launch parameters."""
    name = str(getattr(call.args[0], "value", ""))
    tags = [str(tag) for tag in call.attrs["launch_params"]]
    if getattr(call.op, "name", "") != _LAUNCH or name not in kernels:
        raise ModelError(
            f"cannot lower {symbol} to CUDA: its host code calls {call.op}. Expected kernel "
            "launches only. Bind every loop of its schedule to blocks and threads."
        )
    operands = call.args[1 : len(call.args) - len(tags)]
    extents = dict(zip(tags, call.args[len(call.args) - len(tags) :], strict=True))
    fixed = {tag: int(value) for tag, value in extents.items() if isinstance(value, tirx.IntImm)}
    arguments = [place for o in operands if (place := _place(o, places)) is not None]
    if len(fixed) != len(extents) or len(arguments) != len(operands):
        raise ModelError(
            f"cannot lower {symbol} to CUDA: the launch of {name} depends on run-time values. "
            "Expected constant grids and blocks. Use static shapes in its schedule."
        )
    grid, block = (
        tuple(fixed.get(f"{kind}Idx.{axis}", 1) for axis in _AXES) for kind in ("block", "thread")
    )
    if not (1 <= grid[0] <= _MOST_X and max(grid[1:]) <= _MOST_YZ):
        raise ModelError(
            f"cannot launch {name} of {symbol}: the grid is {grid}. Expected at most {_MOST_X} "
            f"along x and {_MOST_YZ} along y and z. Let each block compute more."
        )
    if prod(block) > CudaMachine.threads_block:
        raise ModelError(
            f"cannot launch {name} of {symbol}: a block has {block} threads. Expected at most "
            f"{CudaMachine.threads_block} in all. Use smaller blocks in its schedule."
        )
    return Launch(
        name,
        (grid[0], grid[1], grid[2]),
        (block[0], block[1], block[2]),
        tuple(arguments),
        fixed.get(_DYNAMIC_SHARED, 0),
    )
