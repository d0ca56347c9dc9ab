"""Tables of bytes: values for vectors of any length, and by which instructions they are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.script import tirx as T

from tests.assembly import assembly
from tests.emulating import needs_arm, run_functions
from tests.kernels import V3, V4, executed_on
from tests.tir.rewrites import check, operator
from tvmconv.kernels.rules import schedule_function
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.operators.lookup import lookup
from tvmconv.tir.general.byte_tables import ByteTables
from tvmconv.tir.pipeline import compile_function

ICELAKE = resolve_machine("llvm -mcpu=icelake-server", 1)
N1 = MACHINES["neoverse-n1"]


def looked_up(count: int, source: str, dtype: str, machine: Machine) -> Any:
    x = te.placeholder((count,), source, name="x")
    table = te.placeholder((256,), dtype, name="table")
    function = te.create_prim_func([x, table, lookup(x, table)])
    return schedule_function(function.with_attr("global_symbol", "main"), machine)


def operands(count: int, source: str, dtype: str) -> list[np.ndarray]:
    """Data, a table in which adjacent values are unrelated, and memory for the result."""
    generator = np.random.default_rng(count)
    bits = np.resize(generator.permutation(256).astype(np.uint8), count)
    table = generator.permutation(256).astype(np.uint8).view(dtype)
    return [bits.view(source), table, np.zeros(count, dtype)]


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(*executed_on(m).values, id=m.mcpu, marks=executed_on(m).marks)
        for m in (V3, V4, ICELAKE)
    ],
)
@pytest.mark.parametrize(("source", "dtype"), [("uint8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("count", [5, 16, 48, 784, 1024, 1027])
def test_values_are_those_of_the_table(count: int, source: str, dtype: str, machine: Machine):
    data, table, result = operands(count, source, dtype)
    tensors = [tvm.runtime.tensor(array) for array in (data, table, result)]
    compile_function(looked_up(count, source, dtype, machine), machine)["main"](*tensors)
    np.testing.assert_array_equal(tensors[-1].numpy(), table[data.view(np.uint8)])


@needs_arm
def test_arm_finds_the_same(tmp_path):
    counts = (16, 784, 1027)
    functions = [looked_up(count, "int8", "int8", N1) for count in counts]
    given = [operands(count, "int8", "int8") for count in counts]
    (results,) = run_functions(functions, given, N1, tmp_path, ())
    for (data, table, _), result in zip(given, results, strict=True):
        np.testing.assert_array_equal(result, table[data.view(np.uint8)])


@pytest.mark.parametrize(
    ("machine", "instruction", "count"),
    [(V3, "vpshufb", 16), (V4, "vpshufb", 32), (ICELAKE, r"vperm[it]2b", 2), (N1, r"tbl", 4)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_bytes_are_permuted(machine: Machine, instruction: str, count: int):
    function = looked_up(64 * 100, "uint8", "uint8", machine)
    found = assembly(compile_function(function, machine)).count(instruction)
    # a loop may be unrolled
    assert found >= count and found % count == 0


def test_without_an_instruction_values_are_loads():
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((17,), "uint8"), table: T.Buffer((256,), "int8"), y: T.Buffer((17,), "int8")
    ):
        y[T.Ramp(0, 1, 16)] = operator(
            "int8x16", "found_int8", T.Broadcast(table[0], 16), x[T.Ramp(0, 1, 16)]
        )
        y[16] = operator("int8", "found_int8", table[0], x[16])

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((17,), "uint8"), table: T.Buffer((256,), "int8"), y: T.Buffer((17,), "int8")
    ):
        y[T.Ramp(0, 1, 16)] = table[T.Cast("int32x16", x[T.Ramp(0, 1, 16)])]
        y[16] = table[T.Cast("int32", x[16])]

    check(ByteTables(), before, expected)
