"""A quantized case for libraries that store a scale with each tensor.

The case holds QuantizeLinear and DequantizeLinear around float operators. Here both are removed: a
value keeps its name, and a table says how it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .case import Array, Case, CaseNode, Unsupported

_OPERATORS = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True)
class Storage:
    """``value = scale * (stored - zero_point)``, stored as ``dtype``.

    ``scale`` is FP32, of shape () or one number for each channel along ``axis``.
    """

    scale: Array
    zero_point: int
    dtype: np.dtype[np.integer[Any]]
    axis: int = 0

    def signed(self) -> Storage:
        """The same values in int8."""
        if self.dtype == np.int8:
            return self
        if self.dtype != np.uint8:
            raise Unsupported(f"activations of {self.dtype}")
        return replace(self, zero_point=self.zero_point - 128, dtype=np.dtype("int8"))

    @property
    def largest(self) -> float:
        """The largest magnitude of a value that it can hold."""
        info = np.iinfo(self.dtype)
        steps = max(info.max - self.zero_point, self.zero_point - info.min)
        return float(self.scale.max()) * steps

    @property
    def least(self) -> float:
        """The minimum value that it can hold."""
        return float(self.scale.max()) * (np.iinfo(self.dtype).min - self.zero_point)

    def same(self, other: Storage | None) -> bool:
        """Whether stored numbers represent the same values."""
        return (
            other is not None
            and self.dtype == other.dtype
            and self.zero_point == other.zero_point
            and np.array_equal(self.scale, other.scale)
        )


@dataclass(frozen=True)
class QuantizedCase:
    """A case without quantizing operators.

    The quantized constants of ``case`` are FP32; ``integers`` has their stored values. ``storage``
    says how a value is stored, by its name; FP32 where it has no entry. ``stored_outputs`` is the
    same for integer outputs, by their names here.
    """

    case: Case
    storage: Mapping[str, Storage]
    integers: Mapping[str, Array]
    stored_outputs: Mapping[str, Storage]

    def weight(self, name: str) -> tuple[Array, Array] | None:
        """A stored weight in int8 with a scale for each output channel; None for a float one.

        Raises :class:`Unsupported` if its zero point is not 0.
        """
        if name not in self.integers or self.integers[name].dtype not in (np.int8, np.uint8):
            return None
        kept = self.storage[name].signed()
        if kept.zero_point:
            raise Unsupported(f"weights with a zero point: {name}")
        shift = 128 if self.integers[name].dtype == np.uint8 else 0
        stored = (self.integers[name].astype("int16") - shift).astype("int8")
        channels = stored.shape[kept.axis] if kept.scale.ndim else stored.shape[0]
        return stored, np.broadcast_to(kept.scale, (channels,)).astype("float32")


def is_quantized(case: Case) -> bool:
    """Whether a case needs :func:`without_quantizers`."""
    return any(node.op in _OPERATORS for node in case.nodes)


def without_quantizers(case: Case) -> QuantizedCase:
    """Remove the quantizing operators from a case.

    Raises :class:`Unsupported` if a scale is computed at run time, or a value is quantized in two
    ways.
    """
    alias: dict[str, str] = {}
    storage: dict[str, Storage] = {}
    integers: dict[str, Array] = {}
    constants = dict(case.constants)
    nodes: list[CaseNode] = []

    def note(name: str, kept: Storage) -> None:
        if name in storage and not kept.same(storage[name]):
            raise Unsupported(f"{name!r} is quantized in two ways")
        storage[name] = kept

    for node in case.nodes:
        sources = tuple(alias.get(name, name) for name in node.inputs)
        if node.op not in _OPERATORS:
            nodes.append(replace(node, inputs=sources))
            continue
        name, kept = sources[0], _storage(case, node)
        if name in constants:
            stored = constants[name]
            constants[node.output] = _real(stored, kept)
            storage[node.output], integers[node.output] = kept, stored
            continue
        note(name, kept)
        alias[node.output] = name
    outputs = {alias.get(name, name): name for name in case.outputs}
    if len(outputs) != len(case.outputs):
        raise Unsupported("one value as two outputs")
    plain = replace(case, nodes=tuple(nodes), constants=constants, outputs=tuple(outputs))
    makers = {node.output: node for node in case.nodes if node.op == "QuantizeLinear"}
    kept_outputs = {
        new: _storage(case, makers[old]) for new, old in outputs.items() if old in makers
    }
    return QuantizedCase(plain, storage, integers, kept_outputs)


def _storage(case: Case, node: CaseNode) -> Storage:
    scale = case.constant(node.inputs[1]).astype("float32")
    if not node.input(2):
        return Storage(np.squeeze(scale), 0, np.dtype("uint8"), node.attrs.get("axis", 1))
    points = case.constant(node.input(2))
    if np.unique(points).size > 1:
        raise Unsupported(f"zero points that differ by channel: {node.input(2)!r}")
    scale = scale if scale.size > 1 else scale.reshape(())
    return Storage(scale, int(points.flat[0]), points.dtype, node.attrs.get("axis", 1))


def _real(stored: Array, kept: Storage) -> Array:
    shape = [1] * stored.ndim
    if kept.scale.ndim:
        shape[kept.axis % stored.ndim] = -1
    real: Array = (stored.astype("float32") - kept.zero_point) * kept.scale.reshape(shape)
    return real.astype("float32")
