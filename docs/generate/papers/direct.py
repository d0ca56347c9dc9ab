"""The section of direct convolution."""

from __future__ import annotations

from statistics import mean

from docs.generate.benchmarks import saved
from docs.generate.papers.section import section
from docs.generate.ratios import ratios, spread, times, wins


def text() -> str:
    """Return the section of direct convolution."""
    shares = [
        row["peak_share"]
        for file in ("vgg16", "resnet50")
        for row in saved(file)["measurements"]
        if row["contender"] in ("tvmconv direct", "tvmconv direct_first") and row.get("peak_share")
    ]
    layers = [*times("vgg16").values(), *times("resnet50").values()]
    torch = ratios(layers, "torch_im2col", "direct")
    whole = ratios(times("im2win").values(), "im2col:mc=0", "direct")
    many = ratios(times("dnn12-nchw-16-threads").values(), "torch_im2col", "direct")
    gemm = [
        row["peak_share"]
        for row in saved("sgemm")["measurements"]
        if row["contender"] == "tvmconv gemm"
    ]
    return section(
        "Direct convolution without memory overhead",
        "Zhang, Franchetti, Low, *High Performance Zero-Memory Overhead Direct Convolutions*, "
        "ICML 2018.",
        (
            ("no memory next to the tensors", "no workspace, by a test", "reproduced"),
            (
                "58 to 89 % of peak",
                f"VGG-16 and ResNet-50: {min(shares):.0%} to {min(max(shares), 1):.0%}, "
                f"mean {mean(shares):.0%}",
                "reproduced",
            ),
            (
                "10 to 400 % faster than GEMM convolution",
                f"PyTorch's im2col over ours: {spread(torch)}; faster on {wins(torch)} layers",
                "partly",
            ),
            (
                "",
                f"twelve layers, batch 128, 16 threads: {spread(many)}; "
                f"faster on {wins(many)} layers",
                "reproduced",
            ),
            (
                "",
                f"our whole-matrix im2col over direct, twelve layers: {spread(whole)}",
                "reproduced",
            ),
            (
                "as efficient as SGEMM on large matrices",
                f"our SGEMM reaches {min(gemm):.0%} to {max(gemm):.0%} of peak",
                "reproduced",
            ),
            ("1.5 times OpenBLAS with 4 threads", "two threads at hand", "not tested"),
        ),
    )
