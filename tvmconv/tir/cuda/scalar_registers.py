"""Local arrays of GPU kernels as one variable for each value."""

from __future__ import annotations

from math import prod
from typing import Any

from tvmconv.algorithms.cuda.slices import LARGE_BLOCK
from tvmconv.tir.cuda.threads import block_threads
from tvmconv.tir.general.rewrite import function_pass, local_buffer

# of a smaller array nvcc knows the values soon enough
_LEAST = 8


def SingleValues() -> Any:
    """A pass that makes a variable of each value of a local array.

    Pattern: an array of the scope ``local`` that loads and stores reach by constants alone, single
    values or vectors of successive ones, in a kernel whose blocks have fewer than 256 threads.

    Rewrite: an array of one value for each. Vectors that were loaded are put together of single
    values, and those that were stored are taken apart.

    Why here: before the text is made. nvcc makes variables of arrays by itself, but takes a time
    that grows with the square of their accesses: 9.4 s of a processor for the tile of 64x128 with
    slices of 32, and 1.2 s with this pass. The main loop is the same, registers are within one.
    Where a thread has 128 of them at most, that one can be too many: a tile of 128x128 with a
    residual spilled 16 bytes.
    """
    return function_pass("SingleValues", _rewrite)


def _rewrite(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

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
    """Local arrays that nothing but loads and stores of constant places use."""
    import tvm_ffi
    from tvm import ir, tirx

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
        # by their addresses
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
    """The places of an access; none where they are not constant."""
    from tvm import tirx

    (index,) = indices
    first, lanes = (index.base, index.lanes) if isinstance(index, tirx.Ramp) else (index, 1)
    stride = index.stride if isinstance(index, tirx.Ramp) else tirx.IntImm("int32", 1)
    if not isinstance(first, tirx.IntImm) or not isinstance(stride, tirx.IntImm):
        return []
    return [int(first) + int(stride) * lane for lane in range(int(lanes))]
