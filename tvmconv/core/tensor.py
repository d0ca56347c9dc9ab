"""Arrays, and the name, shape and type of a model's input or output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from .stored_types import numpy_type

Array = npt.NDArray[Any]

# full shapes by input name, and sizes by the name of a symbolic dimension
Shapes = Mapping[str, Sequence[int] | int]


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
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Its size."""
        return prod(self.shape) * numpy_type(self.dtype).itemsize

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TensorInfo:
        """Inverse of :meth:`to_json`."""
        return cls(data["name"], tuple(data["shape"]), data["dtype"])

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"
