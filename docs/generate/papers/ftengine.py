"""The section of FTEngine."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import geometric_mean

from docs.generate.benchmarks import saved
from docs.generate.papers.section import counted, section
from docs.generate.ratios import ratios, spread, times, wins

_NETWORKS = (
    ("lenet", "LeNet"),
    ("alexnet", "AlexNet"),
    ("alexnet_2012", "AlexNet of 2012"),
    ("vgg16", "VGG-16"),
    ("vgg19", "VGG-19"),
    ("inception_v3", "Inception-v3"),
)


def text() -> str:
    """Return the section of FTEngine."""
    report = saved("ftengine")
    cycles: dict[str, dict[str, float]] = {}
    for row in report["convolutions"]:
        cycles.setdefault(row["case"], {})[row["label"]] = row["estimated_cycles"]
    first = {"A1", "V1"}
    plain = [each["openblas"] / each["tvmconv im2col"] for each in cycles.values()]
    later = [
        each["openblas"] / each["tvmconv im2col"]
        for case, each in cycles.items()
        if case not in first
    ]
    chosen = [each["openblas"] / each["tvmconv"] for each in cycles.values()]
    slow = [cycles[case]["openblas"] / cycles[case]["tvmconv im2col"] for case in sorted(first)]
    gemm = {
        row["case"]: row
        for row in saved("sgemm")["measurements"]
        if row["contender"] == "tvmconv gemm"
    }
    blis = {
        row["case"]: row["min_seconds"]
        for row in saved("sgemm")["measurements"]
        if row["contender"] == "blis"
    }
    ratio = [blis[case] / gemm[case]["min_seconds"] for case in blis]
    zen5 = [(n, ratios(times("sgemm-zen5", n).values(), "openblas", "gemm")) for n in (1, 2)]
    many = ratios(times("sgemm-16-threads").values(), "openblas", "gemm")
    batch = [(n, times("ftengine-layers", n).values()) for n in (1, 2)]
    pools = {n: list(_over_fastest("poolings", n).values()) for n in (1, 2)}
    networks = {n: _over_fastest("paper-networks", n) for n in (1, 2)}
    return section(
        "FTEngine",
        "Tan, *Design and Optimization of Deep Learning Function Library for Domestic ARM "
        "Architecture CPU*, 2023. A 64-core CPU with SVE of 256 bits.",
        (
            (
                "convolutions 13 and 15 % faster than ACL",
                f"im2col with OpenBLAS over our im2col, 12 later layers: {spread(later)}",
                "estimated",
            ),
            (
                "",
                f"the two first layers, from NCHW: {slow[0]:.2f} and {slow[1]:.2f}, so slower",
                "not reproduced",
            ),
            (
                "",
                f"all 14 layers: geometric mean {geometric_mean(plain):.2f}; "
                f"with the selected algorithm {geometric_mean(chosen):.2f}",
                "estimated",
            ),
            *(
                (
                    "",
                    f"on x86, batch size 3, {counted(threads)}, im2col with "
                    f"OpenBLAS over {name}: {spread(each)}; faster on {wins(each)} layers",
                    "partly",
                )
                for threads, layers in batch
                for name, each in (
                    ("our im2col", ratios(layers, "openblas", "im2col")),
                    ("our fastest algorithm", _over_our_fastest(layers, "openblas")),
                )
            ),
            (
                "SGEMM 72 or 76 % faster than BLIS",
                f"on x86, BLIS without AVX-512: {spread(ratio)} times",
                "partly",
            ),
            (
                "SGEMM drops at 4096",
                f"{gemm['4096']['peak_share']:.0%} of peak at 4096, "
                f"{gemm['1024']['peak_share']:.0%} at 1024",
                "not reproduced",
            ),
            (
                "SGEMM 7 % faster than OpenBLAS for A64FX, 52 % than generic OpenBLAS",
                f"on x86 with 16 threads, sizes 512 to 5120: {spread(many)} times",
                "not reproduced",
            ),
            *(
                (
                    "",
                    f"on Zen 5, {counted(threads)}, nine sizes: {spread(each)} times",
                    "not reproduced",
                )
                for threads, each in zen5
            ),
            ("pooling 38 and 11 % faster than ACL", "ACL was not run on it", "not tested"),
            *(
                (
                    "",
                    f"on x86, batch size 10, {counted(threads)}, the fastest "
                    f"of five libraries over ours: {spread(each)}; "
                    f"faster on {wins(each)} poolings",
                    "partly",
                )
                for threads, each in pools.items()
            ),
            *(
                (
                    "" if threads > 1 else "AlexNet and VGG-16 with 16 and 64 threads",
                    f"{counted(threads)}, the fastest of six libraries over "
                    f"ours: {', '.join(f'{title} {each[case]:.2f}' for case, title in _NETWORKS)}",
                    "partly",
                )
                for threads, each in networks.items()
            ),
        ),
    )


def _over_fastest(file: str, threads: int) -> dict[str, float]:
    """Return the time of the fastest library over ours, for each case of a report."""
    return {
        row["case"]: row["best_peer_seconds"] / row["min_seconds"]
        for row in saved(file)["summary"]
        if row["threads"] == threads
    }


def _over_our_fastest(layers: Iterable[dict[str, float]], peer: str) -> list[float]:
    """Return the time of a library over our fastest algorithm, for each layer."""
    ours = ("im2col", "direct", "direct_first", "winograd")
    return [each[peer] / min(each[name] for name in ours) for each in layers]
