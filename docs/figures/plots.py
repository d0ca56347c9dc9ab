"""Plots of the documents: the roofline of ResNet-50, and the error of Winograd by tile size."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence

from docs.figures.latency import RESULTS
from docs.figures.svg import Figure, Palette
from tvmconv.algorithms.winograd import tiles
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.targets import resolve_machine

_LEFT, _TOP, _WIDTH, _HEIGHT = 62, 20, 560, 260


class _Axes:
    """Logarithmic axes with labeled ticks."""

    def __init__(self, figure: Figure, x: Sequence[float], y: Sequence[float]) -> None:
        self.figure, self.x, self.y = figure, (x[0], x[-1]), (y[0], y[-1])
        figure.box(_LEFT, _TOP, _WIDTH, _HEIGHT, fill="none")
        for value in x:
            label = f"{value:g}"
            place = self.at(value, y[0])
            figure.text(place[0], place[1] + 17, label, anchor="middle", size=11)
        for value in y:
            place = self.at(x[0], value)
            label = f"{value:g}" if value >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")
            figure.text(place[0] - 6, place[1] + 4, label, anchor="end", size=11)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixel of a point."""
        share_x = math.log(x / self.x[0]) / math.log(self.x[1] / self.x[0])
        share_y = math.log(y / self.y[0]) / math.log(self.y[1] / self.y[0])
        return _LEFT + share_x * _WIDTH, _TOP + (1 - share_y) * _HEIGHT

    def names(self, x: str, y: str) -> None:
        """Name both axes."""
        figure = self.figure
        figure.text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 38, x, anchor="middle", size=12)
        figure.text(_LEFT, _TOP - 7, y, size=12)


def roofline(palette: Palette) -> Figure:
    """Draw ResNet-50's layers on Cascade Lake: our fastest entry of each, under the roof."""
    report = json.loads(gzip.decompress((RESULTS / "resnet50.json.gz").read_bytes()))
    rates = resolve_machine("x86-64-v4").rates
    hertz = 2.5e9
    figure = Figure(650, 330, palette, "Roofline of ResNet-50's layers on Cascade Lake")
    axes = _Axes(figure, (1, 3, 10, 30, 100, 300), (10, 30, 100, 300, 600))
    axes.names("FLOP per byte of input, weights and output", "GFLOP/s")
    peaks = [row["gflops"] for row in report["measurements"] if row["contender"] == "peak"]
    peak = max(peaks)
    bandwidth = rates.memory * hertz / 1e9
    corner = peak / bandwidth
    start = 10 / bandwidth
    roof = [axes.at(max(start, 1), max(10, bandwidth)), axes.at(corner, peak), axes.at(300, peak)]
    figure.curve(roof, palette.series[2])
    x, y = axes.at(corner * 0.95, peak)
    figure.text(x, y - 8, f"FMA peak, {peak:.0f} GFLOP/s", size=11, anchor="end")
    x, y = axes.at(1.9, bandwidth * 1.9)
    figure.text(x + 8, y + 4, f"memory, {bandwidth:.0f} GB/s", size=11)
    best: dict[str, tuple[str, float]] = {}
    for row in report["measurements"]:
        known = best.get(row["problem"], ("", 0.0))[1]
        if row["contender"].startswith("tvmconv") and (row.get("gflops") or 0) > known:
            best[row["problem"]] = (row["contender"], row["gflops"])
    for problem, (entry, gflops) in best.items():
        workload = Conv2dWorkload.parse(problem)
        size = 4 * sum(
            math.prod(shape)
            for shape in (workload.data_shape, workload.weight_shape, workload.result_shape)
        )
        color = palette.series[3 if "winograd" in entry else 0]
        place = axes.at(min(workload.flops / size, 300), gflops)
        figure.dot(*place, color, f"{problem}: {entry}, {gflops:.0f} GFLOP/s")
    figure.dot(_LEFT + 280, _TOP + _HEIGHT - 34, palette.series[0])
    figure.text(_LEFT + 292, _TOP + _HEIGHT - 30, "direct and other direct sums", size=11)
    figure.dot(_LEFT + 280, _TOP + _HEIGHT - 16, palette.series[3])
    figure.text(
        _LEFT + 292, _TOP + _HEIGHT - 12, "Winograd: fewer products, counted as all", size=11
    )
    return figure


def tile_error(palette: Palette) -> Figure:
    """Draw the estimated error of Winograd with 3x3 kernels by tile size."""
    figure = Figure(650, 330, palette, "Estimated error of Winograd by tile size")
    axes = _Axes(figure, (2, 3, 4, 5, 6), (1e-7, 1e-6, 1e-5, 1e-4))
    axes.names("m of F(m x m, 3 x 3)", "max error / max output")
    for series, channels in ((0, 64), (2, 512)):
        points = []
        for m in (2, 3, 4, 5, 6):
            workload = Conv2dWorkload.parse(f"ic{channels}ih56oc{channels}kh3ph1")
            points.append(axes.at(m, tiles.tile_error(tiles.Tiling(workload, m, m), channels)))
        figure.curve(points, palette.series[series])
        for point in points:
            figure.dot(*point, palette.series[series])
        x, y = points[-1]
        figure.text(x - 8, y - 8, f"{channels} channels", anchor="end", size=11)
    for budget, name in ((5e-6, "default error budget, 5e-6"), (3e-5, "3e-5")):
        x, y = axes.at(2, budget)
        figure.line(x, y, _LEFT + _WIDTH, y)
        figure.text(x + 6, y - 5, name, size=11, color=palette.muted)
    return figure
