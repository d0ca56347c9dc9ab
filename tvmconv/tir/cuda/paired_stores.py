"""Stores two neighboring accumulators of tensor cores by one instruction."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.cuda.threads import kernel_analyzer
from tvmconv.tir.general.rewrite import function_pass, map_nodes, nodes_of, substitute, uses

_PAIR = 2


def PairedStores() -> Any:
    """A pass that makes vectors of the stores of neighboring accumulators.

    Pattern: a loop of two iterations in a tensor-core kernel. It stores an FP32 value to a
    parameter, at an even index and at the next one, both or none of them.

    Rewrite: one store of a vector of two. Loads from other parameters at an even index and the
    next one become vectors, too. Parameters are aligned to 16 bytes.

    Why here: after Fragments, because TVM's LowerWarpMemory does not support vectors. Four lanes
    have the eight neighboring pixels of a fragment, two each. A store of one pixel writes half of a
    sector of L2, and L2 was the limit of layers with large outputs.
    """
    return function_pass("cuda.PairedStores", _rewrite)


def _rewrite(func: Any) -> Any:
    if not has_products(func):
        return func
    analyzer = kernel_analyzer(func.body)
    for loop in nodes_of(func.body, tirx.For):
        analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))

    def first_of(index: Any, var: Any) -> Any:
        """The index of the first iteration, if it is even and the second one follows it."""
        first, second = (substitute(index, {var: lane}) for lane in range(_PAIR))
        follows = analyzer.can_prove_equal(second - first, tirx.IntImm("int32", 1))
        even = analyzer.can_prove_equal(first % _PAIR, tirx.IntImm("int32", 0))
        return analyzer.simplify(first) if follows and even else None

    def paired(loop: Any) -> Any:
        store, test = loop.body, None
        if isinstance(store, tirx.IfThenElse) and store.else_case is None:
            test, store = store.condition, store.then_case
        if not _is_pair(loop) or not isinstance(store, tirx.BufferStore):
            return loop
        if test is not None and uses(test, loop.loop_var):
            return loop
        place = _place(store.buffer, store.indices)
        first = None if place is None else first_of(place, loop.loop_var)
        if first is None:
            return loop
        vectors: list[Any] = []

        def lane_of(lane: int) -> Any:
            def load(node: Any) -> Any:
                place = _place(node.source, node.indices)
                begin = None if place is None else first_of(place, loop.loop_var)
                if begin is None:
                    return node
                if not lane:
                    whole = tirx.BufferLoad(node.source, [tirx.Ramp(begin, 1, _PAIR)])
                    name = ir.Var(f"{node.source.name}_pair", whole.ty)
                    vectors.append((node, tirx.Bind(name, whole), name))
                name = next(name for known, _, name in vectors if known.same_as(node))
                return tirx.Shuffle([name], [lane])

            value = tvm_ffi.structural_map(store.value, (ir.TensorLoad, load))
            return substitute(value, {loop.loop_var: lane})

        values = [lane_of(lane) for lane in range(_PAIR)]
        whole = tirx.Shuffle(values, list(range(_PAIR)))
        stored = tirx.BufferStore(store.buffer, whole, [tirx.Ramp(first, 1, _PAIR)])
        both = tirx.stmt_seq(*(bind for _, bind, _ in vectors), stored)
        return both if test is None else tirx.IfThenElse(test, both, None)

    return map_nodes(func, (tirx.For, paired))


def _is_pair(loop: Any) -> bool:
    return (
        isinstance(loop.extent, tirx.IntImm)
        and int(loop.extent) == _PAIR
        and isinstance(loop.min, tirx.IntImm)
        and int(loop.min) == 0
    )


def _place(buffer: Any, indices: Any) -> Any:
    """The scalar index of an access to an FP32 parameter; None for other accesses."""
    (index,) = indices
    plain = str(buffer.scope()) == "global" and str(buffer.dtype) == "float32"
    return index if plain and not isinstance(index, tirx.Ramp) else None
