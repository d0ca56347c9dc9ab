"""INT8 matrix products on AArch64 (``smmla``): two positions by two outputs at once.

``smmla v16.4s, v0.16b, v1.16b`` multiplies two rows of eight 8-bit integers in one vector by two
rows in another vector, and adds to four accumulators. A row has eight channels
of a spatial position, or the weights of eight channels for one output. One load reads the rows of
two neighboring positions. The weights of a block of four outputs are two loads::

    smmla   v16.4s, v0.16b, v1.16b      positions 0 and 1, outputs 0 and 1
    smmla   v17.4s, v0.16b, v2.16b      and outputs 2 and 3

Expressions have a vector of accumulators for each position. During accumulation, two such vectors
hold one 2x2 square (positions by outputs) each. Readers reorder them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.conditions import is_zero
from tvmconv.tir.general.rewrite import function_pass, local_buffer, nodes_of
from tvmconv.tir.neon.matrix_operands import ITEMS, LANES, arithmetic, items, outputs, product
from tvmconv.tir.neon.matrix_updates import (
    Key,
    Pair,
    Update,
    key_of,
    place_of,
    products_of,
    runs_of,
    update_of,
)


def MatrixProducts() -> Any:
    """A pass that lowers dot products of eight 8-bit integers to matrix products.

    Pattern: consecutive stores ``sums[i] = sums[i] + dot_smmla(Broadcast(word(data[d])),
    word(weight[w]))`` of vectors of four accumulators, in loops or without. Later statements of the
    same sequence read the accumulators. Data are int32, of which two make a row.

    Rewrite: accumulators of two positions, preferably neighbors, hold squares from their
    initialization to their readers. An unpaired position is multiplied twice, with its second
    square in a spare vector. If runs of updates need different pairs, the products of each position
    are reordered immediately. Scalars, as in expressions without a schedule, become plain
    arithmetic.

    Why here: accumulators are vectors with constant indices once loops are unrolled. The pass runs
    before NeighborLanes and DotProducts, which match 32-bit dwords.
    """
    return function_pass("neon.MatrixProducts", _matrix_products)


def _matrix_products(func: Any) -> Any:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (ir.Call, lambda call: found.extend(products_of(call))))
    if not found:
        return func
    body = tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _scope))
    return func.with_body(tvm_ffi.structural_map(body, (tirx.Add, _alone)))


def _scope(sequence: Any) -> Any:
    """A sequence that initializes, updates and reads accumulators; unchanged otherwise."""
    parts = _gathered(sequence.seq)
    adding = [index for index, part in enumerate(parts) if _only_adds(part)]
    if not adding:
        return sequence
    runs = [run for index in adding for run in runs_of(parts[index])]
    rest = [part for index, part in enumerate(parts) if index not in adding]
    agreed = _agreed(runs)
    if not agreed or not _begun(rest, agreed):
        return sequence
    spares, pairs = _with_spares(agreed)

    def ordered(load: Any) -> Any:
        key = key_of(load)
        if key is None or key not in pairs:
            return load
        pair = pairs[key]
        squares = [tirx.BufferLoad(buffer, [tirx.IntImm("int32", at)]) for buffer, at in pair]
        return tirx.Shuffle(squares, _pixel(pair.index(key)))

    def multiplied(statement: Any) -> Any:
        return _multiplied(statement, pairs)

    for index, part in enumerate(parts):
        if index in adding:
            parts[index] = tvm_ffi.structural_map(part, (tirx.SeqStmt, multiplied))
        elif index > adding[0]:
            parts[index] = tvm_ffi.structural_map(part, (ir.TensorLoad, ordered))
    return tirx.stmt_seq(*spares, *parts)


def _gathered(statements: Iterable[Any]) -> list[Any]:
    """The statements, with consecutive updates as one: a short reduction leaves no loop of them."""
    parts = list[Any]()
    for is_update, group in groupby(statements, lambda part: update_of(part) is not None):
        found = list(group)
        parts += [tirx.SeqStmt(found)] if is_update and len(found) > 1 else found
    return parts


def _with_spares(agreed: dict[Key, Pair]) -> tuple[list[Any], dict[Key, Pair]]:
    """Spare vectors with their initialization, and the pairs with a spare for each unpaired one."""
    left = [key for key, pair in agreed.items() if pair == (key, key)]
    if not left:
        return [], agreed
    buffer = local_buffer((len(left),), f"int32x{LANES}", "spare")
    zeros = tirx.Broadcast(tirx.const(0, "int32"), LANES)
    stores = [
        tirx.BufferStore(buffer, zeros, [tirx.IntImm("int32", at)]) for at in range(len(left))
    ]
    spares = {key: (key, (buffer, at)) for at, key in enumerate(left)}
    return [tirx.AllocBuffer(buffer), *stores], agreed | spares


def _only_adds(statement: Any) -> bool:
    """Whether a statement only adds products to accumulators, and does not read them otherwise."""
    updates = [update for run in runs_of(statement) for update in run]
    buffers = {update.store.buffer for update in updates}
    loads = nodes_of(statement, ir.TensorLoad)
    return bool(updates) and sum(load.source in buffers for load in loads) == len(updates)


def _begun(statements: Iterable[Any], pairs: dict[Key, Pair]) -> bool:
    """Whether statements set all accumulators of the pairs to zero, and store nothing else."""
    stores: list[Any] = []
    for statement in statements:
        tvm_ffi.structural_walk(statement, (tirx.BufferStore, stores.append))
    stores = [store for store in stores if place_of(store.buffer, store.indices) in pairs]
    zeros = (isinstance(s.value, tirx.Broadcast) and is_zero(s.value.value) for s in stores)
    begun = {place_of(store.buffer, store.indices) for store in stores}
    return begun == pairs.keys() and all(zeros)


def _agreed(runs: Iterable[list[Update]]) -> dict[Key, Pair]:
    """The pairs of accumulators that suit all runs of updates; empty if runs differ."""
    pairs: dict[Key, Pair] = {}
    for run in runs:
        steps: dict[int, list[Update]] = {}
        for update in run:
            steps.setdefault(tvm_ffi.structural_hash(update.weight), []).append(update)
        found = {key: pair for step in steps.values() for pair in _paired(step) for key in pair}
        keys = {update.key for update in run}
        if any(pairs.get(key, pair) != pair for key, pair in found.items()):
            return {}
        if any(key in pairs and key not in found for key in keys):
            return {}
        pairs |= found
    return pairs


def _paired(step: list[Update]) -> Iterator[Pair]:
    """Pairs of accumulators that use the same weights: neighbors first, then the rest.

    A single remaining accumulator is paired with itself.
    """
    order = sorted(step, key=lambda update: update.place)
    left: list[Update] = []
    while order:
        update = order.pop(0)
        common, place = update.place
        if order and order[0].place == (common, place + ITEMS):
            yield update.key, order.pop(0).key
        else:
            left.append(update)
    for first, second in zip_longest(left[::2], left[1::2]):
        yield first.key, (second or first).key


def _multiplied(sequence: Any, pairs: dict[Key, Pair]) -> Any:
    """A sequence of updates, with the updates of pairs as matrix products."""
    updates = [update_of(part) for part in sequence.seq]
    keys = {update.key for update in updates if update is not None}
    waiting: dict[tuple[Key, int], Update] = {}
    parts: list[Any] = []
    for part, update in zip(sequence.seq, updates, strict=True):
        pair = None if update is None else pairs.get(update.key)
        if update is None or pair is None:
            parts.append(part)
            continue
        step = tvm_ffi.structural_hash(update.weight)
        alone = pair[1] not in keys
        other = update if alone else waiting.pop((pair[pair[0] == update.key], step), None)
        if other is None:
            waiting[update.key, step] = update
            continue
        first, second = (update, other) if update.key == pair[0] else (other, update)
        pixels = _together(first, second)
        for half, (buffer, at) in enumerate(pair):
            place = [tirx.IntImm("int32", at)]
            total = tirx.BufferLoad(buffer, place)
            value = product(total, pixels, outputs(first.weight, half))
            parts.append(tirx.BufferStore(buffer, value, place))
    return tirx.SeqStmt(parts)


def _together(first: Update, second: Update) -> Any:
    """The rows of two positions in one vector: one load for neighbors; one row twice if alone."""
    (common, place), (other, next_place) = first.place, second.place
    if common == other and next_place == place + ITEMS:
        return items(first.data, 2 * ITEMS)
    rows = [items(update.data, ITEMS) for update in (first, second)]
    return tirx.Shuffle(rows, list(range(2 * ITEMS)))


def _alone(node: Any) -> Any:
    """An accumulation outside of pairs, for one position or for scalars."""
    for data, weight in products_of(node.b):
        if int(node.ty.dtype.lanes) == 1:
            return node.a + arithmetic(data, weight)
        zeros = tirx.Broadcast(tirx.const(0, "int32"), LANES)
        # both positions of the squares
        twice = tirx.Shuffle([items(data, ITEMS)] * 2, list(range(2 * ITEMS)))
        squares = [product(zeros, twice, outputs(weight, half)) for half in range(2)]
        return node.a + tirx.Shuffle(squares, _pixel(0))
    return node


def _pixel(which: int) -> list[int]:
    """The lanes of one position's accumulators in two squares."""
    return [2 * which, 2 * which + 1, 2 * which + LANES, 2 * which + 1 + LANES]
