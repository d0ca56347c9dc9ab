"""The problem description of a pooling layer."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from .errors import WorkloadError

PREFIXES = {"maxpool:": "MaxPool", "avgpool:": "AveragePool"}
_PAIR = re.compile(r"([a-z]+)(\d+)")
# name in the text -> field, and the field of which it is a copy if it is left out
_NAMES = {
    "mb": ("batch", ""),
    "ic": ("channels", ""),
    "ih": ("in_height", ""),
    "iw": ("in_width", "in_height"),
    "kh": ("kernel_h", ""),
    "kw": ("kernel_w", "kernel_h"),
    "sh": ("stride_h", ""),
    "sw": ("stride_w", "stride_h"),
    "ph": ("pad_h", ""),
    "pw": ("pad_w", "pad_h"),
}
_DEFAULTS = {"batch": 1, "stride_h": 1, "pad_h": 0}


@dataclass(frozen=True)
class PoolWorkload:
    """Maximum or average pooling of an FP32 tensor; ``operator`` is ONNX's.

    The text form is ``maxpool:mb10ic96ih55kh3sh2``, with the sizes of a convolution's problem
    string. Averages do not count the padding.
    """

    operator: str
    batch: int
    channels: int
    in_height: int
    in_width: int
    kernel_h: int
    kernel_w: int
    stride_h: int = 1
    stride_w: int = 1
    pad_h: int = 0
    pad_w: int = 0

    def __post_init__(self) -> None:
        for each in fields(self)[1:]:
            least = 0 if each.name.startswith("pad") else 1
            if not least <= getattr(self, each.name) < 2**24:
                raise WorkloadError(
                    f"{each.name}={getattr(self, each.name)} is out of range. "
                    f"Expected {least} to 2**24 - 1."
                )
        if self.out_height < 1 or self.out_width < 1:
            raise WorkloadError(
                f"the kernel of {self} is larger than its padded input. Reduce kh or kw."
            )
        if self.pad_h >= self.kernel_h or self.pad_w >= self.kernel_w:
            raise WorkloadError(f"the padding of {self} is a whole kernel. Reduce ph or pw.")

    @property
    def out_height(self) -> int:
        """Rows of the output."""
        return (self.in_height + 2 * self.pad_h - self.kernel_h) // self.stride_h + 1

    @property
    def out_width(self) -> int:
        """Columns of the output."""
        return (self.in_width + 2 * self.pad_w - self.kernel_w) // self.stride_w + 1

    @property
    def data_shape(self) -> tuple[int, int, int, int]:
        """(N, C, H, W) of the input."""
        return self.batch, self.channels, self.in_height, self.in_width

    @property
    def result_shape(self) -> tuple[int, int, int, int]:
        """(N, C, H, W) of the output."""
        return self.batch, self.channels, self.out_height, self.out_width

    @property
    def attributes(self) -> dict[str, Any]:
        """ONNX's attributes."""
        return {
            "kernel_shape": [self.kernel_h, self.kernel_w],
            "strides": [self.stride_h, self.stride_w],
            "pads": [self.pad_h, self.pad_w] * 2,
        }

    def __str__(self) -> str:
        prefix = next(text for text, name in PREFIXES.items() if name == self.operator)
        parts = []
        for name, (field, copied) in _NAMES.items():
            value = getattr(self, field)
            usual = getattr(self, copied) if copied else _DEFAULTS.get(field)
            if value != usual or name == "mb":
                parts.append(f"{name}{value}")
        return prefix + "".join(parts)

    @classmethod
    def parse(cls, text: str) -> PoolWorkload:
        """Read the text form.

        Raises ``WorkloadError`` if it is not one, or a size is out of range.
        """
        prefix, _, sizes = text.partition(":")
        pairs = _PAIR.findall(sizes)
        given = {name: int(value) for name, value in pairs}
        exact = "".join(f"{name}{value}" for name, value in pairs) == sizes
        needed = {"ic", "ih", "kh"} <= set(given) <= set(_NAMES) and len(given) == len(pairs)
        if f"{prefix}:" not in PREFIXES or not exact or not needed:
            raise WorkloadError(
                f"cannot read the pooling {text!r}. Expected a form such as "
                "maxpool:mb10ic96ih55kh3sh2."
            )
        values: dict[str, int] = {}
        for name, (field, copied) in _NAMES.items():
            usual = values[copied] if copied else _DEFAULTS.get(field, 0)
            values[field] = given.get(name, usual)
        return cls(PREFIXES[f"{prefix}:"], **values)
