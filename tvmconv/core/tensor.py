"""Arrays, and the name, shape and type of a model's input or output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy.typing as npt

from .stored_types import numpy_type

Array = npt.NDArray[Any]

# full shapes by input name, and sizes by the name of a symbolic dimension
Shapes = Mapping[str, Sequence[int] | int]
# the same, or lists of these, of which position i of each makes one program
ShapeLists = Mapping[str, Sequence[int] | int | Sequence[Sequence[int]]]


class Declared(Protocol):
    """A tensor as a model declares it; dimensions may be open."""

    @property
    def name(self) -> str:
        """The ONNX value's name."""

    @property
    def shape(self) -> Any:
        """Sizes, with a name or None for an open dimension; None for an unknown rank."""

    @property
    def dtype(self) -> str:
        """Element type in numpy's or ml_dtypes' spelling."""


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a model.

    Parameters
    ----------
    name
        The ONNX value's name.
    shape
        Sizes in elements, all static, in the model's own (plain) layout.
    dtype
        Element type in numpy's or ml_dtypes' spelling, such as ``float32``, ``bfloat16``.
    varying
        The axis whose extent depends on the data of a call, if there is one. Its size in ``shape``
        is the largest.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    varying: int | None = None

    @property
    def bytes(self) -> int:
        """Its size."""
        return prod(self.shape) * numpy_type(self.dtype).itemsize

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        varying = {} if self.varying is None else {"varying": self.varying}
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype, **varying}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TensorInfo:
        """Inverse of :meth:`to_json`."""
        return cls(data["name"], tuple(data["shape"]), data["dtype"], data.get("varying"))

    def __str__(self) -> str:
        sizes = [f"{'<=' * (i == self.varying)}{size}" for i, size in enumerate(self.shape)]
        return f"{self.name}: {self.dtype}[{', '.join(sizes)}]"
