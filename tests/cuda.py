"""Running one kernel of a GPU on the processor, from its CUDA source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from tests.strategies import conv_arrays
from tvmconv.core.launch import Launch
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.lab.emulation.module import EmulatedModule
from tvmconv.machines.cuda import MACHINES, CudaMachine
from tvmconv.measuring.reference import convolution
from tvmconv.tir.cuda.lowering import cuda_code
from tvmconv.tir.cuda.workspace_parameters import with_workspace

SM_80, SM_90 = MACHINES["cuda:sm_80"], MACHINES["cuda:sm_90"]


@dataclass(frozen=True)
class Source:
    """CUDA of one convolution, and the bytes of each parameter."""

    text: str
    launches: tuple[Launch, ...]
    shapes: tuple[tuple[int, ...], ...]


@cache
def source_of(kernel: Kernel) -> Source:
    func = kernel.prim_func("main")
    code = cuda_code(func, kernel.machine)
    shapes = tuple(tuple(int(n) for n in p.shape) for p in with_workspace(func).params)
    return Source(code.source, code.launches["main"], shapes)


def run_source(source: Source, given: list[np.ndarray], output: int) -> np.ndarray:
    """The output of all launches in order; memory between them begins as NaN."""
    buffers = [*given, *(np.full(shape, np.nan, "f4") for shape in source.shapes[len(given) :])]
    module = EmulatedModule(source.text)
    for launch in source.launches:
        arguments = [buffers[place] for place in launch.arguments]
        module.run(launch.kernel, launch.grid, launch.block, arguments, launch.dynamic_shared_bytes)
    return buffers[output]


def convolution_operands(kernel: Kernel) -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs in the kernel's order, its output last and no number yet; and the float64 result."""
    w, arrays = kernel.workload, conv_arrays(kernel.workload)
    given = [arrays.data, kernel.pack_weight(arrays.weight)]
    if w.has("bias"):
        given.append(arrays.bias)
    if w.has("add"):
        given.append(arrays.residual)
    expected = convolution(
        w,
        {"data": arrays.data, "residual": arrays.residual},
        {"weight": arrays.weight, "bias": arrays.bias},
    )
    return [*given, np.full(w.result_shape, np.nan, np.float32)], expected


def run_kernel(kernel: Kernel, source: Source | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Output and its float64 reference; ``source`` in place of the kernel's own."""
    given, expected = convolution_operands(kernel)
    return run_source(source or source_of(kernel), given, len(given) - 1), expected


def default_kernel(
    problem: str | Conv2dWorkload, algorithm: str, machine: CudaMachine, **knobs: object
) -> Kernel:
    """The analytic default with some knobs replaced."""
    workload = Conv2dWorkload.parse(problem) if isinstance(problem, str) else problem
    config = registry.default_config(algorithm, workload, machine).replace(**knobs)
    return make_kernel(workload, machine, algorithm, config)


def check_kernel(
    problem: str | Conv2dWorkload, algorithm: str, machine: CudaMachine = SM_90, **knobs: object
) -> Kernel:
    """Compare with float64: 1e-5 relative to the largest output; knobs replace the default's.

    Where operands are rounded, 1e-3: a product is off by 2 ** -11 of it for each, at most.
    """
    kernel = default_kernel(problem, algorithm, machine, **knobs)
    actual, expected = run_kernel(kernel)
    error = np.abs(actual - expected).max()
    tolerance = 1e-3 if kernel.expression.precision(kernel.config) else 1e-5
    assert error <= tolerance * max(np.abs(expected).max(), 1.0), (kernel, error)
    sizes = source_of(kernel).shapes[len(convolution_operands(kernel)[0]) :]
    found = 4 * sum(prod(shape) for shape in sizes)
    assert found == kernel.expression.workspace_bytes(kernel.workload, machine, kernel.config)
    return kernel
