"""Rounds operands of tensor cores when they go to shared memory, not when they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.general.rewrite import function_pass, local_buffer, nodes_of

# the functions that round and pack FP32 values to a dword
_ROUNDINGS = ("tvmconv_tf32", "tvmconv_halves")


def LateRounding() -> Any:
    """A pass that keeps loaded values unrounded in registers.

    Pattern: a local array of a tensor-core kernel, whose every store is a rounding of FP32 values.

    Rewrite: the array has the values themselves, and each load rounds them.

    Why here: after PredicatedLoads, because a value may be a predicated load. Otherwise the
    rounding waits for the load from global memory, and nvcc puts it among the products.
    """
    return function_pass("cuda.LateRounding", _rewrite)


def _rewrite(func: Any) -> Any:
    if not has_products(func):
        return func
    counts = _rounded(func.body)
    if not counts:
        return func
    exact = {
        buffer: local_buffer(
            (count * prod(int(extent) for extent in buffer.shape),),
            "float32",
            f"{buffer.name}_exact",
        )
        for buffer, (_, count) in counts.items()
    }

    def allocate(made: Any) -> Any:
        found = exact.get(made.buffer)
        return made if found is None else tirx.AllocBuffer(found, made.annotations)

    def load(node: Any) -> Any:
        if node.source not in exact:
            return node
        (index,) = node.indices
        if not isinstance(index, tirx.Ramp):
            return value(node.source, index)
        places = [index.base + lane * index.stride for lane in range(int(index.lanes))]
        lanes = [value(node.source, place) for place in places]
        return tirx.Shuffle(lanes, [tirx.IntImm("int32", lane) for lane in range(len(lanes))])

    def value(buffer: Any, place: Any) -> Any:
        name, count = counts[buffer]
        parts = [tirx.BufferLoad(exact[buffer], [place * count + n]) for n in range(count)]
        return tirx.call_pure_extern(str(buffer.dtype), name, *parts)

    def store(node: Any) -> Any:
        if node.buffer not in exact:
            return node
        (index,), values = node.indices, node.value.args[1:]
        return tirx.stmt_seq(
            *(
                tirx.BufferStore(exact[node.buffer], part, [index * len(values) + n])
                for n, part in enumerate(values)
            )
        )

    rules = [(tirx.AllocBuffer, allocate), (ir.TensorLoad, load), (tirx.BufferStore, store)]
    return func.with_body(tvm_ffi.structural_map(func.body, rules))


def _rounded(body: Any) -> Mapping[Any, tuple[str, int]]:
    """Local arrays with the rounding of all of their stores, and the number of its values."""
    found: dict[Any, set[tuple[str, int]]] = {}
    for store in nodes_of(body, tirx.BufferStore):
        if str(store.buffer.scope()) == "local":
            found.setdefault(store.buffer, set()).add(_rounding(store))
    return {
        buffer: next(iter(kinds))
        for buffer, kinds in found.items()
        if len(kinds) == 1 and ("", 0) not in kinds
    }


def _rounding(store: Any) -> tuple[str, int]:
    """Name and number of values of a rounding; an empty name for other stores."""
    call = store.value
    if not isinstance(call, ir.Call) or getattr(call.op, "name", "") != "tirx.call_pure_extern":
        return "", 0
    name = str(call.args[0].value)
    plain = not isinstance(store.indices[0], tirx.Ramp)
    return (name, len(call.args) - 1) if name in _ROUNDINGS and plain else ("", 0)
