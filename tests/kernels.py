"""Running one scheduled kernel, and looking into its loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import ir, tirx

from tests.asking import unnoted
from tests.layout import block, laid_out, unblock
from tests.strategies import ConvArrays, conv_arrays
from tvmconv.core.config import Config
from tvmconv.core.epilogue_op import EPILOGUE_KINDS
from tvmconv.core.errors import ConfigError
from tvmconv.core.stored_types import numpy_type
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.arguments import constant_arguments
from tvmconv.kernels.gemm import GemmKernel
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.gate import lacks
from tvmconv.machines.record import Machine
from tvmconv.machines.x86 import MACHINES
from tvmconv.measuring.integers import IntegerOperands
from tvmconv.measuring.operands import typed
from tvmconv.measuring.reference import convolution
from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.record_workspace import recorded
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.pipeline import compile_function, loop_passes, unchecked_calls

V3, V4 = MACHINES["x86-64-v3"], MACHINES["x86-64-v4"]


def executed_on(machine: Machine) -> Any:
    """The parameter of a test that executes code for a machine; skipped where the host cannot."""
    with unnoted():  # if one test is skipped where it cannot run, the others stay the same
        missing = lacks(machine)
    reason = f"{machine.name} needs {', '.join(missing)}, which this processor lacks"
    marks = [pytest.mark.skip(reason=reason)] if missing else []
    return pytest.param(machine, id=machine.isa, marks=marks)


# for tests that execute compiled code, and for tests that only read it
each_machine = pytest.mark.parametrize("machine", [executed_on(V3), executed_on(V4)])
each_target = pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])


def alternating_machines(
    names: str, values: Sequence[Any], machines: Sequence[Machine] = (V3, V4)
) -> Any:
    """Each value on one machine, the next value on the next machine; slow runs have all pairs.

    It is for values that describe layers and tiles, which schedules treat alike on all machines.
    """
    with unnoted():
        able = [machine for machine in machines if not lacks(machine)] or list(machines)
    found = []
    for index, value in enumerate(values):
        for machine in machines:
            parameter = executed_on(machine)
            marks = [] if machine is able[index % len(able)] else [pytest.mark.slow]
            given = value if "," in names else (value,)
            label = "-".join(str(each) for each in (*given, parameter.id))
            found.append(pytest.param(machine, *given, id=label, marks=[*parameter.marks, *marks]))
    return pytest.mark.parametrize(f"machine, {names}", found)


def widest(machines: Sequence[Machine]) -> Machine:
    """The last one that this host executes, for tests that need one only."""
    return [machines[0], *(m for m in machines if not lacks(m))][-1]


_PARAMETERS = {"leakyrelu": "(0.25)", "clip": "(0,6)", "hardsigmoid": "(0.25,0.5)"}
STEPS = [kind + _PARAMETERS.get(kind, "") for kind in EPILOGUE_KINDS]
# held by surplus lanes: nothing may read it as data
SURPLUS = 1e3


def compile_kernel(kernel: Kernel) -> Any:
    return compile_function(kernel.prim_func(), kernel.machine)


def callable_kernel(
    kernel: Kernel, draft: bool = False
) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    """A function of a kernel's operands, the output last, that returns the output.

    It compares shapes and types itself. TVM's checks of arguments are much of a small kernel's
    code, and LLVM would compile them for every test.
    """
    function = kernel.prim_func()
    run = compile_function(function, kernel.machine, draft, unchecked_calls)["main"]
    expected = [(tuple(map(int, p.shape)), str(p.dtype)) for p in function.params]

    def call(arrays: Sequence[np.ndarray]) -> np.ndarray:
        assert [(array.shape, str(array.dtype)) for array in arrays] == expected, kernel
        tensors = [tvm.runtime.tensor(array) for array in arrays]
        run(*tensors)
        return tensors[-1].numpy()

    return call


def default_config(algorithm: str, workload: Conv2dWorkload, machine: Machine, **knobs: Any) -> Any:
    """The analytic default with some knobs replaced."""
    return registry.default_config(algorithm, workload, machine).replace(**knobs)


def scalable_kernel(workload: Conv2dWorkload, machine: Machine, algorithm: str) -> Kernel:
    """The kernel of scalable vectors that is estimated fastest: the default may be NEON code."""
    module = registry.schedule(algorithm, machine)
    assert module is not None
    offered = [c for c in registry.offers(algorithm, workload, machine) if c["vectors"]]
    config = min(offered, key=lambda c: module.predicted_cycles(workload, machine, c))
    return make_kernel(workload, machine, algorithm, config)


def dense(workload: Conv2dWorkload) -> bool:
    """Layers whose output channels share inputs, as some algorithms need."""
    return not workload.is_depthwise


def kernel_operands(kernel: Kernel, arrays: ConvArrays) -> list[np.ndarray]:
    """The function's operands, its output last: in the kernel's layout, NaN before the call."""
    w, lanes, types = kernel.workload, kernel.machine.channel_block, kernel.workload.types
    data = laid_out(arrays.data, w, lanes, SURPLUS)
    weight = typed(arrays.weight, types.weight)
    arguments = [typed(data, types.data), kernel.pack_weight(weight)]
    if w.is_matrix:
        arguments += [arrays.bias] if w.has("bias") else []
        arguments += [arrays.residual[:, :, 0, 0].copy()] if w.has("add") else []
        return [*arguments, np.full((w.batch, w.out_channels), np.nan, np.float32)]
    planes, channels, height, width = w.result_shape
    blocks = kernel.machine.blocks(channels)
    if w.has("bias"):
        bias = np.zeros(blocks * lanes, np.float32)
        bias[: w.out_channels] = arrays.bias
        arguments.append(bias.reshape(blocks, lanes))
    plain = kernel.expression.plain_output
    if w.has("add"):
        residual = arrays.residual if plain else block(arrays.residual, lanes, SURPLUS)
        arguments.append(typed(residual, types.output))
    shape = w.result_shape if plain else (planes, blocks, height, width, lanes)
    return [*arguments, np.full(shape, np.nan, numpy_type(types.output))]


def integer_arguments(kernel: Kernel, operands: IntegerOperands) -> list[np.ndarray]:
    """The operands of an INT8 layer's function, its output last.

    Surplus lanes hold numbers that nothing may read as data.
    """
    w, lanes = kernel.workload, kernel.machine.channel_block
    data = laid_out(operands.data, w, lanes, 77)
    arrays = [data, *constant_arguments(kernel, operands.constants)]
    if operands.residual is not None:
        arrays.append(block(operands.residual, lanes, 99))
    planes, channels, height, width = w.result_shape
    shape = (planes, kernel.machine.blocks(channels), height, width, lanes)
    return [*arrays, np.full(shape, 55, w.types.output)]


def run_kernel(kernel: Kernel, arrays: ConvArrays, draft: bool = False) -> np.ndarray:
    """The kernel's output in its own layout."""
    return callable_kernel(kernel, draft)(kernel_operands(kernel, arrays))


