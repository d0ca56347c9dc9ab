"""Activations of a network that is being written, and the sizes of what windows make of them."""

from __future__ import annotations

from dataclasses import dataclass

# one number for a square, or (height, width)
Size = int | tuple[int, int]
Pads = int | tuple[int, int] | tuple[int, int, int, int]


def pair(size: Size) -> tuple[int, int]:
    """(height, width) of a size."""
    return (size, size) if isinstance(size, int) else size


def scaled(channels: int, width: float) -> int:
    """A channel count times the width factor; exact for width 1, at least 1."""
    return max(1, round(channels * width))


@dataclass(frozen=True)
class Feature:
    """An activation in NCHW: its name, size, and whether a rectifier produced it."""

    name: str
    channels: int
    height: int
    width: int
    rectified: bool = False

    @property
    def elements(self) -> int:
        """Values of one image."""
        return self.channels * self.height * self.width


def four_sides(pads: Pads) -> list[int]:
    """Top, left, bottom, right, in ONNX's order."""
    if isinstance(pads, int):
        return [pads] * 4
    return list(pads) * 2 if len(pads) == 2 else list(pads)


def windows(
    x: Feature, kernel: Size, stride: Size, pads: list[int], dilation: Size, ceil: bool = False
) -> tuple[int, int]:
    """Height and width of the output of a convolution or pooling; ``ceil`` is ONNX's ceil_mode."""
    sizes = []
    for i, size in enumerate((x.height, x.width)):
        k, s, d = pair(kernel)[i], pair(stride)[i], pair(dilation)[i]
        room = size + pads[i] + pads[i + 2] - (k - 1) * d - 1
        steps = -(-room // s) if ceil else room // s
        # a window that would start beyond the left padding and the input is dropped
        if ceil and steps * s >= size + pads[i]:
            steps -= 1
        sizes.append(steps + 1)
    return sizes[0], sizes[1]
