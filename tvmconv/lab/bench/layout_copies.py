"""Calls that convert a layer's input and output, as a model with plain inputs and outputs does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.machines.device import Device
from tvmconv.machines.record import processor


def to_blocks(source: Any, target: Any, machine: Device, threads: int) -> Callable[[], None]:
    """A call that converts a tensor from NCHW to channel blocks."""
    from tvmconv.operators.layout import to_blocked

    return _copy(lambda x: to_blocked(x, machine.channel_block), source, target, machine, threads)


def from_blocks(source: Any, target: Any, machine: Device, threads: int) -> Callable[[], None]:
    """A call that converts a tensor from channel blocks to NCHW."""
    from tvmconv.operators.layout import from_blocked

    channels = int(target.shape[1])
    return _copy(lambda x: from_blocked(x, channels), source, target, machine, threads)


def _copy(
    expression: Callable[[Any], Any], source: Any, target: Any, machine: Device, threads: int
) -> Callable[[], None]:
    from tvmconv.kernels.rules import schedule_function
    from tvmconv.tir.pipeline import compile_function
    from tvmconv.tvm_api import te
    from tvmconv.tvm_runtime.threads import repeated

    with compiler_lock():
        x = te.placeholder(tuple(source.shape), source.dtype, name="x")
        func = te.create_prim_func([x, expression(x)]).with_attr("global_symbol", "main")
        func = schedule_function(func, machine)
    function = compile_function(func, processor(machine))["main"]
    return repeated(threads, function, source, target)
