"""The section of direct convolution."""

from __future__ import annotations

from statistics import mean

from docs.generate.benchmarks import saved
from docs.generate.papers.section import section
from docs.generate.ratios import ratios, spread, spread_percent, times, wins


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
    blas = {n: ratios(times("direct-layers", n).values(), "openblas", "direct") for n in (1, 2)}
    zen5 = ratios(times("direct-layers", 1).values(), "torch_im2col", "direct")
    alexnet = {
        n: ratios(times("alexnet-2012-layers", n).values(), "openblas", "direct") for n in (1, 2)
    }
    copies, products = _openblas()
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
                f"the same layers on Zen 5: {spread(zen5)}; faster on {wins(zen5)} layers",
                "reproduced",
            ),
            (
                "",
                f"OpenBLAS with im2col over ours on Zen 5: {spread(blas[1])}; "
                f"faster on {wins(blas[1])} layers",
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
                "AlexNet of 2012: im2col takes over 20 % of the time of OpenBLAS",
                f"{spread_percent(copies)} of the time of a layer, one thread",
                "partly",
            ),
            (
                "AlexNet of 2012: direct is faster than the products of OpenBLAS alone",
                f"products over direct, one thread: {spread(products)}",
                "reproduced",
            ),
            (
                "as efficient as SGEMM on large matrices",
                f"our SGEMM reaches {min(gemm):.0%} to {max(gemm):.0%} of peak",
                "reproduced",
            ),
            (
                "1.5 times OpenBLAS with 4 threads",
                f"two threads, VGG-16 and ResNet-50: {spread(blas[2])}",
                "partly",
            ),
            ("", f"two threads, AlexNet of 2012: {spread(alexnet[2])}", "reproduced"),
        ),
    )


def _openblas() -> tuple[list[float], list[float]]:
    """Share of im2col in OpenBLAS's time, and time of its products over direct; one thread."""
    rows = [row for row in saved("alexnet-2012-layers")["stages"] if row["threads"] == 1]
    seconds = {
        (row["case"], row["stage"]): row["seconds"]
        for row in rows
        if row["contender"] == "openblas"
    }
    layers = times("alexnet-2012-layers", 1)
    copies = [seconds[case, "im2col"] / each["openblas"] for case, each in layers.items()]
    products = [seconds[case, "products"] / each["direct"] for case, each in layers.items()]
    return copies, products