def run_by_threads(kernel: Kernel, arrays: ConvArrays, repeats: int = 3) -> list[np.ndarray]:
    """Outputs of some calls by one thread, then of as many by two."""
    use = tvm.get_global_func("runtime.config_threadpool")
    call, results = callable_kernel(kernel), []
    try:
        for threads in (1, 2):
            use(1, threads)
            results += [call(kernel_operands(kernel, arrays)) for _ in range(repeats)]
    finally:
        use(0, 0)
    return results


def allocated(kernel: Kernel) -> int:
    """Bytes that the compiled function takes from the workspace pool."""
    with recorded() as sizes:
        compile_kernel(kernel)
    return sum(sizes.values())


def tasks(kernel: Kernel) -> list[int]:
    """How many tasks each parallel loop has."""
    loops = nodes(lowered(kernel), tirx.For)
    return [int(loop.extent) for loop in loops if loop.kind == tirx.ForKind.PARALLEL]


def errors(kernel: Kernel, draft: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Output less its float64 reference, and that; surplus lanes must have stayed finite."""
    arrays = conv_arrays(kernel.workload)
    return differences(kernel, arrays, run_kernel(kernel, arrays, draft))


def differences(
    kernel: Kernel, arrays: ConvArrays, actual: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`errors`, of an output in the kernel's layout."""
    workload = kernel.workload
    expected = convolution(
        workload,
        {"data": arrays.data, "residual": arrays.residual},
        {"weight": arrays.weight, "bias": arrays.bias},
    )
    assert np.isfinite(actual).all(), (workload, kernel.config)
    plain = kernel.expression.plain_output
    return (actual if plain else unblock(actual, workload.out_channels)) - expected, expected


def check_kernel(
    workload: Conv2dWorkload, machine: Machine, algorithm: str, config: Any = None
) -> None:
    """Compare with float64: 1e-5 relative to the largest output."""
    kernel = make_kernel(workload, machine, algorithm, config)
    assert_close(kernel, *errors(kernel))


def any_config(algorithm: str, workload: Conv2dWorkload, machine: Machine, seed: int) -> Config:
    """A random config that the schedule's ``check`` allows."""
    module, choose = registry.schedule(algorithm, machine), random.Random(seed)
    assert module is not None
    knobs = module.KNOBS.values(workload, machine)
    for _ in range(400):
        config = Config.of(**{name: choose.choice(values) for name, values in knobs.items()})
        try:
            module.check(workload, machine, config)
        except ConfigError:
            continue
        return config
    return registry.default_config(algorithm, workload, machine)


def check_announced(
    algorithm: str, workload: Conv2dWorkload, machine: Machine, config: Any = None
) -> None:
    """Compare with float64: within four times the error that the algorithm announces."""
    kernel = make_kernel(workload, machine, algorithm, config)
    difference, expected = errors(kernel)
    error = np.abs(difference).max()
    allowed = 4 * kernel.expression.error_estimate(workload, machine, kernel.config)
    # activations that flatten large sums shrink the reference, not the error
    limit = allowed * max(np.abs(expected).max(), 1.0) + 2e-6
    assert error <= limit, (str(workload), str(kernel.config), error, limit)


def assert_close(kernel: Kernel, difference: np.ndarray, expected: np.ndarray) -> None:
    """1e-5 relative to the largest output, and the rounding to its type."""
    error = np.abs(difference).max()
    limit = 1e-5 + kernel.workload.types.rounding
    assert error <= limit * max(np.abs(expected).max(), 1.0), (kernel, error)


def lowered(kernel: Kernel | GemmKernel) -> Any:
    """The function as loops: no blocks, and done what the schedule's annotations ask for."""
    return transformed(kernel.prim_func(), *loop_passes())


def nodes(func: Any, kind: Any) -> list[Any]:
    """The nodes of a kind in a function, the inner ones first."""
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (kind, found.append))
    return found


