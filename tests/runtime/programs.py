"""Small Relax programs, compiled by hand, that the runtime tests run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.model import CompiledModel

ROWS, COLUMNS = 24, 40
WEIGHT = np.random.default_rng(7).standard_normal((COLUMNS, COLUMNS)).astype("float32")


def compile_program(
    module: Any,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    *,
    machine: Machine | None = None,
    calls: Sequence[KernelCall] = (),
    threads: int = 1,
    name: str = "program",
) -> CompiledModel:
    from tests.relax_module import compiled

    machine = machine or resolve_machine("native", threads)
    return compiled(module, machine, inputs, outputs, calls, name, "ab" * 32)


def dense_program(weight: np.ndarray = WEIGHT) -> Any:
    """hidden = relu(x @ weight) + y, total = sum of its rows."""
    from tvm import relax

    builder = relax.BlockBuilder()
    kind = relax.TensorType((ROWS, COLUMNS), "float32")
    x, y = relax.Var("x", kind), relax.Var("y", kind)
    with builder.function("main", [x, y]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, relax.const(weight)))
            hidden = builder.emit(relax.op.add(relax.op.nn.relu(product), y))
            total = builder.emit(relax.op.sum(hidden, axis=[1]))
            result = builder.emit_output(relax.Tuple([hidden, total]))
        builder.emit_func_output(result)
    return builder.get()


DENSE_INPUTS = (
    TensorInfo("x", (ROWS, COLUMNS), "float32"),
    TensorInfo("y", (ROWS, COLUMNS), "float32"),
)
DENSE_OUTPUTS = (
    TensorInfo("hidden", (ROWS, COLUMNS), "float32"),
    TensorInfo("total", (ROWS,), "float32"),
)
DENSE_CALLS = (
    KernelCall("fc", "matmul", "matmul", flops=2 * ROWS * COLUMNS * COLUMNS, bytes=14080),
    KernelCall("act", "relu", "relu"),
    KernelCall("sum", "add", "add"),
    KernelCall("reduce", "sum", "sum"),
)


def dense_inputs(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {t.name: generator.standard_normal(t.shape).astype(t.dtype) for t in DENSE_INPUTS}


def dense_reference(inputs: dict[str, np.ndarray], weight: np.ndarray = WEIGHT) -> np.ndarray:
    product = inputs["x"].astype(np.float64) @ weight.astype(np.float64)
    return np.maximum(product, 0) + inputs["y"]


def dense_model(threads: int = 1, weight: np.ndarray = WEIGHT) -> CompiledModel:
    return compile_program(
        dense_program(weight),
        DENSE_INPUTS,
        DENSE_OUTPUTS,
        calls=DENSE_CALLS,
        threads=threads,
        name="dense",
    )


def unary_model(make: Any, shape: tuple[int, ...], outputs: int = 1) -> CompiledModel:
    """A program of one float32 input; ``make`` builds the result from the builder and input."""
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(make(builder, x))
        builder.emit_func_output(result)
    tensors = tuple(TensorInfo(f"out{i}", shape, "float32") for i in range(outputs))
    return compile_program(builder.get(), (TensorInfo("x", shape, "float32"),), tensors)


BUSY_ROWS, BUSY_LENGTH, BUSY_TIMES = 8, 200_000, 256


def busy_model(threads: int) -> CompiledModel:
    """The sum of squares of every row, one parallel task a row, long enough to be observed.

    Long enough, too, for a worker to wake up on a busy machine: the calling thread takes over
    parts that nobody has begun.
    """
    import tvm
    from tvm import relax, te

    def squares(x: Any) -> Any:
        k = te.reduce_axis((0, BUSY_LENGTH), "k")
        again = te.reduce_axis((0, BUSY_TIMES), "again")
        return te.compute(
            (BUSY_ROWS,), lambda i: te.sum(x[i, k] * x[i, k], (again, k)), name="squares"
        )

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((BUSY_ROWS, BUSY_LENGTH), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.call_te(squares, x))
        builder.emit_func_output(result)
    schedule = tvm.s_tir.Schedule(builder.get())
    schedule.work_on("squares")
    schedule.parallel(schedule.get_loops(schedule.get_sblock("squares"))[0])
    return compile_program(
        schedule.mod,
        (TensorInfo("x", (BUSY_ROWS, BUSY_LENGTH), "float32"),),
        (TensorInfo("squares", (BUSY_ROWS,), "float32"),),
        threads=threads,
        name=f"busy{threads}",
    )
