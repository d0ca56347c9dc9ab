"""Pooling over windows and over whole planes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.windows import Window, pool_window
from tvmconv.operators.pool import PoolWindow
from tvmconv.operators.pool_indices import max_pool_indices
from tvmconv.operators.vector_loops import LOOPS
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

_WINDOW = "auto_pad ceil_mode dilations kernel_shape pads strides"


@converts("MaxPool", attrs=f"{_WINDOW} storage_order")
def max_pool(e: RelaxWriter, node: OnnxNode) -> RelaxExpr | list[RelaxExpr]:
    """MaxPool with ``ceil_mode`` as padding; padded elements are never selected."""
    pool = _Pool.of(e, node)
    values = pool.finish(pool.call(e, "max", pool.image(e, node)))
    if len(node.outputs) < 2 or node.outputs[1] not in e.uses:
        return values
    return [e.emit(values), _pool_indices(e, node)]


def _pool_indices(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The output Indices of a MaxPool."""
    shape, result = e.shape(node.inputs[0]), e.shape(node.outputs[1])
    window = pool_window(node, shape)
    windows = [
        PoolWindow(*sizes, False)
        for sizes in zip(
            window.kernel, window.strides, window.begin, window.end, window.dilations, strict=True
        )
    ]
    first_fastest = bool(node.attrs.get("storage_order", 0))
    view = e.emit(
        relax.op.reshape(e.value(node.inputs[0]), (prod(shape[:2]), *shape[2:])), "planes"
    )
    call = e.builder.call_te(
        lambda x: max_pool_indices(x, windows, result[2:], first_fastest=first_fastest),
        view,
        primfunc_name_hint="max_pool_indices",
        primfunc_attrs={LOOPS: True},
    )
    return relax.op.reshape(e.emit(call, "places"), result)


@converts("AveragePool", attrs=f"{_WINDOW} count_include_pad")
def average_pool(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """AveragePool; each window divides by the elements it covers inside input and padding.

    ``count_include_pad`` counts the model's padding but not what ``ceil_mode`` adds at the end.
    """
    pool = _Pool.of(e, node)
    x = pool.image(e, node)
    count_padding = bool(node.attrs.get("count_include_pad", 0))
    if count_padding and any(pool.window.extra):
        # only the model's padding counts: pad explicitly
        x, pool = pool.padded(e, x)
        count_padding = False
    return pool.finish(pool.call(e, "avg", x, count_padding=count_padding))


@converts("LpPool", attrs=f"{_WINDOW} p")
def lp_pool(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The p-norm of each window, from the mean of the powers over all taps of the window.

    Padding, including the padding of ``ceil_mode``, holds zeros, which do not change the norm.
    """
    p, dtype = _order(node), e.dtype(node.inputs[0])
    pool = _Pool.of(e, node)
    powers = e.emit(_powers(e, pool.image(e, node), p, dtype), "powers")
    mean = pool.call(e, "avg", powers, count_padding=True)
    total = e.emit(relax.op.multiply(mean, e.scalar(prod(pool.window.kernel), dtype)), "sum")
    return pool.finish(e.emit(_root(e, total, p, dtype), "norm"))


@converts("GlobalLpPool", attrs="p")
def global_lp_pool(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The p-norm over all spatial dimensions."""
    p, dtype = _order(node), e.dtype(node.inputs[0])
    powers = e.emit(_powers(e, e.value(node.inputs[0]), p, dtype), "powers")
    total = e.emit(relax.op.sum(powers, axis=_spatial(e, node), keepdims=True), "sum")
    return _root(e, total, p, dtype)


def _order(node: OnnxNode) -> int:
    """The p of a p-norm."""
    p = int(node.attrs.get("p", 2))
    if p < 1:
        raise node.error(f"p={p} must be 1 or more")
    return p


def _powers(e: RelaxWriter, x: RelaxExpr, p: int, dtype: str) -> RelaxExpr:
    """The p-th powers of the elements' magnitudes."""
    if p == 2:
        return relax.op.multiply(x, x)
    magnitudes = relax.op.abs(x)
    return magnitudes if p == 1 else relax.op.power(magnitudes, e.scalar(p, dtype))


def _root(e: RelaxWriter, total: RelaxExpr, p: int, dtype: str) -> RelaxExpr:
    """The p-th root of their sum."""
    if p == 2:
        return relax.op.sqrt(total)
    return total if p == 1 else relax.op.power(total, e.scalar(1 / p, dtype))


@dataclass(frozen=True)
class _Pool:
    """A pooling window of two or three dimensions; one dimension is a row of an image."""

    window: Window
    is_row: bool

    @classmethod
    def of(cls, e: RelaxWriter, node: OnnxNode) -> _Pool:
        window = pool_window(node, e.shape(node.inputs[0]))
        is_row = len(window.kernel) == 1
        return cls(window.as_row() if is_row else window, is_row)

    def image(self, e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
        """The input as an image."""
        x = e.value(node.inputs[0])
        return e.emit(relax.op.expand_dims(x, 2), "row") if self.is_row else x

    def padded(self, e: RelaxWriter, x: RelaxExpr) -> tuple[RelaxExpr, _Pool]:
        """The input with the model's padding in it, and the window that is left."""
        w, none = self.window, (0,) * len(self.window.kernel)
        pool = replace(self, window=replace(w, begin=none, end=none))
        if not any(w.padding):
            return x, pool
        widths = [0, 0, 0, 0]
        for low, high in zip(w.begin, w.end, strict=True):
            widths += [low, high]
        return e.emit(relax.op.nn.pad(x, widths), "pad"), pool

    def call(
        self, e: RelaxWriter, kind: str, x: RelaxExpr, *, count_padding: bool = False
    ) -> RelaxExpr:
        """The pooling call."""
        w = self.window
        table = {
            ("max", 2): relax.op.nn.max_pool2d,
            ("max", 3): relax.op.nn.max_pool3d,
            ("avg", 2): relax.op.nn.avg_pool2d,
            ("avg", 3): relax.op.nn.avg_pool3d,
        }
        end = tuple(p + q for p, q in zip(w.end, w.extra, strict=True))
        call = table[kind, len(w.kernel)](
            x, pool_size=w.kernel, strides=w.strides, padding=w.begin + end,
            dilation=w.dilations, ceil_mode=False, count_include_pad=count_padding,
        )  # fmt: skip
        return e.emit(call)

    def finish(self, y: RelaxExpr) -> RelaxExpr:
        """The result without the axis that made a row an image."""
        return relax.op.squeeze(y, 2) if self.is_row else y


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Mean or maximum over all spatial dimensions."""
    reduce = relax.op.mean if node.op == "GlobalAveragePool" else relax.op.max
    return reduce(e.value(node.inputs[0]), axis=_spatial(e, node), keepdims=True)


def _spatial(e: RelaxWriter, node: OnnxNode) -> list[int]:
    axes = list(range(2, len(e.shape(node.inputs[0]))))
    if not axes:
        raise node.error("its input has no spatial dimensions")
    return axes
