"""Products of 8-bit matrices of AArch64 (``smmla``): two pixels by two outputs at once.

``smmla v16.4s, v0.16b, v1.16b`` multiplies two words of eight 8-bit integers, the halves of one
vector, by those of another, and adds four sums. A word is eight channels of a pixel, or the
weights of eight channels for one output. Two neighbouring pixels' words are one load; the weights
of a block of four outputs are two::

    smmla   v16.4s, v0.16b, v1.16b      pixels 0 and 1, outputs 0 and 1
    smmla   v17.4s, v0.16b, v2.16b      and outputs 2 and 3

Expressions have a vector of sums for each pixel. Two of them hold a square of pixels by outputs
each while they are added to, and are put in order where they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from tvmconv.tir.general.conditions import is_zero
from tvmconv.tir.general.rewrite import function_pass, local_buffer
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
    """A pass that turns dot products of words of eight 8-bit integers into products of matrices.

    Pattern: stores ``sums[i] = sums[i] + dot_smmla(Broadcast(word(data[d])), word(weight[w]))``
    of vectors of four sums, that follow each other, in loops behind which, in one sequence of
    statements, the sums are read. Data are of int32, two of which are a word.

    Rewrite: sums of two pixels, neighbours where there are such, hold squares between their
    initialisation by zeros and what reads them. A pixel that is left over is multiplied twice, its
    second square in a vector of its own. Where runs of updates do not allow the same pairs, the
    products of each pixel are put in order at once; scalars, as expressions without a schedule have
    them, are plain arithmetic.

    Why here: sums are vectors with constant indices once loops are unrolled. It goes before
    NeighbouringWords and DotProducts, which know words of 32 bits.
    """
    return function_pass("neon.MatrixProducts", _matrix_products)


def _matrix_products(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (ir.Call, lambda call: found.extend(products_of(call))))
    if not found:
        return func
    body = tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _scope))
    return func.with_body(tvm_ffi.structural_map(body, (tirx.Add, _alone)))


def _scope(sequence: Any) -> Any:
    """A sequence of statements in which sums are begun, added to and read; else itself."""
    import tvm_ffi
    from tvm import ir, tirx

    parts = list(sequence.seq)
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
    return tirx.SeqStmt([*spares, *parts])


def _with_spares(agreed: dict[Key, Pair]) -> tuple[list[Any], dict[Key, Pair]]:
    """The pairs, a pixel that is left over with a vector beside; and what begins these vectors."""
    from tvm import tirx

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
    """Whether a statement adds products to sums and does not read these otherwise."""
    import tvm_ffi
    from tvm import ir

    updates = [update for run in runs_of(statement) for update in run]
    buffers = {update.store.buffer for update in updates}
    loads: list[Any] = []
    tvm_ffi.structural_walk(statement, (ir.TensorLoad, loads.append))
    return bool(updates) and sum(load.source in buffers for load in loads) == len(updates)


def _begun(statements: Iterable[Any], pairs: dict[Key, Pair]) -> bool:
    """Whether statements set all sums of the pairs to zero, and store nothing else there."""
    import tvm_ffi
    from tvm import tirx

    stores: list[Any] = []
    for statement in statements:
        tvm_ffi.structural_walk(statement, (tirx.BufferStore, stores.append))
    stores = [store for store in stores if place_of(store.buffer, store.indices) in pairs]
    zeros = (isinstance(s.value, tirx.Broadcast) and is_zero(s.value.value) for s in stores)
    begun = {place_of(store.buffer, store.indices) for store in stores}
    return begun == pairs.keys() and all(zeros)


def _agreed(runs: Iterable[list[Update]]) -> dict[Key, Pair]:
    """Pairs of sums that all runs of updates allow; none where they differ."""
    import tvm_ffi

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
    """Sums of pixels that one vector of weights serves, by twos: neighbours, then what is left.

    A last one is its own other.
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
    """A sequence of updates, those of pairs as products of matrices."""
    import tvm_ffi
    from tvm import tirx

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
    """Two pixels' words in one vector, or one's twice: one load where they are neighbours."""
    from tvm import tirx

    (common, place), (other, next_place) = first.place, second.place
    if common == other and next_place == place + ITEMS:
        return items(first.data, 2 * ITEMS)
    words = [items(update.data, ITEMS) for update in (first, second)]
    return tirx.Shuffle(words, list(range(2 * ITEMS)))


def _alone(node: Any) -> Any:
    """A sum and a product that stand by themselves: of one pixel, or scalars."""
    from tvm import tirx

    for data, weight in products_of(node.b):
        if int(node.ty.dtype.lanes) == 1:
            return node.a + arithmetic(data, weight)
        zeros = tirx.Broadcast(tirx.const(0, "int32"), LANES)
        # both pixels of the squares
        twice = tirx.Shuffle([items(data, ITEMS)] * 2, list(range(2 * ITEMS)))
        halves = [product(zeros, twice, outputs(weight, half)) for half in range(2)]
        return node.a + tirx.Shuffle(halves, _pixel(0))
    return node


def _pixel(which: int) -> list[int]:
    """Where the sums of one pixel are in two squares."""
    return [2 * which, 2 * which + 1, 2 * which + LANES, 2 * which + 1 + LANES]
