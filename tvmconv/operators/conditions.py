"""Conditions that a network computes and that must have one value."""

from __future__ import annotations

from typing import Any

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor


def copy_if(data: Tensor, condition: Tensor, expected: bool) -> list[Tensor]:
    """A copy of flat data, and a flag that is set if the condition has the other value."""
    (count,) = (int(size) for size in data.shape)

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            values, given, copied, flags = (T.buffer_proxy(buffer) for buffer in (*ins, *outs))
            held = tirx.Cast("int32", given[0])
            with T.serial(0, count) as place:
                copied[place] = values[place]
                flags[0] = 1 - held if expected else held
            return builder.get()

    types = [str(data.dtype), "int32"]
    return te.extern([[count], [1]], [data, condition], write, dtype=types, name="check_condition")
