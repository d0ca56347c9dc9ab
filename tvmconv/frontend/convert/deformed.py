"""Deformable convolution: samples at computed places, and a product with the weight."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tvmconv.frontend.convert.conv import WINDOW
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.windows import Window, conv_window
from tvmconv.operators.deformed_columns import DeformedWindow, deformed_columns
from tvmconv.operators.vector_loops import LOOPS
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts("DeformConv", attrs=f"{WINDOW} offset_group", inputs=3)
def deform_conv(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """DeformConv of images, as columns times the weight."""
    data, weight = (e.shape(name) for name in node.inputs[:2])
    bias = node.input(3)
    window = conv_window(node, data, weight, e.shape(bias) if bias else None)
    if len(window.kernel) != 2:
        raise node.error(
            f"data of shape {data} have {len(window.kernel)} spatial dimensions; two are supported",
            "cut the model before it",
        )
    columns = _columns(e, node, window)
    maker = _Product(e, node, window)
    return maker.grouped(columns) if window.groups > 1 else maker.whole(columns)


def _columns(e: RelaxWriter, node: OnnxNode, window: Window) -> RelaxExpr:
    batch, channels, *size = e.shape(node.inputs[0])
    parts = int(node.attrs.get("offset_group", 1))
    taps, points = prod(window.kernel), prod(window.output)
    if parts < 1 or channels % parts:
        raise node.error(f"offset_group={parts} does not divide the {channels} channels")
    for index, pairs, what in ((2, 2, "offsets"), (4, 1, "the mask")):
        wanted = (batch, parts * taps * pairs, *window.output)
        if node.input(index) and e.shape(node.inputs[index]) != wanted:
            raise node.misfit(f"{what} have shape {e.shape(node.inputs[index])}, not {wanted}")
    x = e.emit(op.permute_dims(e.value(node.inputs[0]), [0, 2, 3, 1]), "pixels")
    operands = [
        e.emit(op.reshape(x, (batch, prod(size), channels)), "pixels"),
        e.emit(op.reshape(e.value(node.inputs[2]), (batch, parts, taps, 2, points)), "offsets"),
    ]
    if node.input(4):
        mask = e.value(node.inputs[4])
        operands.append(e.emit(op.reshape(mask, (batch, parts, taps, points)), "mask"))
    deformed = DeformedWindow(
        _pair(size), _pair(window.kernel), _pair(window.strides), _pair(window.dilations),
        _pair(window.begin), _pair(window.output), window.groups, parts,
    )  # fmt: skip
    call = e.builder.call_te(
        lambda x, offsets, mask=None: deformed_columns(x, offsets, mask, deformed),
        *operands,
        primfunc_name_hint="deformed_columns",
        primfunc_attrs={LOOPS: True, "op_pattern": OPAQUE},
    )
    return e.emit(call, "columns")


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    return first, second


class _Product:
    """The product of columns and the weight, with the bias."""

    def __init__(self, e: RelaxWriter, node: OnnxNode, window: Window) -> None:
        self.e, self.node = e, node
        self.batch = e.shape(node.inputs[0])[0]
        self.points, self.target = prod(window.output), e.shape(node.outputs[0])
        self.groups = window.groups
        self.outputs, self.depth, *_ = e.shape(node.inputs[1])
        self.taps = prod(window.kernel)

    def whole(self, columns: RelaxExpr) -> RelaxExpr:
        """One group: a dense layer of points."""
        e, rows = self.e, self.batch * self.points
        flat = e.emit(op.reshape(columns, (rows, self.taps * self.depth)), "rows")
        weight = self._weight((self.taps * self.depth, self.outputs))
        y = e.emit(op.matmul(flat, weight), "product")
        if bias := self.node.input(3):
            y = e.emit(op.add(y, e.value(bias)), "biased")
        y = e.emit(op.reshape(y, (self.batch, self.points, self.outputs)), "points")
        y = e.emit(op.permute_dims(y, [0, 2, 1]), "planes")
        return op.reshape(y, self.target)

    def grouped(self, columns: RelaxExpr) -> RelaxExpr:
        """Several groups: one product for each."""
        e, wide = self.e, self.outputs // self.groups
        y = e.emit(
            op.matmul(columns, self._weight((self.groups, self.taps * self.depth, wide))), "product"
        )
        y = e.emit(op.permute_dims(y, [0, 1, 3, 2]), "planes")
        y = e.emit(op.reshape(y, self.target), "planes")
        if bias := self.node.input(3):
            row = e.emit(op.reshape(e.value(bias), (1, self.outputs, 1, 1)), "bias")
            return op.add(y, row)
        return y

    def _weight(self, shape: tuple[int, ...]) -> Any:
        """The weight with taps before channels, and outputs last."""
        name = self.node.inputs[1]
        grouped = (self.groups, self.outputs // self.groups, self.depth, self.taps)
        order = [0, 3, 2, 1]
        array = self.e.array(name)
        if array is not None:
            moved = array.reshape(grouped).transpose(order).reshape(shape)
            return constant(np.ascontiguousarray(moved))
        w = self.e.emit(op.reshape(self.e.value(name), grouped), "weight")
        w = self.e.emit(op.permute_dims(w, order), "weight")
        return self.e.emit(op.reshape(w, shape), "weight")
