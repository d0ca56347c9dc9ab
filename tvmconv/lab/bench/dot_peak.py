"""The peak rate of dot products of packed types, measured by chains of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.lab.bench.peak import fma_runner
from tvmconv.machines.gate import GuardedCode
from tvmconv.machines.multiply import Multiply, multiply_of_bytes, multiply_of_types
from tvmconv.machines.probe import CHAINS
from tvmconv.machines.record import Machine
from tvmconv.machines.tile_unit import TileUnit
from tvmconv.tir.annotations import TILE

_STEPS, _TILE_STEPS = 100_000, 10_000


def peak_runner(
    machine: Machine, threads: int, types: DataTypes = FLOAT32
) -> tuple[Callable[[], None], int]:
    """One call of the probe of a layer's types, and the operations it executes."""
    if types.is_integer:
        return dot_runner(machine, threads)
    multiply = multiply_of_types(types, machine)
    if multiply.is_packed:
        return _chain_runner(machine, threads, multiply)
    return fma_runner(machine, threads)


def dot_runner(machine: Machine, threads: int) -> tuple[Callable[[], None], int]:
    """One call of the probe of INT8, and its operations, two for each product of two elements.

    The instruction multiplies 8-bit data by 8-bit weights. Where a product needs an addition
    (``vpmaddwd``), the probe has both. On AMX it is the tile multiplication.
    """
    if machine.tiles:
        return _tile_runner(machine, machine.tiles, threads)
    return _chain_runner(machine, threads, multiply_of_bytes(machine))


def _chain_runner(machine: Machine, threads: int, dot: Multiply) -> tuple[Callable[[], None], int]:
    """One call of the probe of an instruction on vectors, and its operations."""
    from tvmconv.tvm_api import runtime
    from tvmconv.tvm_runtime.threads import call

    function = _chains(machine, threads, dot)["main"]
    dwords = runtime.empty((CHAINS * machine.lanes,), "int32")
    result = runtime.empty((threads, CHAINS * machine.lanes), dot.accumulator)
    operations = threads * _STEPS * CHAINS * machine.lanes * dot.width * 2
    return lambda: call(threads, function, dwords, result), operations


def dword_steps(machine: Machine) -> tuple[Callable[[], None], float]:
    """One call of the probe by one thread, and its steps for one vector of accumulators."""
    run, _ = dot_runner(replace(machine, tiles=None), 1)
    return run, float(_STEPS * CHAINS)


@lru_cache(maxsize=4)
def _chains(machine: Machine, threads: int, dot: Multiply) -> GuardedCode:
    from tvmconv.operators.products import operator_of
    from tvmconv.tir.pipeline import compile_function
    from tvmconv.tvm_api.script import T

    lanes = machine.lanes
    loop = T.parallel if threads > 1 else T.serial
    name, kind = operator_of(dot.name), dot.accumulator

    # the accumulator is also a factor, so that each step depends on the previous one
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def main(
        dwords: T.Buffer((CHAINS * lanes,), "int32"),  # type: ignore[valid-type]
        out: T.Buffer((threads, CHAINS * lanes), kind),  # type: ignore[valid-type]
    ) -> None:
        for t in loop(threads):
            with T.sblock("dot"):
                vt = T.axis.spatial(threads, t)
                T.reads(dwords[0 : CHAINS * lanes])
                T.writes(out[vt, 0 : CHAINS * lanes])
                acc = T.alloc_buffer((CHAINS, lanes), kind)
                for c in T.unroll(CHAINS):
                    for v in T.vectorized(lanes):
                        acc[c, v] = T.reinterpret(kind, dwords[c * lanes + v])
                for _ in T.serial(_STEPS):
                    for c in T.unroll(CHAINS):
                        for v in T.vectorized(lanes):
                            acc[c, v] = acc[c, v] + T.call_intrin(
                                kind, name, T.reinterpret("int32", acc[c, v]), dwords[v]
                            )
                for c in T.unroll(CHAINS):
                    for v in T.vectorized(lanes):
                        out[vt, c * lanes + v] = acc[c, v]

    return compile_function(main, machine)


def _tile_runner(machine: Machine, unit: TileUnit, threads: int) -> tuple[Callable[[], None], int]:
    from tvmconv.tvm_api import runtime
    from tvmconv.tvm_runtime.threads import call

    function = _tile_chains(machine, unit, threads)["main"]
    data = runtime.empty((2, unit.rows, unit.row_bytes), "uint8")
    weight = runtime.empty((2, unit.row_bytes // 4, unit.rows, 4), "int8")
    result = runtime.empty((threads, 4, unit.rows, unit.rows), "int32")
    operations = threads * _TILE_STEPS * 4 * unit.rows**2 * unit.row_bytes * 2
    return lambda: call(threads, function, data, weight, result), operations


@lru_cache(maxsize=4)
def _tile_chains(machine: Machine, unit: TileUnit, threads: int) -> GuardedCode:
    """Four tiles of accumulators; each step loads two tiles of data and two of weights from L1."""
    from tvmconv.tir.pipeline import compile_function
    from tvmconv.tvm_api.script import T

    rows, size = unit.rows, unit.row_bytes
    loop = T.parallel if threads > 1 else T.serial
    mark = {TILE: 1}

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def main(
        data: T.Buffer((2, rows, size), "uint8"),  # type: ignore[valid-type]
        weight: T.Buffer((2, size // 4, rows, 4), "int8"),  # type: ignore[valid-type]
        out: T.Buffer((threads, 4, rows, rows), "int32"),  # type: ignore[valid-type]
    ) -> None:
        for t in loop(threads):
            with T.sblock("tiles"):
                vt = T.axis.spatial(threads, t)
                T.reads(data[0:2, 0:rows, 0:size], weight[0:2, 0 : size // 4, 0:rows, 0:4])
                T.writes(out[vt, 0:4, 0:rows, 0:rows])
                acc = T.alloc_buffer((4, rows, rows), "int32", scope="local")
                for c in T.unroll(4):
                    for p in T.serial(rows, annotations=mark):
                        for run in T.serial(rows):
                            acc[c, p, run] = 0
                for _ in T.serial(_TILE_STEPS):
                    for c in T.unroll(4):
                        for p in T.serial(rows, annotations=mark):
                            for run, word, byte in T.grid(rows, size // 4, 4):
                                acc[c, p, run] = acc[c, p, run] + T.Cast(
                                    "int32", data[c // 2, p, word * 4 + byte]
                                ) * T.Cast("int32", weight[c % 2, word, run, byte])
                for c in T.unroll(4):
                    for p in T.serial(rows, annotations=mark):
                        for run in T.serial(rows):
                            out[vt, c, p, run] = acc[c, p, run]

    return compile_function(main, machine)
