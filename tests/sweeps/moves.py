"""How operators that move elements are drawn: see :mod:`tests.sweeps.draws`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from tests.sweeps import operators
from tests.sweeps.draws import Case, Draw, Draws, Given, drawn

DRAWS: Draws = {}

# an element of a gather or scatter counts as much as a vector
_GATHERED = 16


@drawn(DRAWS, "Gather")
def gather(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(shape)
    most = max(2, draw.largest * shape[axis] // prod(shape))
    places = draw.shape(1, 2, min(most, 4096)) if draw.pick(True, False) else (draw.size(4),)
    indices = draw.numbers.integers(-shape[axis], shape[axis], places)
    run_time = draw.pick(True, False)
    dtype = draw.dtype("int64", "uint8", "float16")
    operand = Given(indices) if run_time else indices
    lines = _GATHERED if prod(shape[axis + 1 :]) < _GATHERED else 2
    return draw.case(shape, operand, axis=axis, dtype=dtype, operations=lines)


@drawn(DRAWS, "GatherElements")
def gather_elements(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(shape)
    places = list(shape)
    places[axis] = draw.size(shape[axis])
    if prod(places) > draw.largest:
        places[axis] = shape[axis]
    indices = draw.numbers.integers(0, shape[axis], places)
    return draw.case(shape, Given(indices), axis=axis, operations=_GATHERED)


@drawn(DRAWS, "GatherND")
def gather_nd(draw: Draw) -> Case:
    shape = draw.shape(1, 4)
    depth = draw.random.randint(1, len(shape))
    rest = prod(shape[depth:])
    places = draw.size(2 ** draw.random.uniform(0, np.log2(max(2, draw.largest // rest))) / 2)
    indices = np.stack([draw.numbers.integers(0, s, places) for s in shape[:depth]], -1)
    lines = _GATHERED if rest < _GATHERED else 2
    return draw.case(shape, Given(indices), operations=lines * (1 + depth))


@drawn(DRAWS, "ScatterElements")
def scatter_elements(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(shape)
    places = draw.part(shape, axis)
    # each index once: the order of the others is open
    order = np.argsort(draw.numbers.random(shape), axis=axis)
    indices = np.take(order, range(places[axis]), axis=axis)
    reduction = draw.pick("none", "none", "add", "max")
    work = float(prod(shape) + 2 * _GATHERED * prod(places))
    updates = tuple(places)
    return draw.case(shape, Given(indices), updates, axis=axis, reduction=reduction, work=work)


@drawn(DRAWS, "ScatterND")
def scatter_nd(draw: Draw) -> Case:
    shape = draw.shape(1, 4)
    depth = draw.random.randint(1, len(shape))
    rest = shape[depth:]
    count = draw.random.randint(1, min(prod(shape[:depth]), 65536))
    flat = draw.numbers.permutation(prod(shape[:depth]))[:count]
    indices = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    reduction = draw.pick("none", "none", "add")
    lines = 2 * _GATHERED * (1 + depth) if prod(rest) < _GATHERED else 4
    work = float(prod(shape) + lines * count * prod(rest))
    return draw.case(shape, Given(indices), (count, *rest), reduction=reduction, work=work)


@drawn(DRAWS, "OneHot")
def one_hot(draw: Draw) -> Case:
    shape = draw.shape(1, 3, 1 << 14)
    depth = draw.size(2 ** draw.random.uniform(1, 6))
    indices = draw.numbers.integers(0, depth, shape)
    values = np.array([0, 1], draw.dtype("int64"))
    axis = draw.random.randint(-1, len(shape))
    return draw.case(Given(indices), np.array(depth), values, axis=axis, operations=2)


@drawn(DRAWS, "Split")
def split(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(shape)
    if shape[axis] < 2:
        shape = (*shape[:axis], 2, *shape[axis + 1 :])
    cut = draw.random.randint(1, shape[axis] - 1)
    parts = np.array([cut, shape[axis] - cut])
    return draw.case(shape, parts, axis=axis, outputs=2, work=float(prod(shape)))


@drawn(DRAWS, "Tile")
def tile(draw: Draw) -> Case:
    shape = draw.shape(largest=draw.largest // 8)
    repeats = [draw.pick(1, 1, 2, 3) for _ in shape]
    while prod(repeats) > 8:
        repeats[repeats.index(max(repeats))] = 1
    return draw.case(shape, np.array(repeats), operations=2)


@drawn(DRAWS, "Trilu")
def triangle(draw: Draw) -> Case:
    shape = draw.shape(2)
    k = draw.random.randint(-3, 3)
    return draw.case(shape, np.array(k), upper=draw.pick(0, 1), operations=2)


@drawn(DRAWS, "SpaceToDepth")
def space_to_depth(draw: Draw) -> Case:
    n, c, h, w = draw.image(64)
    block = draw.pick(2, 2, 3, 4)
    shape = (n, c, max(1, h // block) * block, max(1, w // block) * block)
    return draw.case(shape, blocksize=block, operations=2)


@drawn(DRAWS, "ReverseSequence")
def reverse(draw: Draw) -> Case:
    shape = draw.shape(2)
    batch = draw.pick(0, 1)
    lengths = draw.numbers.integers(1, shape[1 - batch] + 1, shape[batch])
    axes = {"batch_axis": batch, "time_axis": 1 - batch}
    lines = _GATHERED if prod(shape[2:]) < _GATHERED else 2
    return draw.case(shape, Given(lengths), operations=lines, **axes)


@drawn(DRAWS, "Where.typed")
def where(draw: Draw) -> Case:
    shape = draw.shape()
    operands = [tuple(draw.pick(1, size) for size in shape) for _ in range(3)]
    operands[draw.random.randrange(3)] = shape
    choice = Given(draw.numbers.random(operands[0]) < 0.5)
    dtype = draw.dtype("int64", "uint8", "float64")
    return draw.case(choice, *operands[1:], dtype=dtype, operations=2)


def _typed(operator: str, function: Callable[[Draw], Case]) -> None:
    """Draws of a copy in other types, by the name ``Operator.typed``."""

    @drawn(DRAWS, f"{operator}.typed")
    def typed(draw: Draw) -> Case:
        case = function(draw)
        dtype = draw.pick("int64", "uint8", "float64", "int32", "float16")
        return replace(case, dtype=dtype)


_typed("Transpose", operators.transpose)
_typed("Concat", operators.concat)
_typed("Slice", operators.part)
_typed("Pad", operators.pad)
_typed("Expand", operators.expand)
_typed("DepthToSpace", operators.depth_to_space)
