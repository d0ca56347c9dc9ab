"""Small kernels whose run time depends on one property of the CPU.

They are TIR compiled for the target's instruction set. They need no C compiler, and measure the
instructions that convolutions use.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tvmconv.machines.gate import GuardedCode
from tvmconv.machines.llvm_options import llvm_options
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import PrimFunc

# links of the chain in one iteration, which hide the loop's overhead
_LINKS = 16


@lru_cache(maxsize=16)
def multiply_adds(machine: Machine, threads: int, chains: int, steps: int) -> GuardedCode:
    """``chains`` independent chains of ``steps`` vector FMAs; the loop contains nothing else.

    One chain shows the latency. Latency times units chains show the rate. The function is
    ``main(factors, out)``, FP32 of ``(2, lanes)`` and ``(threads, chains * lanes)``.
    """
    from tvmconv.tvm_api.script import T

    lanes, loop = machine.lanes, _threads_loop(threads)

    # acc = acc * a + b cannot be simplified, because neither factor is a constant. The chain
    # through acc prevents LLVM from hoisting the product.
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def main(
        factors: T.Buffer((2, lanes), "float32"),  # type: ignore[valid-type]
        out: T.Buffer((threads, chains * lanes), "float32"),  # type: ignore[valid-type]
    ) -> None:
        for t in loop(threads):
            with T.sblock("fma"):
                vt = T.axis.spatial(threads, t)
                T.reads(factors[0:2, 0:lanes])
                T.writes(out[vt, 0 : chains * lanes])
                acc = T.alloc_buffer((chains, lanes), "float32")
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        acc[c, v] = T.float32(c)
                for _ in T.serial(steps):
                    for c in T.unroll(chains):
                        for v in T.vectorized(lanes):
                            acc[c, v] = acc[c, v] * factors[0, v] + factors[1, v]
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        out[vt, c * lanes + v] = acc[c, v]

    return _built(main, machine)


@lru_cache(maxsize=16)
def reads(machine: Machine, threads: int, chains: int, steps: int, passes: int) -> GuardedCode:
    """Sums of an array that is read in order, ``passes`` times.

    The function is ``main(data, out)``, int32 of ``(threads, steps, chains * lanes)`` and
    ``(threads, chains * lanes)``. More units add integers than load them.
    """
    from tvmconv.tvm_api.script import T

    lanes, loop = machine.lanes, _threads_loop(threads)

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def main(
        data: T.Buffer((threads, steps, chains * lanes), "int32"),  # type: ignore[valid-type]
        out: T.Buffer((threads, chains * lanes), "int32"),  # type: ignore[valid-type]
    ) -> None:
        for t in loop(threads):
            with T.sblock("read"):
                vt = T.axis.spatial(threads, t)
                T.reads(data[vt, 0:steps, 0 : chains * lanes])
                T.writes(out[vt, 0 : chains * lanes])
                acc = T.alloc_buffer((chains, lanes), "int32")
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        acc[c, v] = T.int32(0)
                for _ in T.serial(passes):
                    for i in T.serial(steps):
                        for c in T.unroll(chains):
                            for v in T.vectorized(lanes):
                                acc[c, v] = acc[c, v] + data[vt, i, c * lanes + v]
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        out[vt, c * lanes + v] = acc[c, v]

    return _built(main, machine)


@lru_cache(maxsize=16)
def broadcasts(machine: Machine, chains: int, steps: int, passes: int) -> GuardedCode:
    """Values of an array, each broadcast to a vector and added.

    The function is ``main(data, start, out)``, int32 of ``(steps, chains)`` and twice
    ``(chains, lanes)``. If all lanes started equal, LLVM would compute scalars.
    """
    from tvmconv.tvm_api.script import T

    lanes = machine.lanes

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def main(
        data: T.Buffer((steps, chains), "int32"),  # type: ignore[valid-type]
        start: T.Buffer((chains, lanes), "int32"),  # type: ignore[valid-type]
        out: T.Buffer((chains, lanes), "int32"),  # type: ignore[valid-type]
    ) -> None:
        with T.sblock("broadcast"):
            T.reads(data[0:steps, 0:chains], start[0:chains, 0:lanes])
            T.writes(out[0:chains, 0:lanes])
            acc = T.alloc_buffer((chains, lanes), "int32")
            for c in T.unroll(chains):
                for v in T.vectorized(lanes):
                    acc[c, v] = start[c, v]
            for _ in T.serial(passes):
                for i in T.serial(steps):
                    for c in T.unroll(chains):
                        for v in T.vectorized(lanes):
                            acc[c, v] = acc[c, v] + data[i, c]
            for c in T.unroll(chains):
                for v in T.vectorized(lanes):
                    out[c, v] = acc[c, v]

    return _built(main, machine)


@lru_cache(maxsize=4)
def cycle_counter(machine: Machine, steps: int) -> tuple[GuardedCode, int]:
    """A chain of integer operations of one cycle each on every CPU, and the cycles of a call.

    The function is ``main(factors, out)``, int32 of ``(2,)`` and ``(1,)``.
    """
    from tvmconv.tvm_api.script import T

    links = _LINKS

    # exclusive or and addition do not distribute: the chain cannot be shortened
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def main(
        factors: T.Buffer((2,), "int32"),  # type: ignore[valid-type]
        out: T.Buffer((1,), "int32"),  # type: ignore[valid-type]
    ) -> None:
        with T.sblock("chain"):
            T.reads(factors[0:2])
            T.writes(out[0])
            acc = T.alloc_buffer((1,), "int32")
            acc[0] = T.int32(0)
            for _ in T.serial(steps):
                for _ in T.unroll(links):
                    acc[0] = T.bitwise_xor(acc[0], factors[0]) + factors[1]
            out[0] = acc[0]

    return _built(main, machine), 2 * links * steps


def _threads_loop(threads: int) -> Any:
    from tvmconv.tvm_api.script import T

    return T.parallel if threads > 1 else T.serial


def _built(function: PrimFunc, machine: Machine) -> GuardedCode:
    from tvmconv.tvm_api import ir, tirx
    from tvmconv.tvm_api.target import Target

    target = Target(machine.tvm_target())
    with llvm_options(machine):
        return GuardedCode(tirx.build(ir.IRModule({"main": function}), target=target), machine)
