"""The inputs whose first axis counts the images of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmconv.core.arguments import shown
from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import Shapes
from tvmconv.frontend.open_shapes import is_unknown

if TYPE_CHECKING:
    import onnx


class BatchError(ModelError):
    """A model that cannot serve any batch size, for a reason that is not one of its nodes."""


def check_batch(batch: Any) -> bool:
    """Whether a model serves any batch; raises ``ModelError`` for other values than "any"."""
    if batch is not None and batch != "any":
        raise ModelError(
            f"batch={shown(batch)}. Expected 'any'. Give a fixed batch size by --shape, in Python "
            "by shapes=."
        )
    return batch is not None


class BatchInputs:
    """The first axis of the first input counts images.

    Another input has images if its first axis has the same declared size: the same name, any
    unknown size, or 1. Other inputs are equal for all images of a call.
    """

    def __init__(self, inputs: Sequence[onnx.ValueInfoProto]) -> None:
        if not inputs:
            raise BatchError("batch='any': the model has no inputs. Build it without batch='any'.")
        self._declared = {value.name: _dimensions(value) for value in inputs}
        self._first = inputs[0].name
        self._size = self._leading(self._first)
        if self._declared[self._first] == []:
            raise BatchError(
                f"batch='any': input {self._first!r} is a number. Expected images along its first "
                "axis. Build the model without batch='any'."
            )
        if isinstance(self._size, int) and self._size != 1:
            raise BatchError(
                f"batch='any': the model fixes dimension 0 of input {self._first!r} to "
                f"{self._size}. Expected 1, or a symbolic dimension. Export the model again with "
                "that dimension symbolic."
            )

    @property
    def is_fixed(self) -> bool:
        """Whether the file fixes the batch to one image."""
        return self._size == 1

    def batched(self, name: str) -> bool:
        """Whether the first axis of an input counts images."""
        return self._declared[name] != [] and self._leading(name) == self._size

    def sized(self, shapes: Shapes | None, images: int) -> dict[str, Any]:
        """The shapes for a number of images; other sizes stay as they are given."""
        result: dict[str, Any] = dict(shapes or {})
        for name, declared in self._declared.items():
            if not self.batched(name):
                continue
            size = self._leading(name)
            given = result.get(name)
            if isinstance(given, list | tuple) and given:
                result[name] = (_one(name, given[0], images), *given[1:])
            elif given is None and size and isinstance(size, str):
                result[size] = _one(size, (shapes or {}).get(size, 1), images)
            elif given is None and declared and not self.is_fixed:
                rest = [_known(size, result) for size in declared[1:]]
                if all(rest):
                    result[name] = (images, *rest)
        return result

    def _leading(self, name: str) -> int | str | None:
        """The declared size of the first axis: a number, a name, or "" for an unknown one."""
        declared = self._declared[name]
        return declared[0] if declared else ""


def _dimensions(value: onnx.ValueInfoProto) -> list[int | str] | None:
    """Declared sizes: numbers, names, and "" for unknown ones; None for an unknown rank."""
    declared = value.type.tensor_type
    if not declared.HasField("shape"):
        return None
    return [
        int(dim.dim_value)
        if dim.dim_value > 0
        else ("" if is_unknown(dim.dim_param) else str(dim.dim_param))
        for dim in declared.shape.dim
    ]


def _known(size: int | str, shapes: Mapping[str, Any]) -> int:
    found = size if isinstance(size, int) else shapes.get(size, 0)
    return found if isinstance(found, int) else 0


def _one(name: str, given: Any, images: int) -> int:
    if given != 1:
        raise ModelError(
            f"batch='any': shapes= gives {given} images for {name!r}. Expected 1. Give 1: a call "
            "may have any number of images."
        )
    return images
