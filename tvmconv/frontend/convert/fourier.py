"""DFT and STFT: products with constant matrices.

A short transform is one product with a matrix of cosines and sines. The transform of a longer
composite length is two products with small matrices and a multiplication between them (Cooley and
Tukey, 1965). A long prime length becomes a convolution, which composite lengths compute
(Bluestein, 1970). A real signal's transform is computed up to its middle only: the rest mirrors it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.signals import stft_frames
from tvmconv.operators import fourier
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op
# up to these lengths, one product is faster than two and the copies between them
_DENSE_REAL, _DENSE_COMPLEX = 64, 32
# a prime length beyond it is not multiplied by its matrix
_PRIME = 512
# bytes of tables, and of arrays from which they are made, for a complex number
_FACTOR_BYTES = 64


@converts("STFT", attrs="onesided", inputs=2)
def stft(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Transforms of the pieces of a signal, each multiplied by the window."""
    batch, _, parts = e.shape(node.inputs[0])
    _, count, bins, _ = e.shape(node.outputs[0])
    step, length = stft_frames(e.graph, node)
    window = node.input(2)
    operands = [e.value(node.inputs[0])] + ([e.value(window)] if window else [])
    pieces = e.emit(
        e.builder.call_te(
            lambda x, w=None: fourier.frames(x, w, count, step, length),
            *operands,
            primfunc_name_hint="frames",
        ),
        "frames",
    )
    dtype = e.dtype(node.inputs[0])
    transform = _Transform(e, node, dtype, inverse=False)
    rows = e.emit(op.reshape(pieces, (batch * count, length, parts)), "rows")
    result = transform.run(rows, batch * count, length, parts, bins)
    return op.reshape(result, (batch, count, bins, 2))


