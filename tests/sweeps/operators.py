"""How each operator is drawn: see :mod:`tests.sweeps.draws`."""

from __future__ import annotations

import numpy as np

from tests.sweeps.draws import DIVISION, Case, Draw, Draws, drawn

DRAWS: Draws = {}

# vector operations of a polynomial with its range reduction
_EXP = 14


@drawn(
    DRAWS, "Abs", "Neg", "Relu", "LeakyRelu", "Floor", "Ceil", "Sign", "HardSigmoid", "HardSwish"
)
def cheap(draw: Draw) -> Case:
    return draw.case(draw.shape(), operations=2)


@drawn(DRAWS, "Exp", "Sigmoid", "Tanh", "Elu", "Softplus", "Erf", "Mish", "Log", "Gelu", "Sinh",
       "Cosh", "Asin", "Acos", "Atan", "Selu", "Celu")  # fmt: skip
def costly(draw: Draw) -> Case:
    return draw.case(draw.shape(), operations=2 * _EXP)


@drawn(DRAWS, "Sin", "Cos", "Tan")
def periodic(draw: Draw) -> Case:
    # float64 takes twice the vectors
    return draw.case(draw.shape(), operations=4 * _EXP)


@drawn(DRAWS, "Sqrt", "Reciprocal", "Softsign")
def divisions(draw: Draw) -> Case:
    return draw.case(draw.shape(), operations=2 * DIVISION)


@drawn(DRAWS, "Add", "Mul", "Sub", "Div", "Max", "Min", "Mod")
def broadcasts(draw: Draw) -> Case:
    shape = draw.shape()
    kind = draw.pick("same", "channel", "scalar", "trailing", "leading", "any")
    other = list(shape)
    for i in range(len(shape)):
        repeated = {
            "same": False,
            "channel": i != 1,
            "scalar": True,
            "trailing": i < len(shape) - 1,
            "leading": i > 0,
            "any": draw.pick(True, False),
        }[kind]
        other[i] = 1 if repeated else other[i]
    # quotients of remainders are in FP64: two vectors, and twice the time of each
    operations = {"Div": DIVISION, "Mod": 4 * DIVISION}.get(draw.operator, 1)
    attributes = {"fmod": 1} if draw.operator == "Mod" else {}
    if draw.pick(True, False):
        return draw.case(shape, draw.values(*other), operations=operations, **attributes)
    operands = [shape, tuple(other)]
    draw.random.shuffle(operands)
    return draw.case(*operands, operations=operations, **attributes)


@drawn(DRAWS, "PRelu")
def prelu(draw: Draw) -> Case:
    shape = draw.shape(2)
    return draw.case(shape, draw.values(shape[1], *[1] * (len(shape) - 2)), operations=3)


@drawn(DRAWS, "Softmax", "LogSoftmax")
def softmax(draw: Draw) -> Case:
    shape = draw.shape()
    if draw.pick(True, False, False, False):
        # equal sizes after the axis
        side = draw.size(2 ** draw.random.uniform(2, 6.5))
        shape = (draw.size(2 ** draw.random.uniform(0, 4)), side, side)
    return draw.case(shape, axis=draw.axis(shape), operations=2 * _EXP)


@drawn(DRAWS, "CumSum")
def running_sum(draw: Draw) -> Case:
    shape = draw.shape()
    exclusive, reverse = draw.pick(0, 0, 1), draw.pick(0, 0, 1)
    axis = draw.axis(shape)
    # along rows a vector's sums take a step for each doubling of the distance
    operations = 4 if np.prod(shape[axis + 1 :]) > 1 else 12
    return draw.case(
        shape, np.array(axis), exclusive=exclusive, reverse=reverse, operations=operations
    )


@drawn(DRAWS, "Transpose")
def transpose(draw: Draw) -> Case:
    shape = draw.shape(2)
    order = list(range(len(shape)))
    if len(shape) > 2 and draw.pick(True, False):
        order = draw.pick([0, *order[2:], 1], [0, order[-1], *order[1:-1]])
    else:
        draw.random.shuffle(order)
    return draw.case(shape, perm=order, operations=2)


