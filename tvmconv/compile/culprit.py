"""The part of a module on which a compiler pass fails, found by trying the parts one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tvmconv.core.decision import KernelCall
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.record import processor
from tvmconv.tvm_api.types import Binding, IRModule, Pass, PrimFunc

Part = TypeVar("Part")


@compiler_lock()
def failing_kernels(mod: IRModule, calls: Iterable[KernelCall], machine: Device) -> str:
    """A phrase with the layers whose function in a lowered module fails to compile."""
    from tvmconv.kernels.rules import schedule_function
    from tvmconv.tir.cuda.lowering import cuda_code
    from tvmconv.tir.pipeline import c_calls, compile_function
    from tvmconv.tvm_api import tirx

    def attempt(function: PrimFunc) -> None:
        scheduled = schedule_function(function, machine).with_attr("global_symbol", "kernel")
        if isinstance(machine, CudaMachine):
            cuda_code(scheduled, machine)
        else:
            compile_function(scheduled, processor(machine), calls=c_calls)

    symbols = [
        var.name_hint
        for var, function in mod.functions_items()
        if isinstance(function, tirx.PrimFunc) and _fails(attempt, function)
    ]
    layers = [f"{call.layer or call.kernel!r} ({call.operator})" for call in calls
              if call.kernel in symbols]  # fmt: skip
    names = ", ".join(dict.fromkeys(layers or symbols))
    return f"generating code for {names}" if names else "generating code"


def failing_operators(mod: IRModule, layer_of: Callable[[str], str], passes: Pass) -> str:
    """A phrase with the layers whose Relax operator in a straight-line ``main`` fails in a pass.

    ``layer_of`` describes the layer that is bound to a variable's name.
    """
    from tvmconv.tvm_api.ir import Call, Op

    names = [
        layer_of(str(binding.var.name))
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, Call)
        and isinstance(binding.value.op, Op)
        and not binding.value.op.name.startswith("relax.call_tir")
        and _fails(passes, _alone(binding))
    ]
    return f"lowering {', '.join(dict.fromkeys(names))}" if names else "lowering"


def _alone(binding: Binding) -> IRModule:
    """A module with one call alone, on parameters."""
    from tvmconv.tvm_api import relax

    builder = relax.BlockBuilder()
    free = list(dict.fromkeys(relax.analysis.free_vars(binding.value)))
    with builder.function("main", free):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(binding.value))
        builder.emit_func_output(result)
    return builder.finalize()


def _fails(attempt: Callable[[Part], object], part: Part) -> bool:
    try:
        attempt(part)
    except Exception:  # any error that made the whole module fail
        return True
    return False