@converts("DFT", attrs="axis inverse onesided")
def dft(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The transform along an axis; the signal is cut or filled up with zeros to the length."""
    shape, target = e.shape(node.inputs[0]), e.shape(node.outputs[0])
    rank = len(shape)
    axis = int(node.attrs.get("axis", 1)) if node.opset < 20 else -2
    if node.input(2):
        axis = e.integer(node, 2, "axis")
    axis %= rank
    inverse, onesided = (bool(node.attrs.get(name, 0)) for name in ("inverse", "onesided"))
    to_real = inverse and onesided
    length = 2 * (shape[axis] - 1) if to_real else shape[axis]
    if node.input(1):
        length = e.integer(node, 1, "dft_length")
    if length < 1 or min(shape) < 1 or shape[-1] > 2 or axis == rank - 1:
        raise node.error(f"it has dft_length={length}, axis={axis} and data of shape {shape}")
    order = [i for i in range(rank - 1) if i != axis] + [axis, rank - 1]
    x = e.value(node.inputs[0])
    if order != list(range(rank)):
        x = e.emit(op.permute_dims(x, order), "moved")
    size, parts = shape[axis], shape[-1]
    outer = [shape[i] for i in order[:-2]]
    count = int(np.prod(outer))
    x = e.emit(op.reshape(x, (count, size, parts)), "rows")
    wanted = length // 2 + 1 if to_real else length
    if wanted < size:
        x = e.emit(op.strided_slice(x, [1], [0], [wanted]), "cut")
    elif wanted > size:
        x = e.emit(op.nn.pad(x, [0, 0, 0, wanted - size, 0, 0]), "filled")
    transform = _Transform(e, node, e.dtype(node.inputs[0]), inverse=inverse)
    if to_real:
        result = transform.to_real(x, count, length, parts)
    else:
        result = transform.run(x, count, length, parts, target[axis])
    moved = [target[i] for i in order]
    result = e.emit(op.reshape(result, moved), "result")
    return op.permute_dims(result, [order.index(i) for i in range(rank)])


def _factor(n: int) -> int:
    """The largest divisor of ``n`` up to its root."""
    return next(d for d in range(isqrt(n), 0, -1) if n % d == 0)


def _smooth(n: int) -> int:
    """The next number from ``n`` on without prime factors beyond 5."""
    while True:
        rest = n
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return n
        n += 1


@dataclass(frozen=True)
class _Transform:
    """Transforms of rows of one node; ``inverse`` ones are divided by their length."""

    e: RelaxWriter
    node: OnnxNode
    dtype: str
    inverse: bool

    def run(self, x: RelaxExpr, rows: int, n: int, parts: int, bins: int) -> RelaxExpr:
        """The first ``bins`` results of rows ``(rows, n, parts)``: ``(rows, bins, 2)``."""
        scale = 1 / n if self.inverse else 1.0
        if parts == 1:
            return self._real(x, rows, n, bins, scale)
        result = self._complex(x, rows, n, scale)
        if bins < n:
            result = self.e.emit(op.strided_slice(result, [1], [0], [bins]), "bins")
        return result

    def to_real(self, x: RelaxExpr, rows: int, n: int, parts: int) -> RelaxExpr:
        """The real signal ``(rows, n, 1)`` of the first half of its transform."""
        half = n // 2 + 1
        # real parts of the products; results after the middle are conjugates of those before it
        weight = np.full(half, 2.0)
        weight[0] = 1
        if n % 2 == 0:
            weight[-1] = 1
        if n <= _DENSE_REAL:
            angle = self._angles(np.arange(half), np.arange(n), n)
            matrix = np.stack([np.cos(angle), -np.sin(angle)], axis=1)[:, :parts]
            matrix = matrix * weight[:, None, None] / n
            return self._product(x, rows, matrix.reshape(half * parts, n), (n, 1))
        places = np.arange(n)
        is_mirrored = places >= half
        places = np.where(is_mirrored, n - places, places)
        signs = np.stack([np.ones(n), np.where(is_mirrored, -1.0, 1.0)], axis=1)
        if parts == 1:
            x = self.e.emit(op.nn.pad(x, [0, 0, 0, 0, 0, 1]), "imaginary")
        whole = self._mirrored(x, places, signs)
        result = self._complex(whole, rows, n, 1 / n)
        return self.e.emit(op.strided_slice(result, [2], [0], [1]), "real")

    def _real(self, x: RelaxExpr, rows: int, n: int, bins: int, scale: float) -> RelaxExpr:
        """The transform of real rows ``(rows, n, 1)``."""
        first = _factor(n)
        second = n // first
        if n <= _DENSE_REAL or (first == 1 and n <= _PRIME):
            return self._product(x, rows, self._matrix(n, bins, scale)[::2], (bins, 2))
        if first == 1:
            x = self.e.emit(op.nn.pad(x, [0, 0, 0, 0, 0, 1]), "imaginary")
            whole = self._complex(x, rows, n, scale)
            return self.e.emit(op.strided_slice(whole, [1], [0], [bins]), "bins")
        # results k = k1 + n1 * k2 from k1 up to the middle of n1; others are conjugates of n - k
        half = first // 2 + 1
        columns = self._columns(x, rows, first, second, 1)
        inner = self._real(columns, rows * second, first, half, 1.0)
        outer = self._second(inner, rows, first, second, half, scale)
        k = np.arange(bins)
        is_mirrored = k % first >= half
        k = np.where(is_mirrored, n - k, k)
        places = k % first * second + k // first
        signs = np.stack([np.ones(bins), np.where(is_mirrored, -1.0, 1.0)], axis=1)
        flat = self.e.emit(op.reshape(outer, (rows, half * second, 2)), "flat")
        return self._mirrored(flat, places, signs)

    def _complex(self, x: RelaxExpr, rows: int, n: int, scale: float) -> RelaxExpr:
        """The transform of complex rows ``(rows, n, 2)``."""
        first = _factor(n)
        second = n // first
        if n <= _DENSE_COMPLEX or (first == 1 and n <= _PRIME):
            return self._product(x, rows, self._matrix(n, n, scale), (n, 2))
        if first == 1:
            return self._prime(x, rows, n, scale)
        columns = self._columns(x, rows, first, second, 2)
        inner = self._complex(columns, rows * second, first, 1.0)
        outer = self._second(inner, rows, first, second, first, scale)
        whole = self.e.emit(op.reshape(outer, (rows, first, second, 2)), "outer")
        whole = self.e.emit(op.permute_dims(whole, [0, 2, 1, 3]), "order")
        return self.e.emit(op.reshape(whole, (rows, n, 2)), "whole")

    def _columns(self, x: RelaxExpr, rows: int, first: int, second: int, parts: int) -> RelaxExpr:
        """Every ``second``-th element, as rows of ``first`` elements."""
        e = self.e
        x = e.emit(op.reshape(x, (rows, first, second, parts)), "matrix")
        x = e.emit(op.permute_dims(x, [0, 2, 1, 3]), "columns")
        return e.emit(op.reshape(x, (rows * second, first, parts)), "columns")

    def _second(
        self, inner: RelaxExpr, rows: int, first: int, second: int, kept: int, scale: float
    ) -> RelaxExpr:
        """Factors, and transforms of ``second`` elements, of the first transforms' results."""
        e = self.e
        e.reserve(self.node, _FACTOR_BYTES * second * kept)
        angle = self._angles(np.arange(second), np.arange(kept), first * second)
        factors = self._table(np.stack([np.cos(angle), np.sin(angle)], axis=2))
        inner = e.emit(op.reshape(inner, (rows, second, kept, 2)), "inner")
        call = e.builder.call_te(fourier.turned, inner, factors, primfunc_name_hint="turned")
        turned = e.emit(op.reshape(e.emit(call, "turned"), (rows * kept, second, 2)), "rows")
        return self._complex(turned, rows * kept, second, scale)

    def _prime(self, x: RelaxExpr, rows: int, n: int, scale: float) -> RelaxExpr:
        """Bluestein's transform: a convolution with a chirp."""
        e, size = self.e, _smooth(2 * n - 1)
        e.reserve(self.node, 4 * _FACTOR_BYTES * size)
        squares = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
        angle = (1 if self.inverse else -1) * np.pi * squares / n
        chirp = np.exp(1j * angle)
        kernel = np.zeros(size, np.complex128)
        kernel[:n] = chirp.conj()
        kernel[size - n + 1 :] = chirp[1:][::-1].conj()
        forward = _Transform(e, self.node, self.dtype, inverse=False)
        backward = _Transform(e, self.node, self.dtype, inverse=True)
        x = self._multiplied(x, chirp)
        x = e.emit(op.nn.pad(x, [0, 0, 0, size - n, 0, 0]), "filled")
        x = forward._complex(x, rows, size, 1.0)
        x = self._multiplied(x, np.fft.fft(kernel))
        x = backward._complex(x, rows, size, 1 / size)
        x = e.emit(op.strided_slice(x, [1], [0], [n]), "cut")
        return self._multiplied(x, chirp * scale)

    def _angles(self, left: Array, right: Array, n: int) -> Array:
        """The angles of the powers of the n-th root, exact for large products."""
        product = np.multiply.outer(left.astype(np.int64), right.astype(np.int64)) % n
        return (2.0 if self.inverse else -2.0) * np.pi * product / n

    def _matrix(self, n: int, bins: int, scale: float) -> Array:
        """The matrix ``(2 * n, 2 * bins)`` of a transform of complex numbers."""
        self.e.reserve(self.node, 4 * _FACTOR_BYTES * n * bins)
        angle = self._angles(np.arange(n), np.arange(bins), n)
        cosine, sine = np.cos(angle) * scale, np.sin(angle) * scale
        real = np.stack([cosine, sine], axis=2)
        imaginary = np.stack([-sine, cosine], axis=2)
        return np.stack([real, imaginary], axis=1).reshape(2 * n, 2 * bins)

    def _product(self, x: RelaxExpr, rows: int, matrix: Array, shape: tuple[int, ...]) -> RelaxExpr:
        flat = self.e.emit(op.reshape(x, (rows, len(matrix))), "flat")
        product = self.e.emit(op.matmul(flat, self._table(matrix)), "product")
        return self.e.emit(op.reshape(product, (rows, *shape)), "parts")

    def _multiplied(self, x: RelaxExpr, factors: Array) -> RelaxExpr:
        table = self._table(np.stack([factors.real, factors.imag], axis=1))
        call = self.e.builder.call_te(fourier.multiplied, x, table, primfunc_name_hint="multiplied")
        return self.e.emit(call, "multiplied")

    def _mirrored(self, x: RelaxExpr, places: Array, signs: Array) -> RelaxExpr:
        self.e.reserve(self.node, _FACTOR_BYTES * len(places))
        call = self.e.builder.call_te(
            fourier.mirrored, x, constant(places.astype(np.int32)), self._table(signs),
            primfunc_name_hint="mirrored",
        )  # fmt: skip
        return self.e.emit(call, "mirrored")

    def _table(self, array: Array) -> Any:
        return constant(np.ascontiguousarray(array).astype(self.dtype))