@drawn(DRAWS, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
       "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd")  # fmt: skip
def reduction(draw: Draw) -> Case:
    shape = draw.shape()
    count = draw.random.randint(1, len(shape))
    axes = sorted(draw.random.sample(range(len(shape)), count))
    work = float(np.prod(shape)) * (2 * _EXP if draw.operator == "ReduceLogSumExp" else 2)
    keepdims = draw.pick(0, 1)
    return draw.case(shape, np.array(axes), keepdims=keepdims, work=work)


@drawn(DRAWS, "ArgMax", "ArgMin")
def position(draw: Draw) -> Case:
    shape = draw.shape()
    work = 4 * float(np.prod(shape))
    return draw.case(shape, axis=draw.axis(shape), keepdims=draw.pick(0, 1), work=work)


@drawn(DRAWS, "Concat")
def concat(draw: Draw) -> Case:
    shape = draw.shape(largest=draw.largest // 2)
    axis = draw.axis(shape)
    other = list(shape)
    other[axis] = draw.size(other[axis])
    return draw.case(shape, tuple(other), axis=axis, operations=1)


@drawn(DRAWS, "Slice")
def part(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(shape)
    begin = draw.random.randrange(shape[axis])
    end = draw.random.randint(begin + 1, shape[axis])
    step = draw.pick(1, 1, 2)
    begins, ends, axes, steps = (np.array([v]) for v in (begin, end, axis, step))
    return draw.case(shape, begins, ends, axes, steps, operations=1)


@drawn(DRAWS, "Pad")
def pad(draw: Draw) -> Case:
    shape = draw.shape(largest=draw.largest // 4)
    sides = [draw.pick(0, 0, 1, 2) for _ in range(2 * len(shape))]
    return draw.case(shape, np.array(sides), operations=2)


@drawn(DRAWS, "Expand")
def expand(draw: Draw) -> Case:
    shape = draw.shape()
    source = tuple(draw.pick(1, size) for size in shape)
    return draw.case(source, np.array(shape), operations=1)


@drawn(DRAWS, "Where")
def where(draw: Draw) -> Case:
    shape = draw.shape()
    choice = draw.numbers.random(shape) < 0.5
    return draw.case(choice, shape, draw.values(1), operations=2)


@drawn(DRAWS, "DepthToSpace")
def depth_to_space(draw: Draw) -> Case:
    n, c, h, w = draw.image(64)
    block = draw.pick(2, 2, 3, 4)
    shape = (n, max(1, c // block) * block * block, max(1, h // block), max(1, w // block))
    return draw.case(shape, blocksize=block, mode=draw.pick("DCR", "CRD"), operations=2)


@drawn(DRAWS, "InstanceNormalization")
def instance(draw: Draw) -> Case:
    shape = draw.shape(3)
    scale, offset = draw.values(shape[1]), draw.values(shape[1])
    return draw.case(shape, scale, offset, operations=6)


@drawn(DRAWS, "LayerNormalization")
def layer(draw: Draw) -> Case:
    shape = draw.shape(2)
    axis = draw.random.randrange(1, len(shape))
    scale, offset = draw.values(*shape[axis:]), draw.values(*shape[axis:])
    # each row has a square root and a division, which are most of the work of short rows
    work = 6 * float(np.prod(shape)) + 3 * DIVISION * float(np.prod(shape[:axis]))
    return draw.case(shape, scale, offset, axis=axis, work=work)


@drawn(DRAWS, "GlobalAveragePool", "GlobalMaxPool")
def global_pool(draw: Draw) -> Case:
    shape = draw.shape(3)
    return draw.case(shape, work=2 * float(np.prod(shape)))


@drawn(DRAWS, "Cast")
def cast(draw: Draw) -> Case:
    # codes of float16, int32, uint8 and bool
    return draw.case(draw.shape(), to=draw.pick(10, 6, 2, 9), operations=2)
