"""Arrays, and the name, shape and type of a model's input or output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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

    @property
    def batched(self) -> bool:
        """Whether a call has any number of images along axis 0."""


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
    batched
        Whether axis 0 holds the images of a batch of any size. ``shape`` is then for one image.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    varying: int | None = None
    batched: bool = False

    @property
    def bytes(self) -> int:
        """Its size."""
        return prod(self.shape) * numpy_type(self.dtype).itemsize

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        varying = {} if self.varying is None else {"varying": self.varying}
        batched = {"batched": True} if self.batched else {}
        shape = list(self.shape)
        return {"name": self.name, "shape": shape, "dtype": self.dtype, **varying, **batched}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TensorInfo:
        """Inverse of :meth:`to_json`."""
        varying, batched = data.get("varying"), data.get("batched", False)
        return cls(data["name"], tuple(data["shape"]), data["dtype"], varying, batched)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the tensor of some number of images has this shape."""
        given = tuple(shape)
        if not self.batched or len(given) != len(self.shape):
            return given == self.shape
        return given[0] > 0 and given[0] % self.shape[0] == 0 and given[1:] == self.shape[1:]

    def for_images(self, count: int) -> TensorInfo:
        """The tensor of a call with so many images."""
        if not self.batched:
            return self
        return replace(self, shape=(count * self.shape[0], *self.shape[1:]), batched=False)

    @property
    def sizes(self) -> list[str]:
        """The shape as text: ``N`` for any number of images, ``<=5`` for a largest size."""
        sizes = [f"{'<=' * (i == self.varying)}{size}" for i, size in enumerate(self.shape)]
        if self.batched:
            sizes[0] = "N" if self.shape[0] == 1 else f"{sizes[0]}N"
        return sizes

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(self.sizes)}]"
