"""Bars of latency next to the fastest other library, from the saved results."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from docs.figures.svg import Figure, Palette

RESULTS = Path(__file__).parents[1] / "results"
NAMES = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "mobilenet_v2": "MobileNetV2",
    "squeezenet1_1": "SqueezeNet 1.1",
    "googlenet": "GoogLeNet",
    "vgg16": "VGG-16",
}
LIBRARIES = {"openvino": "OpenVINO", "litert": "LiteRT", "mnn": "MNN"}
_SHOWN = ("resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1")
_GROUPS = (("FP32", "networks-zen5"), ("INT8", "int8-networks-zen5"))
_LEFT, _BAR, _WIDTH = 130, 15, 760


def milliseconds(file: str) -> dict[str, tuple[float, float, str]]:
    """Return by network, on one thread: ours, the fastest other library's, and its name."""
    report = json.loads(gzip.decompress((RESULTS / f"{file}.json.gz").read_bytes()))
    return {
        row["case"].removesuffix(".int8"): (
            row["min_seconds"] * 1e3,
            row["best_peer_seconds"] * 1e3,
            LIBRARIES.get(row["best_peer"], row["best_peer"]),
        )
        for row in report["summary"]
        if (row["contender"], row["threads"]) == ("tvmconv", 1)
    }


def latency(palette: Palette) -> Figure:
    """Draw FP32 and INT8 next to each other; each pair has the scale of its slower bar."""
    height = 60 + len(_SHOWN) * (2 * _BAR + 16) + 10
    figure = Figure(_WIDTH, height, palette, "Latency of four networks, FP32 and INT8")
    figure.box(_LEFT, 8, 12, 12, palette.series[0], palette.series[0])
    figure.text(_LEFT + 18, 19, "tvmconv", bold=True)
    figure.box(_LEFT + 100, 8, 12, 12, palette.series[1], palette.series[1])
    figure.text(
        _LEFT + 118, 19, "the fastest of the other libraries (milliseconds, lower is better)"
    )
    column = (_WIDTH - _LEFT) / 2
    for index, (kind, file) in enumerate(_GROUPS):
        left = _LEFT + index * column
        figure.text(left, 48, kind, bold=True)
        measured = milliseconds(file)
        for row, network in enumerate(_SHOWN):
            top = 60 + row * (2 * _BAR + 16)
            if index == 0:
                figure.text(_LEFT - 12, top + _BAR + 5, NAMES[network], anchor="end")
            ours, other, library = measured[network]
            _pair(figure, left, top, column - 145, ours, other, library)
    return figure


def _pair(
    figure: Figure, x: float, y: float, width: float, ours: float, other: float, library: str
) -> None:
    scale = width / max(ours, other)
    first, second = figure.palette.series[:2]
    figure.box(x, y, ours * scale, _BAR, first, first)
    figure.text(x + ours * scale + 6, y + 12, f"{ours:#.3g} ms", bold=True, size=12)
    figure.box(x, y + _BAR + 1, other * scale, _BAR, second, second)
    text = f"{other:#.3g} ms {library}"
    figure.text(x + other * scale + 6, y + _BAR + 13, text, size=12, color=figure.palette.muted)
