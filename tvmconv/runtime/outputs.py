"""The outputs of a call, by position and by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.tensor import Array, TensorInfo


class Outputs(tuple[Any, ...]):
    """Output arrays, or tensors of a GPU, in the model's order: a tuple that knows their names.

    ``out[0]`` and ``out["prob"]`` are the same array; iteration and unpacking go over the
    arrays, ``keys``, ``items`` and ``dict(out)`` over the names.
    """

    names: tuple[str, ...]

    def __new__(cls, names: tuple[str, ...], arrays: Sequence[Any]) -> Outputs:
        """Pair names with arrays."""
        self = tuple.__new__(cls, arrays)
        self.names = names
        return self

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return super().__getitem__(self.names.index(key))
            except ValueError:
                raise KeyError(f"{key!r}; the outputs are {', '.join(self.names)}") from None
        try:
            return super().__getitem__(key)
        except IndexError:
            raise IndexError(f"output {key}; the outputs are {', '.join(self.names)}") from None

    def __contains__(self, item: object) -> bool:
        return item in self.names if isinstance(item, str) else any(item is a for a in self)

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[Array, ...]]:
        return self.names, tuple(self)

    def keys(self) -> tuple[str, ...]:
        """Output names in order."""
        return self.names

    def values(self) -> tuple[Array, ...]:
        """Output arrays in order."""
        return tuple(self)

    def items(self) -> Iterator[tuple[str, Array]]:
        """Pairs of name and array in order."""
        return zip(self.names, self, strict=True)

    def __repr__(self) -> str:
        parts = (f"{n}: {a.dtype}[{', '.join(map(str, a.shape))}]" for n, a in self.items())
        return f"Outputs({'; '.join(parts)})"


def part(array: Any, info: TensorInfo, extent: int | None) -> Any:
    """A view of the elements of an output that exist."""
    if info.varying is None:
        return array
    return array[(slice(None),) * info.varying + (slice(extent),)]


def cut(array: Array, info: TensorInfo, extent: int | None) -> Array:
    """As :func:`part`, or a copy where the view is not C-contiguous."""
    if info.varying == 0:
        return array[:extent]
    found = part(array, info, extent)
    return found if info.varying is None else np.ascontiguousarray(found)