def predicates(kernel: Kernel) -> list[Any]:
    """The reads that are tested one by one."""
    return [call for call in nodes(lowered(kernel), ir.Call) if is_select(call)]


def factors(kernel: Kernel) -> set[float]:
    """The absolute values of the constants that a kernel multiplies by."""
    products = nodes(lowered(kernel), tirx.Mul)
    sides = [side for product in products for side in (product.a, product.b)]
    return {abs(float(side.value)) for side in sides if isinstance(side, tirx.FloatImm)}


def is_multiply_add(store: Any) -> bool:
    """``x = x + a * b``."""
    return isinstance(store.value, tirx.Add) and isinstance(store.value.b, tirx.Mul)


def nests(func: Any, wanted: Callable[[Any], bool]) -> list[str]:
    """Loops around each wanted store, outermost first; stores of border copies included."""
    kinds = {int(kind): kind.name.lower() for kind in tirx.ForKind}
    found: list[str] = []

    def visit(stmt: Any, around: tuple[str, ...]) -> None:
        if isinstance(stmt, tirx.For):
            visit(stmt.body, (*around, f"{kinds[int(stmt.kind)]} {stmt.extent}"))
        elif isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                visit(part, around)
        elif isinstance(stmt, tirx.IfThenElse):
            visit(stmt.then_case, around)
            if stmt.else_case is not None:
                visit(stmt.else_case, around)
        elif isinstance(stmt, tirx.BufferStore):
            if wanted(stmt):
                found.append(", ".join(around))
        else:
            assert isinstance(stmt, tirx.AllocBuffer | tirx.Evaluate), type(stmt)

    visit(func.body, ())
    return list(dict.fromkeys(found))


def reduction_nests(kernel: Kernel) -> list[str]:
    """Loops around each FMA, outermost first."""
    return nests(lowered(kernel), is_multiply_add)
