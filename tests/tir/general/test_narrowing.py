"""Narrowed vectors: how many make one store, and what comes of the largest integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tests.assembly import assembly, matching
from tests.kernels import V3, V4, executed_on
from tests.layout import block
from tests.tir.rewrites import check, llvm, operator
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.arguments import Constants, constant_arguments
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.record import Machine
from tvmconv.measuring.integers import exact_output, random_integers
from tvmconv.operators.narrow import narrowed, nearest, scaled
from tvmconv.tir.general.narrowing import Narrowing
from tvmconv.tir.pipeline import compile_function

each_machine = pytest.mark.parametrize(
    "machine",
    [pytest.param(*executed_on(m).values, id=m.mcpu, marks=executed_on(m).marks) for m in (V3, V4)],
)
# bounds of a result less the zero point, and the zero point: the type's own, and tighter ones
LIMITS = [("uint8", (-100, 155, 100)), ("int8", (-138, 117, 10)), ("uint8", (-7, 3, 12))]
ENDS = [2**k + d for k in (0, 7, 8, 15, 16, 23, 24, 30) for d in (-1, 0, 1)] + [2**31 - 1]


def narrowing(count: int, vectors: int, lanes: int, dtype: str, source: str) -> Any:
    """``count`` elements narrowed, some vectors of them side by side in one iteration of a loop."""
    x = te.placeholder((count,), source, name="x")
    numbers = te.placeholder((3,), "float32", name="numbers")

    def result(i: Any) -> Any:
        whole = nearest(x[i]) if source == "float32" else x[i]
        return narrowed(whole, *(numbers[k] for k in range(3)), dtype)

    y = te.compute((count,), result, name="y")
    schedule = Schedule(te.create_prim_func([x, numbers, y]))
    (loop,) = schedule.get_loops("y")
    _, several, lane = schedule.split(loop, [None, vectors, lanes])
    schedule.unroll(several)
    schedule.vectorize(lane)
    return schedule.mod["main"]


@each_machine
@pytest.mark.parametrize(("dtype", "limits"), LIMITS)
@pytest.mark.parametrize("vectors", range(1, 7))
def test_integers_of_any_size_are_clipped(vectors, dtype, limits, machine: Machine):
    lanes = machine.lanes
    values = np.array([*ENDS, *(-end for end in ENDS), -(2**31), *range(-300, 300)], "int32")
    count = vectors * lanes * -(-len(values) // (vectors * lanes))
    x = np.resize(values, count)
    low, high, zero_point = limits
    y = tvm.runtime.empty((count,), dtype)
    code = compile_function(narrowing(count, vectors, lanes, dtype, "int32"), machine)
    code["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(np.array(limits, np.float32)), y)
    np.testing.assert_array_equal(y.numpy(), np.clip(x, low, high) + zero_point)


@each_machine
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_ties_are_rounded_to_even(lanes: int, machine: Machine):
    """In vectors that the processor has, and in scalars and others."""
    lanes = min(lanes, machine.lanes)
    tenths = np.arange(-3000, 3000).astype(np.float32) / 10
    large = np.array([2.0**31 - 128, -(2.0**31), -(2.0**40), -np.inf], np.float32)
    x = np.concatenate([tenths, np.float32(0.5) + np.arange(-300, 300, dtype=np.float32), large])
    x = np.resize(x, 16 * -(-len(x) // 16))
    y = tvm.runtime.empty(x.shape, "uint8")
    code = compile_function(narrowing(len(x), 1, lanes, "uint8", "float32"), machine)
    numbers = np.array([-100, 155, 100], np.float32)
    code["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(numbers), y)
    np.testing.assert_array_equal(y.numpy(), np.clip(np.rint(x), -100, 155) + 100)


@pytest.mark.parametrize("machine", [V3, V4], ids=lambda machine: machine.mcpu)
@pytest.mark.parametrize(("vectors", "stores"), [(1, 1), (2, 1), (3, 2), (4, 1), (6, 2), (8, 2)])
def test_four_vectors_make_one_store(vectors: int, stores: int, machine: Machine):
    function = narrowing(vectors * machine.lanes, vectors, machine.lanes, "uint8", "float32")
    code = assembly(compile_function(function, machine))
    groups = -(-vectors // 4)
    assert code.count("vpackuswb") == groups
    assert code.count("vcvtps2dq") == vectors
    assert not code.has(r"vpmovdb|vpshufb|vroundps|vrndscaleps")
    after = code.text[code.text.index("vpackuswb") :].splitlines()
    stored = matching(r"v(?:mov|extract)\w+\t.*%[xyz]mm\d+, .*\(%r\w+\)", after)
    assert len(stored) == stores


@each_machine
def test_sums_far_beyond_8_bits_are_clipped(machine: Machine):
    workload = Conv2dWorkload.parse("ic32ih6oc32kh3ph1:u8s8s32u8+bias")
    kernel = make_kernel(workload, machine, "direct")
    operands = random_integers(workload)
    given = operands.constants
    for factor in (10.0, 3e3):
        scale = given.scale * np.float32(factor)
        constants = Constants(given.weight, given.bias, given.zero_point, scale, given.numbers)
        expected = exact_output(workload, type(operands)(operands.data, constants, None))
        lanes = machine.channel_block
        arrays = [block(operands.data, lanes, 0), *constant_arguments(kernel, constants)]
        y = tvm.runtime.empty((1, 32 // lanes, 6, 6, lanes), "uint8")
        code = compile_function(kernel.prim_func(), machine)
        code["main"](*(tvm.runtime.tensor(array) for array in arrays), y)
        plain = y.numpy().transpose(0, 1, 4, 2, 3).reshape(expected.shape)
        np.testing.assert_array_equal(plain, expected)


def test_scales_with_which_sums_leave_32_bits_are_refused():
    workload = Conv2dWorkload.parse("ic32ih6oc32kh3ph1:u8s8s32u8+bias")
    given = random_integers(workload).constants
    constants = Constants(given.weight, given.bias, 0, given.scale * np.float32(1e6), given.numbers)
    with pytest.raises(WorkloadError, match="scales"):
        constant_arguments(make_kernel(workload, V3, "direct"), constants)


@each_machine
@pytest.mark.parametrize("lanes", [1, 2, 8, 16])
def test_products_by_fixed_point_are_rounded_once(lanes: int, machine: Machine):
    """The ends of 32 bits, and ties, which go up."""
    lanes, multipliers = min(lanes, machine.lanes), [2**31 - 1, 2**30, 2**30 + 1, 1, 0]
    whole = [*ENDS, *(-end for end in ENDS), -(2**31), *range(-40, 40)]
    cases = [(w, m, s) for w in whole for m in multipliers for s in (1, 2, 7, 30, 31)]
    cases += [(0, 0, 1)] * (-len(cases) % 16)
    x, m, s = (te.placeholder((len(cases),), "int32", name=name) for name in "xms")
    y = te.compute(x.shape, lambda i: scaled(x[i], m[i], s[i]), name="y")
    schedule = Schedule(te.create_prim_func([x, m, s, y]))
    (loop,) = schedule.get_loops("y")
    schedule.vectorize(schedule.split(loop, [None, lanes])[1])
    actual = tvm.runtime.empty((len(cases),), "int32")
    arrays = np.array(cases, np.int32).T.copy()
    code = compile_function(schedule.mod["main"], machine)
    code["main"](*(tvm.runtime.tensor(array) for array in arrays), actual)
    # exact integers of any length
    expected = [(w * m + (1 << (31 + s))) >> (32 + s) for w, m, s in cases]
    assert actual.numpy().tolist() == expected


def test_without_instructions_all_is_arithmetic():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "int8"), z: T.Buffer((3,), "int32")):
        y[T.Ramp(0, 1, 8)] = operator(
            "int8x8",
            "narrowed_int8",
            operator("int32x8", "nearest", x[T.Ramp(0, 1, 8)]),
            T.Broadcast(-3, 8),
            T.Broadcast(100, 8),
            T.Broadcast(3, 8),
        )
        x[0] = operator("float32", "whole", x[1])
        z[0] = operator("int32", "scaled", z[1], z[2], 7)

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "int8"), z: T.Buffer((3,), "int32")
    ):
        y[T.Ramp(0, 1, 8)] = T.Cast(
            "int8x8",
            T.min(
                T.max(
                    T.Cast(
                        "int32x8",
                        T.nearbyint(
                            T.max(x[T.Ramp(0, 1, 8)], T.Broadcast(T.float32(-(2.0**31)), 8))
                        ),
                    ),
                    T.Cast("int32x8", T.Broadcast(-3, 8)),
                ),
                T.Cast("int32x8", T.Broadcast(100, 8)),
            )
            + T.Cast("int32x8", T.Broadcast(3, 8)),
        )
        x[0] = llvm("float32", "roundeven", x[1])
        z[0] = (
            T.Cast("int32", T.Cast("int64", z[1]) * T.Cast("int64", z[2]) >> T.int64(32)) + 64
        ) >> 7

    check(Narrowing(), before, expected)
