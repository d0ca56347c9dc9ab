"""Images from columns of blocks, which are added where they overlap."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvmconv.operators.vector_loops import grid, place_of, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor


def columns_to_image(
    data: Tensor,
    image: Sequence[int],
    block: Sequence[int],
    places: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
) -> Tensor:
    """Images ``(count, *image)`` from ``(count, prod(block), *places)``.

    An element of a block is at ``place * stride + element * dilation - begin`` along each axis.
    """
    count, dtype, rank = int(data.shape[0]), str(data.dtype), len(image)

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, target = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])
            with shared(count) as item:
                with T.serial(0, prod(image)) as flat:
                    target[item, flat] = tirx.const(0, dtype)
                with T.serial(0, prod(block)) as tap:
                    elements = place_of(tap, block)
                    with grid(places) as place:
                        spots = [
                            place[i] * strides[i] + elements[i] * dilations[i] - begin[i]
                            for i in range(rank)
                        ]
                        inside = tirx.all(
                            *(
                                tirx.all(spot >= 0, spot < size)
                                for spot, size in zip(spots, image, strict=True)
                            )
                        )
                        with T.If(inside), T.Then():
                            flat = 0
                            for spot, size in zip(spots, image, strict=True):
                                flat = flat * size + spot
                            old, new = target[item, flat], source[(item, tap, *place)]
                            target[item, flat] = (
                                tirx.any(old, new) if dtype == "bool" else old + new
                            )
            return builder.get()

    result: Any = te.extern(
        [[count, prod(image)]], [data], write, dtype=[dtype], name="columns_to_image"
    )
    return result
