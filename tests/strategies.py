"""Hypothesis strategies for convolution problems, shared by the tests of every package.

``st.data()`` is never needed: a strategy yields a valid :class:`Conv2dWorkload`, and
:func:`conv_arrays` gives it seeded operands. All sizes stay small enough for an fp64
reference in plain numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tvmconv.core.datatypes import FLOAT32, REQUANTISE, DataTypes, Quantisation
from tvmconv.core.epilogue_op import EPILOGUE_KINDS, EpilogueOp
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.measuring.operands import rounded

# multiples of both lane counts, numbers next to them, and counts below one block
CHANNELS = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 64)
_ACTIVATIONS = tuple(kind for kind in EPILOGUE_KINDS if kind not in ("bias", "add"))


def epilogue_ops(kinds: tuple[str, ...] = tuple(EPILOGUE_KINDS)) -> st.SearchStrategy[EpilogueOp]:
    """One epilogue step of the given kinds, with parameters a network would use."""
    return st.sampled_from(kinds).flatmap(_with_params)


def _with_params(kind: str) -> st.SearchStrategy[EpilogueOp]:
    # multiples of 1/64 are exact in float32 and in the nine digits of the text form
    unit = st.integers(1, 32).map(lambda n: n / 64)
    if kind == "leakyrelu":
        return unit.map(lambda slope: EpilogueOp(kind, (slope,)))
    if kind == "clip":
        return unit.map(lambda high: EpilogueOp(kind, (-high, 12 * high)))
    if kind == "hardsigmoid":
        return unit.map(lambda alpha: EpilogueOp(kind, (alpha, 0.5)))
    return st.just(EpilogueOp(kind))


@st.composite
def data_types(draw: st.DrawFn) -> DataTypes:
    """Types that belong together, with any scales and zero points that they allow."""
    if draw(st.booleans()):
        return draw(st.sampled_from([FLOAT32, DataTypes(*["float16"] * 2, "float32", "float16")]))
    names = [draw(st.sampled_from(("int8", "uint8"))) for _ in range(2)]
    output = draw(st.sampled_from(("int8", "uint8", "int32", "float32")))
    return draw(st.sampled_from(_quantised(*names, "int32", output)))


def _quantised(*names: str) -> list[DataTypes]:
    """Every kind of scales and zero points that these types allow."""
    flags = [field.name for field in fields(Quantisation) if field.name != "requantise"]
    found = []
    for requantise in REQUANTISE:
        for values in product((False, True), repeat=len(flags)):
            try:
                kind = Quantisation(requantise, **dict(zip(flags, values, strict=True)))
                found.append(DataTypes(*names, kind))
            except WorkloadError:
                continue
    return found


@st.composite
def epilogues(draw: st.DrawFn) -> tuple[EpilogueOp, ...]:
    """An epilogue as networks have it: maybe a bias, then in either order residual, activation."""
    steps = [EpilogueOp("bias")] if draw(st.booleans()) else []
    tail: list[EpilogueOp] = []
    if draw(st.booleans()):
        tail.append(EpilogueOp("add"))
    if draw(st.booleans()):
        tail.append(draw(epilogue_ops(_ACTIVATIONS)))
    return (*steps, *draw(st.permutations(tail)))


@st.composite
def conv2d_workloads(
    draw: st.DrawFn,
    *,
    channels: tuple[int, ...] = CHANNELS,
    max_size: int = 20,
    max_kernel: int = 5,
    max_stride: int = 3,
    max_dilation: int = 2,
    max_batch: int = 2,
    groups: tuple[int, ...] = (1, 2, 4),
    data_layouts: tuple[str, ...] = ("NCHWc",),
    types: st.SearchStrategy[DataTypes] | None = None,
    with_epilogue: bool = True,
) -> Conv2dWorkload:
    """A valid convolution: any stride, dilation, groups, 4-sided padding and odd sizes.

    ``channels`` are the counts of ONE group; a drawn group count multiplies both sides.
    """
    group = draw(st.sampled_from(groups))
    workload = draw(
        _convolutions(
            group * draw(st.sampled_from(channels)),
            group * draw(st.sampled_from(channels)),
            group,
            max_size,
            max_kernel,
            max_stride,
            max_dilation,
            max_batch,
            draw(st.sampled_from(data_layouts)),
            with_epilogue,
        )
    )
    return workload if types is None else replace(workload, types=draw(types))


@st.composite
def depthwise_workloads(
    draw: st.DrawFn,
    *,
    channels: tuple[int, ...] = CHANNELS,
    max_size: int = 20,
    max_kernel: int = 5,
    max_stride: int = 3,
    max_dilation: int = 2,
    max_batch: int = 2,
    with_epilogue: bool = True,
) -> Conv2dWorkload:
    """A depthwise convolution: as many groups as channels."""
    count = draw(st.sampled_from([c for c in channels if c > 1]))
    sizes = (max_size, max_kernel, max_stride, max_dilation, max_batch)
    return draw(_convolutions(count, count, count, *sizes, "NCHWc", with_epilogue))


@st.composite
def _convolutions(
    draw: st.DrawFn,
    in_channels: int,
    out_channels: int,
    groups: int,
    max_size: int,
    max_kernel: int,
    max_stride: int,
    max_dilation: int,
    max_batch: int,
    data_layout: str,
    with_epilogue: bool,
) -> Conv2dWorkload:
    kernel = [draw(st.integers(1, max_kernel)) for _ in "hw"]
    dilation = [draw(st.integers(1, max_dilation)) if k > 1 else 1 for k in kernel]
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    # top, left, bottom, right; padding beyond the kernel's reach adds whole rows of zeros,
    # which ONNX allows and networks never do
    pads = [draw(st.integers(0, span[i % 2] - 1)) for i in range(4)]
    smallest = [max(1, span[i] - pads[i] - pads[i + 2]) for i in range(2)]
    size = [draw(st.integers(low, max(low, max_size))) for low in smallest]
    return image_layer(
        (in_channels, out_channels),
        size,
        kernel,
        [draw(st.integers(1, max_stride)) for _ in "hw"],
        pads,
        dilation,
        batch=draw(st.integers(1, max_batch)),
        groups=groups,
        data_layout=data_layout,
        epilogue=draw(epilogues()) if with_epilogue else (),
    )


def image_layer(
    channels: tuple[int, int],
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    **others: Any,
) -> Conv2dWorkload:
    """A convolution of images: input and output channels, rows and columns of what has both.

    ``pads`` are those at the top, left, bottom and right.
    """
    names = ("in_height", "in_width", "kernel_h", "kernel_w", "stride_h", "stride_w")
    sides = ("pad_top", "pad_left", "pad_bottom", "pad_right", "dilation_h", "dilation_w")
    values = (*size, *kernel, *stride, *pads, *dilation)
    given = dict(zip((*names, *sides), values, strict=True))
    return Conv2dWorkload(in_channels=channels[0], out_channels=channels[1], **given, **others)


@st.composite
def volumes(draw: st.DrawFn, images: st.SearchStrategy[Conv2dWorkload]) -> Conv2dWorkload:
    """Convolutions of images, taken through a depth: any stride, dilation and padding of it."""
    kernel = draw(st.integers(1, 4))
    dilation = draw(st.integers(1, 2)) if kernel > 1 else 1
    span = (kernel - 1) * dilation + 1
    # a whole window may be in the padding
    front, back = draw(st.integers(0, span)), draw(st.integers(0, span))
    return replace(
        draw(images),
        in_depth=draw(st.integers(max(1, span - front - back), 7)),
        kernel_d=kernel,
        stride_d=draw(st.integers(1, 3)),
        pad_front=front,
        pad_back=back,
        dilation_d=dilation,
    )


@dataclass(frozen=True)
class ConvArrays:
    """Operands of one workload in logical layout, normally distributed.

    The values are FP32, rounded to the workload's types where these are floating-point types.
    ``data`` is NCHW, ``weight`` OIHW scaled to keep the output's variance near one, ``bias`` (K,)
    and ``residual`` NKHW. The last two are always present, also where the epilogue uses neither. Of
    3-D convolutions they have the shapes that the workload names.
    """

    data: npt.NDArray[np.float32]
    weight: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    residual: npt.NDArray[np.float32]


def conv_arrays(workload: Conv2dWorkload, seed: int = 0) -> ConvArrays:
    """Seeded operands of a workload."""
    w = workload
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    def fit(values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.float32]:
        return rounded(values, dtype) if "float" in dtype else values

    return ConvArrays(
        data=fit(normal(*w.data_shape), w.types.data),
        weight=fit(normal(*w.weight_shape, scale=w.taps**-0.5), w.types.weight),
        bias=normal(w.out_channels),
        residual=fit(normal(*w.result_shape), w.types.output),
    )
