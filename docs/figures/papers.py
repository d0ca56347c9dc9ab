"""Bars of the papers' figures: values that a paper reports, next to the saved results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from docs.figures.svg import Figure, Palette
from docs.generate.benchmarks import saved
from docs.generate.ratios import ratios, times

_LEFT, _TOP, _WIDTH, _HEIGHT = 50, 44, 660, 190
# cuDNN's time over im2win's for each of the twelve layers on an RTX 3090. Figure 4-5 of the thesis
# has these bars, from the log of the authors' repository.
_CUDNN_OVER_IM2WIN = (1.798, 1.378, 0.813, 1.305, 0.562, 0.986, 0.786, 1.706, 1.137, 1.033, 0.795,
                      1.078)  # fmt: skip
# TensorFlow Lite's time over the paper's on Cortex-A72, its table 3.8
_LITE_OVER_WINOGRAD = (1.848, 2.695, 2.845)
# shares of the peak of direct convolution and SGEMM on Intel, AMD and Arm
_SHARES = {"Intel": (0.875, 0.89), "AMD": (0.582, 0.54), "Arm": (0.889, 0.92)}

# title of a section of the page -> its figures, with captions
SECTIONS = {
    "im2win": (
        (
            "paper-im2win-cpu",
            "CPU, large batches in NCHW: time of PyTorch's im2col over im2win; above 1 im2win is "
            "faster",
        ),
        (
            "paper-im2win-gpu",
            "GPU, batch size 128: time of cuDNN over im2win. The paper's bars are of the log that "
            "its authors published, at another batch size",
        ),
    ),
    "Direct convolution without memory overhead": (
        ("paper-direct", "Share of the FMA peak; ours: mean of VGG-16 and ResNet-50"),
    ),
    "Quantized Winograd on Arm": (
        ("paper-int8-winograd", "INT8: time of TensorFlow Lite (here LiteRT) over Winograd"),
    ),
}


@dataclass(frozen=True)
class _Series:
    """Bars of one color, a value for each group; None for no bar."""

    name: str
    values: Sequence[float | None]


def _bars(
    figure: Figure,
    groups: Sequence[str],
    series: Sequence[_Series],
    ticks: Sequence[float],
    band: tuple[float, float] | None = None,
) -> None:
    """Draw groups of bars from 0, over the range ``band``."""
    colors = [figure.palette.series[i] for i in (0, 2, 3)]

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (1 - value / ticks[-1])

    if band:
        low, high = band
        figure.box(_LEFT, y(high), _WIDTH, y(low) - y(high), line="none")
    for tick in ticks:
        figure.line(_LEFT, y(tick), _LEFT + _WIDTH, y(tick))
        figure.text(_LEFT - 6, y(tick) + 4, f"{tick:g}", size=11, anchor="end")
    room = _WIDTH / len(groups)
    width = min(26.0, room * 0.8 / len(series))
    for index, group in enumerate(groups):
        middle = _LEFT + room * (index + 0.5)
        figure.text(middle, _TOP + _HEIGHT + 17, group, size=11, anchor="middle")
        for number, each in enumerate(series):
            value = each.values[index]
            if value is not None:
                left = middle + width * (number - len(series) / 2)
                height = _TOP + _HEIGHT - y(value)
                figure.box(left, y(value), width - 2, height, colors[number], colors[number])
    left = float(_LEFT)
    for number, each in enumerate(series):
        figure.box(left, 10, 12, 12, colors[number], colors[number])
        figure.text(left + 18, 21, each.name, size=12)
        left += 48 + 6.4 * len(each.name)


def _figure(palette: Palette, title: str) -> Figure:
    return Figure(_LEFT + _WIDTH + 20, _TOP + _HEIGHT + 28, palette, title)


def im2win_cpu(palette: Palette) -> Figure:
    """Draw PyTorch's im2col over im2win on the twelve layers, and the paper's range."""
    figure = _figure(palette, "im2win on CPUs: time of PyTorch's im2col over im2win")
    runs = (
        ("dnn12-nchw", 1, "Zen 5, 1 thread"),
        ("dnn12-nchw-16-threads", 16, "Xeon, 16 threads"),
    )
    series = [
        _Series(name, ratios(times(file, threads).values(), "torch_im2col", "im2win_nchw"))
        for file, threads, name in runs
    ]
    names = [case.split()[0] for case in times("dnn12-nchw", 1)]
    _bars(figure, names, series, (0, 1, 2, 3, 4, 5, 6, 7, 8), band=(2.2, 5.8))
    figure.text(_LEFT + _WIDTH, 21, "the paper: 2.2 to 5.8 (gray)", size=12, anchor="end")
    return figure


def im2win_gpu(palette: Palette) -> Figure:
    """Draw cuDNN's time over im2win's: ours on an H100, the paper's on an RTX 3090."""
    gains: dict[str, float] = {}
    for case in saved("cuda-h100-dnn12-measured")["results"]:
        least = {
            entry["label"]: min(min(samples) for samples in entry["rounds"])
            for entry in case["entries"]
            if entry["rounds"]
        }
        gains[case["name"].split()[0]] = least["cudnn"] / least["tvmconv im2win"]
    figure = _figure(palette, "im2win on GPUs: time of cuDNN over im2win")
    series = (
        _Series("tvmconv, H100", list(gains.values())),
        _Series("the paper's log, RTX 3090", _CUDNN_OVER_IM2WIN),
    )
    most = max(*gains.values(), *_CUDNN_OVER_IM2WIN)
    ticks = [0.5 * step for step in range(int(most / 0.5) + 2)]
    _bars(figure, list(gains), series, ticks)
    return figure


def int8_winograd(palette: Palette) -> Figure:
    """Draw TensorFlow Lite's time over INT8 Winograd's on three layers."""
    layers = times("int8-winograd")
    # the first three layers of the file are the paper's
    ours = [each["litert"] / each["winograd"] for each in [*layers.values()][:3]]
    figure = _figure(palette, "INT8 Winograd: time of TensorFlow Lite over Winograd")
    series = (
        _Series("tvmconv, F(2x4) to F(4x4), Zen 4 with VNNI", ours),
        _Series("the paper, F(2x2), Cortex-A72", _LITE_OVER_WINOGRAD),
    )
    names = ("conv1, 56x56x64", "conv2, 28x28x128", "conv3, 14x14x256")
    _bars(figure, names, series, (0, 0.5, 1, 1.5, 2, 2.5, 3))
    return figure


def direct_peak(palette: Palette) -> Figure:
    """Draw shares of the FMA peak of direct convolution and SGEMM."""
    direct = [
        row["peak_share"]
        for file in ("vgg16", "resnet50")
        for row in saved(file)["measurements"]
        if row["contender"] in ("tvmconv direct", "tvmconv direct_first") and row.get("peak_share")
    ]
    gemm = [
        row["peak_share"]
        for row in saved("sgemm")["measurements"]
        if row["contender"] == "tvmconv gemm"
    ]
    figure = _figure(palette, "Share of the FMA peak of direct convolution and SGEMM")
    groups = ["tvmconv, Cascade Lake", *(f"the paper, {maker}" for maker in _SHARES)]
    series = (
        _Series("direct convolution", [mean(direct), *(share for share, _ in _SHARES.values())]),
        _Series("SGEMM", [mean(gemm), *(share for _, share in _SHARES.values())]),
    )
    _bars(figure, groups, series, (0, 0.2, 0.4, 0.6, 0.8, 1))
    return figure
