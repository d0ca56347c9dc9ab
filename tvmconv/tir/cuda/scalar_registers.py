"""Replaces local arrays of GPU kernels by scalars."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.algorithms.cuda.slices import LARGE_BLOCK
from tvmconv.tir.cuda.threads import block_threads
from tvmconv.tir.general.rewrite import function_pass, local_buffer

# nvcc promotes smaller arrays to registers quickly
_LEAST = 8


def ScalarRegisters() -> Any:
    """A pass that replaces a local array by one variable for each element.

    Pattern: an array of the scope ``local`` whose indices are all constant, for scalars or vectors
    of consecutive elements. The kernel's blocks have fewer than 256 threads.

    Rewrite: an array of length 1 for each element. Loaded vectors are assembled from scalars, and
    stored vectors are split into scalars.

    Why here: before code generation. nvcc does the same, but in quadratic time of the number of
    accesses. A 64x128 tile with slices of 32 took 9.4 s, and takes 1.2 s with this pass. The main
    loop is the same, and registers differ by one at most. Blocks of 256 threads are left out: with
    at most 128 registers a thread, a 128x128 tile with a residual spilled 16 bytes.
    """
    return function_pass("cuda.ScalarRegisters", _rewrite)


def _rewrite(func: Any) -> Any:
    if block_threads(func.body) >= LARGE_BLOCK:
        return func
    pieces = {
        buffer: [
            local_buffer((1,), str(buffer.dtype), f"{buffer.name}_{place}")
            for place in range(prod(int(extent) for extent in buffer.shape))
        ]
        for buffer in _fixed(func.body)
    }
    if not pieces:
        return func

    def allocate(made: Any) -> Any:
        if made.buffer not in pieces:
            return made
        return tirx.SeqStmt(
            [tirx.AllocBuffer(piece, made.annotations) for piece in pieces[made.buffer]]
        )

    def load(node: Any) -> Any:
        if node.source not in pieces:
            return node
        places = _places(node.indices)
        values = [tirx.BufferLoad(pieces[node.source][place], [0]) for place in places]
        return values[0] if len(values) == 1 else tirx.Shuffle(values, list(range(len(values))))

    def store(node: Any) -> Any:
        if node.buffer not in pieces:
            return node
        places, value = _places(node.indices), node.value
        if len(places) == 1:
            return tirx.BufferStore(pieces[node.buffer][places[0]], value, [0])
        whole = ir.Var(f"{node.buffer.name}_vector", value.ty)
        return tirx.SeqStmt(
            [
                tirx.Bind(whole, value),
                *(
                    tirx.BufferStore(pieces[node.buffer][place], tirx.Shuffle([whole], [lane]), [0])
                    for lane, place in enumerate(places)
                ),
            ]
        )

    body = tvm_ffi.structural_map(func.body, (ir.TensorLoad, load), order="post")
    body = tvm_ffi.structural_map(body, (tirx.BufferStore, store), order="post")
    return func.with_body(tvm_ffi.structural_map(body, (tirx.AllocBuffer, allocate), order="post"))


def _fixed(body: Any) -> set[Any]:
    """Local arrays that are only loaded and stored at constant indices."""
    found: set[Any] = set()
    others: set[Any] = set()

    def made(node: Any) -> None:
        sizes = [int(extent) for extent in node.buffer.shape]
        if str(node.buffer.scope()) == "local" and prod(sizes) >= _LEAST and len(sizes) == 1:
            found.add(node.buffer)

    def used(node: Any) -> None:
        target = node.buffer if isinstance(node, tirx.BufferStore) else node.source
        if not _places(node.indices):
            others.add(target)

    def called(node: Any) -> None:
        # the callee gets their addresses
        for argument in node.args:
            if isinstance(argument, tirx.Buffer):
                others.add(argument)
            elif getattr(node.op, "name", "") == "tirx.address_of":
                others.add(argument.source)

    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, made))
    tvm_ffi.structural_walk(body, ((tirx.BufferStore, ir.TensorLoad), used))
    tvm_ffi.structural_walk(body, (ir.Call, called))
    return found - others


def _places(indices: Any) -> list[int]:
    """The elements of an access; empty if they are not constant."""
    (index,) = indices
    first, lanes = (index.base, index.lanes) if isinstance(index, tirx.Ramp) else (index, 1)
    stride = index.stride if isinstance(index, tirx.Ramp) else tirx.IntImm("int32", 1)
    if not isinstance(first, tirx.IntImm) or not isinstance(stride, tirx.IntImm):
        return []
    return [int(first) + int(stride) * lane for lane in range(int(lanes))]
