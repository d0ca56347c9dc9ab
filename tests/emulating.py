"""Kernels and models for other processors, called under qemu's user mode."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.kernels import assert_close, differences, kernel_operands
from tests.strategies import conv_arrays
from tvmconv.compile.emulation import run_emulated
from tvmconv.compile.network import CompiledProgram
from tvmconv.compile.objects import compile_objects
from tvmconv.compile.source import Facts
from tvmconv.compile.toolchain import SOURCES, usual_driver
from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine
from tvmconv.machines.sve import MACHINES as SCALABLE
from tvmconv.model import CompiledModel
from tvmconv.program.program import ALIGNMENT, Call, Constant, Operand, Place, Program

ARM = "aarch64-linux-gnu"
CALL = SOURCES / "call.c"
# a caller that shows what tasks and threads should not have touched
HOSTILE = Path(__file__).parent / "compile" / "hostile.c"


def _missing() -> list[str]:
    """Programs that calls of code for Arm need and this machine lacks."""
    programs = {usual_driver(ARM): [usual_driver(ARM)]}
    programs["qemu-aarch64"] = ["qemu-aarch64", "qemu-aarch64-static"]
    return [name for name, found in programs.items() if not any(map(shutil.which, found))]


needs_arm = pytest.mark.skipif(
    bool(_missing()),
    reason=f"needs {' and '.join(_missing())} (Debian: gcc-aarch64-linux-gnu, qemu-user)",
)

# a command that starts an aarch64 Python with TVM
ARM_PYTHON = os.environ.get("TVMCONV_ARM_PYTHON", "")
needs_arm_python = pytest.mark.skipif(
    not ARM_PYTHON,
    reason="needs TVMCONV_ARM_PYTHON, a command for an aarch64 Python with TVM "
    "(tests/arm_python.sh makes one)",
)


def run_model(
    model: CompiledModel,
    folder: Path,
    *inputs: np.ndarray,
    options: Sequence[str] = (),
    caller: Path = CALL,
) -> list[np.ndarray]:
    """Save a model and have a program call it."""
    path = model.save(folder / "model.so")
    values = {info.name: x for info, x in zip(model.inputs, inputs, strict=True)}
    triple = model.machine.triple
    return run_emulated(path, triple, model.inputs, model.outputs, values, options, caller)


@dataclass
class _Layout:
    """A program as it grows: a call for each kernel, its first operand an input.

    Parameters
    ----------
    given
        Whether all other operands are inputs, too.
    """

    given: bool
    calls: list[Call]
    constants: list[Constant]
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    end: int = 0

    def add(self, symbol: str, operands: Sequence[np.ndarray]) -> None:
        *sources, result = operands
        inputs = len(sources) if self.given else 1
        places = []
        for index, array in enumerate(sources[:inputs]):
            places.append(Operand(Place.INPUT, 0, array.nbytes, len(self.inputs)))
            self.inputs[f"in{index}_{symbol}"] = array
        for array in sources[inputs:]:
            array = np.ascontiguousarray(array)
            self.constants.append(Constant(self.end, array))
            places.append(Operand(Place.CONSTANT, self.end, array.nbytes))
            self.end += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        places.append(Operand(Place.OUTPUT, 0, result.nbytes, len(self.outputs)))
        self.outputs[f"out_{symbol}"] = result
        self.calls.append(Call(KernelCall(symbol, symbol, "conv2d"), tuple(places)))


@dataclass(frozen=True)
class Core:
    """An emulated processor.

    Parameters
    ----------
    machine
        A CPU that code is compiled for.
    processors
        Options of qemu, by what reports call the processor that they name: code is compiled once
        and called on each.
    """

    machine: Machine
    processors: Mapping[str, tuple[str, ...]]


def vectors_of(bits: int) -> tuple[str, str]:
    """Options of qemu for a program with vectors of one length, which is 512 by default."""
    return "-cpu", f"max,sve-max-vq={bits // 128},sve-default-vector-length={bits // 8}"


# every algorithm, suite and network is tested on each
CORES = {
    "neon": Core(MACHINES["aarch64"].with_cores(2), {"neon": ()}),
    "a53": Core(MACHINES["cortex-a53"].with_cores(2), {"a53": ()}),
    "sve": Core(
        SCALABLE["aarch64+sve"].with_cores(2),
        {f"sve{bits}": vectors_of(bits) for bits in (128, 256, 512, 2048)},
    ),
}
each_core = pytest.mark.parametrize("core", CORES.values(), ids=CORES)


def check_kernels(
    kernels: Sequence[Kernel],
    machine: Machine,
    folder: Path,
    *processors: Sequence[str],
    caller: Path = CALL,
) -> None:
    """Call kernels of one machine, linked into one model, and compare with float64.

    It is called once for each processor, which options of qemu name; by default for one.
    """
    for results in run_kernels(kernels, machine, folder, *processors or ((),), caller=caller):
        for kernel, (difference, expected) in zip(kernels, results, strict=True):
            assert_close(kernel, difference, expected)


def relative_errors(
    kernels: Sequence[Kernel], core: Core, folder: Path
) -> Iterator[tuple[str, list[float]]]:
    """The largest error of each kernel, by the largest output of float64, on every processor."""
    found = run_kernels(kernels, core.machine, folder, *core.processors.values())
    for name, results in zip(core.processors, found, strict=True):
        yield name, [float(np.abs(d).max() / (np.abs(e).max() or 1.0)) for d, e in results]


def run_kernels(
    kernels: Sequence[Kernel],
    machine: Machine,
    folder: Path,
    *processors: Sequence[str],
    caller: Path = CALL,
) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
    """Call kernels, linked into one model; differences from float64, and that.

    A list for each processor, which options of qemu name.
    """
    arrays = [conv_arrays(kernel.workload) for kernel in kernels]
    operands = [kernel_operands(kernel, a) for kernel, a in zip(kernels, arrays, strict=True)]
    functions = [kernel.prim_func() for kernel in kernels]
    for results in run_functions(functions, operands, machine, folder, *processors, caller=caller):
        yield [
            differences(kernel, a, actual)
            for kernel, a, actual in zip(kernels, arrays, results, strict=True)
        ]


def run_functions(
    functions: Sequence[tvm.tirx.PrimFunc],
    operands: Sequence[Sequence[np.ndarray]],
    machine: Machine,
    folder: Path,
    *processors: Sequence[str],
    caller: Path = CALL,
) -> Iterator[list[np.ndarray]]:
    """Call scheduled functions, linked into one model, and give the last operand of each.

    A list for each processor, which options of qemu name.
    """
    layout = _Layout(caller is HOSTILE, [], [], {}, {})
    named = {}
    for index, (function, arrays) in enumerate(zip(functions, operands, strict=True)):
        symbol = f"kernel{index}"
        named[symbol] = function.with_attr("global_symbol", symbol)
        layout.add(symbol, arrays)
    infos = [
        tuple(TensorInfo(name, array.shape, array.dtype.name) for name, array in arrays.items())
        for arrays in (layout.inputs, layout.outputs)
    ]
    program = Program(*infos, tuple(layout.calls), layout.constants, layout.end, 0, 0)
    objects = compile_objects(tvm.IRModule(named), machine, program)
    features = required_features(machine)
    program = replace(program, workspace_bytes=max(objects.workspace.values(), default=0))
    exact = machine.exact_vector_bits
    facts = Facts("kernels", "0", machine.name, features, machine.cores, exact)
    path = folder / "kernels.so"
    with path.open("wb") as file:
        CompiledProgram(program, objects, facts, machine).file().write_to(file.fileno(), b"")
    for options in processors:
        yield run_emulated(path, machine.triple, *infos, layout.inputs, options, caller)
