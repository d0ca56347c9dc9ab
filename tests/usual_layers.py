"""Random layers of kinds that networks are made of and :mod:`tests.random_layers` hardly draws."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.random_layers import EPILOGUES
from tests.strategies import image_layer
from tvmconv.core.epilogue_op import parse_step
from tvmconv.core.workload import Conv2dWorkload

_SQUARES = ((1, 1), (3, 3), (3, 3), (5, 5), (7, 7))
_FEW, _MANY = (1, 3, 4, 8, 15, 16, 33), (66, 80, 96, 130, 160)
_WHOLE = (0, 0)


@dataclass(frozen=True)
class _Kind:
    """The layers of one kind; counts of channels are per group.

    Parameters
    ----------
    height, width
        The smallest and the largest.
    kernels
        Rows and columns; ``_WHOLE`` for the input's.
    padding
        By which part of a window's length the sides are padded, at least and at most.
    planes
        Layers of a volume, each kernel three planes deep.
    """

    height: tuple[int, int]
    width: tuple[int, int]
    kernels: tuple[tuple[int, int], ...] = _SQUARES
    strides: tuple[int, ...] = (1, 1, 2)
    dilations: tuple[int, ...] = (1,)
    groups: tuple[int, ...] = (1,)
    inputs: tuple[int, ...] = _FEW
    outputs: tuple[int, ...] = _FEW
    padding: tuple[float, float] = (0.5, 0.5)
    planes: int = 1
    data_layout: str = "NCHWc"


KINDS = (
    # squeeze and excitation, and what is left of small images
    _Kind((1, 1), (1, 1), inputs=_FEW + _MANY, outputs=_FEW + _MANY),
    # one column, one row; signals
    _Kind((4, 40), (1, 1), dilations=(1, 2)),
    _Kind((1, 1), (4, 40), dilations=(1, 2)),
    _Kind((1, 1), (20, 90), ((1, 3), (1, 9), (1, 25)), dilations=(1, 2, 8), padding=(0.0, 0.9)),
    # as `SAME` pads them and as torch does
    _Kind((6, 20), (6, 20), strides=(2, 2, 3)),
    _Kind((6, 20), (6, 20), _SQUARES[1:], strides=(2,), padding=(0.0, 0.5)),
    _Kind((6, 20), (6, 20), ((3, 3),), strides=(1,), dilations=(1, 2, 4)),
    _Kind((9, 24), (9, 24), _SQUARES[1:], (2,), inputs=(1, 3, 4), data_layout="NCHW"),
    # ResNeXt and its like; several outputs for an input
    _Kind((5, 14), (5, 14), groups=(8, 16, 32), inputs=(1, 2, 4, 8), outputs=(1, 2, 4, 8)),
    _Kind((5, 14), (5, 14), groups=(3, 8, 20), inputs=(1,), outputs=(2, 3)),
    # depthwise, also through many rows and columns
    _Kind((1, 40), (1, 40), _SQUARES[1:], groups=(4, 9, 32), inputs=(1,), outputs=(1,)),
    _Kind(
        (1, 9),
        (1, 60),
        dilations=(1, 2, 3),
        groups=(5, 24),
        inputs=(1,),
        outputs=(1,),
        padding=(0.0, 1.2),
    ),
    _Kind((2, 7), (2, 7), (_WHOLE,), (1,), padding=(0.0, 0.0)),
    _Kind((3, 9), (3, 9), _SQUARES[:3], inputs=_MANY, outputs=_FEW + _MANY),
    _Kind((3, 6), (33, 120), _SQUARES[:4]),
    # windows wholly in the padding
    _Kind((1, 8), (1, 8), _SQUARES[1:], dilations=(1, 2), padding=(0.8, 1.4)),
    _Kind((3, 9), (3, 9), _SQUARES[:3], planes=5),
)


def usual_layers(each: int) -> list[Conv2dWorkload]:
    """So many layers of each kind in float32, one of each after the other."""
    generator = random.Random(3)
    return [_drawn(kind, generator) for _ in range(each) for kind in KINDS]


def _drawn(kind: _Kind, generator: random.Random) -> Conv2dWorkload:
    pick = generator.choice
    size = [generator.randint(*kind.height), generator.randint(*kind.width)]
    kernel = pick(kind.kernels)
    kernel = tuple(size) if kernel == _WHOLE else kernel
    dilation = [pick(kind.dilations)] * 2
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    low, high = kind.padding
    pads = [int(generator.uniform(low, high) * s) for s in (*spans, *spans)]
    size = [
        max(n, s - pads[i] - pads[i + 2]) for i, (n, s) in enumerate(zip(size, spans, strict=True))
    ]
    groups = pick(kind.groups)
    layer = image_layer(
        (groups * pick(kind.inputs), groups * pick(kind.outputs)),
        size,
        kernel,
        [pick(kind.strides)] * 2,
        pads,
        dilation,
        batch=pick((1, 1, 2)),
        groups=groups,
        data_layout=kind.data_layout,
        epilogue=tuple(parse_step(step) for step in pick(EPILOGUES).split("+") if step),
    )
    if kind.planes == 1:
        return layer
    return replace(layer, in_depth=kind.planes, kernel_d=3, pad_front=1, pad_back=pick((0, 1)))
