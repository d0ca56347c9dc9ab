"""The sections of the page of the papers, one for each paper."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable
from statistics import geometric_mean, mean
from typing import Any

from docs.figures.latency import RESULTS
from docs.figures.papers import SECTIONS
from docs.generate.benchmarks import saved
from docs.generate.ratios import ratios, spread, times, wins
from tvmconv.core.workload import Conv2dWorkload


def _section(title: str, paper: str, rows: Iterable[tuple[str, str, str]]) -> str:
    lines = [f"\n## {title}\n", f"{paper}\n"]
    for name, caption in SECTIONS.get(title, ()):
        lines += [
            f"![{caption}](../figures/{name}-{palette}.svg#only-{palette})"
            for palette in ("light", "dark")
        ]
        lines.append(f"\n{caption}.\n")
    lines += ["| claim | here | verdict |", "|---|---|---|"]
    lines += [f"| {claim} | {here} | {verdict} |" for claim, here, verdict in rows]
    return "\n".join(lines) + "\n"


def im2win() -> str:
    """Return the section of im2win."""
    layers = times("im2win").values()
    plain = ratios(layers, "torch_im2col", "im2win_nchw")
    blocked = ratios(layers, "torch_im2col", "im2win")
    own = ratios(layers, "im2col:mc=0", "im2win")
    direct = ratios(layers, "direct", "im2win")
    runs = (("dnn12-nchw", 1), ("dnn12-nchw", 2), ("dnn12-nchw-16-threads", 16))
    batches = {threads: list(times(file, threads).values()) for file, threads in runs}
    loops = ratios(times("dnn12-loops-16-threads").values(), "direct_loops", "im2win_nchw")
    memory = [_memory(each) for each in saved("im2win-memory")["results"]]
    saving = [1 - each["tvmconv im2win"] / each["tvmconv im2col:mc=0"] for each in memory]
    stored = [1 - each["tvmconv im2win_nchw"] / each["tvmconv im2col:mc=0"] for each in memory]
    return _section(
        "im2win",
        "Lu, *Performance Optimization of Convolutional Neural Networks Based on Tensor Algebra*, "
        "2023. Twelve layers, batch size 128, 24 threads.",
        (
            *(
                (
                    "" if threads > 1 else "2.2 to 5.8 times PyTorch's im2col",
                    f"largest batch up to 128, {threads} thread{'s' * (threads > 1)}: "
                    f"{spread(ratios(each, 'torch_im2col', 'im2win_nchw'))} times",
                    "partly" if threads == 16 else "reproduced",
                )
                for threads, each in batches.items()
            ),
            (
                "",
                f"batch size 1, NCHW: {spread(plain)} times; faster on {wins(plain)} layers",
                "partly",
            ),
            (
                "",
                f"channel blocks: {spread(blocked)} times; faster on {wins(blocked)} layers",
                "partly",
            ),
            *(
                (
                    "" if threads > 1 else "faster than im2col",
                    f"batch up to 128, {threads} thread{'s' * (threads > 1)}, our whole-matrix "
                    f"im2col: {spread(ratios(each, 'im2col:mc=0', 'im2win_nchw'))} times",
                    "partly",
                )
                for threads, each in batches.items()
            ),
            (
                "",
                f"batch size 1: {spread(own)} times",
                "partly",
            ),
            (
                "3.8 to 7.1 times the author's direct convolution",
                f"plain loops in C, batch 128, 16 threads: {spread(loops)} times",
                "reproduced",
            ),
            (
                "",
                f"our blocked direct, batch size 1: {spread(direct)} times",
                "not reproduced",
            ),
            (
                "41.6 % less memory than im2col",
                f"NCHW: {mean(stored):.0%} less on average; channel blocks: {mean(saving):.0%}",
                "partly",
            ),
            (
                "on an RTX 3090, 1.1 times cuDNN and 4.3 times im2col with cuBLAS",
                "not measured on that GPU",
                "not tested",
            ),
        ),
    )


def _memory(layer: dict[str, Any]) -> dict[str, int]:
    """Bytes of each entry: input, weights and the growth of a process in its first call."""
    workload = Conv2dWorkload.parse(layer["problem"])
    tensors = 4 * (math.prod(workload.data_shape) + math.prod(workload.weight_shape))
    return {
        entry["label"]: entry["facts"]["call_bytes"] + tensors
        for entry in layer["entries"]
        if "call_bytes" in entry["facts"]
    }


def winograd() -> str:
    """Return the section of Winograd on Phytium CPUs."""
    layers = list(times("vgg16").values())
    against_direct = ratios(layers, "direct", "winograd")
    ncnn = ratios(layers, "ncnn", "winograd")
    network = {
        (row["case"], row["contender"]): row["min_seconds"]
        for row in saved("networks-cascade-lake-1-thread")["measurements"]
        if row["case"] == "vgg16" and row.get("min_seconds")
    }
    ours = min(seconds for (_, name), seconds in network.items() if name.startswith("tvmconv"))
    ort = network["vgg16", "onnxruntime"]
    gains = {batch: _over_algorithm_1("winograd16-batches", batch) for batch in (1, 4, 16, 64)}
    rising = ", ".join(f"{geometric_mean(each):.2f} at {n}" for n, each in gains.items())
    many = _over_algorithm_1("winograd16-16-threads", 1)
    phytium = _arm_layers()
    acl = ratios(phytium, "acl", "winograd:mh=4:mw=4")
    nnpack = ratios(phytium, "nnpack", "winograd:mh=6:mw=6")
    rows = [
        (
            "1.05 to 16.9 times ACL and NNPACK on Phytium",
            f"one thread, cycles of ACL over our F(4x4): {spread(acl)}",
            "estimated",
        ),
        ("", f"cycles of NNPACK over our F(6x6): {spread(nnpack)}", "estimated"),
        (
            "VGG-16 forward, 3.0 to 6.8 times MXNet",
            f"{ours * 1e3:.1f} ms; onnxruntime takes {ort / ours:.2f} times as long",
            "partly",
        ),
        (
            "gain falls with depth, against other Winograd code",
            f"VGG-16, ncnn's time over ours: {ncnn[0]:.2f} at the first layer, "
            f"{ncnn[-1]:.2f} at the last",
            "reproduced",
        ),
        (
            "",
            f"against our own direct: {spread(against_direct)}, without a trend",
            "not reproduced",
        ),
        (
            "gain rises with the batch size",
            f"Algorithm 1 with OpenBLAS over the fused form, one thread: {rising}",
            "not reproduced",
        ),
        (
            "speed on 16 and more cores",
            f"the same with 16 threads, batch size 1: {spread(many)} times",
            "reproduced",
        ),
    ]
    return _section(
        "Winograd on Phytium CPUs",
        "Wang, Li, Mei, Lai, Dou, *Optimizing Winograd-Based Fast Convolution Algorithm on Phytium "
        "Multi-Core CPUs*, 2020.",
        rows,
    )


def _over_algorithm_1(file: str, batch: int) -> list[float]:
    """The paper's Algorithm 1 with OpenBLAS over the fused form, for the layers of a batch size."""
    layers = [each for case, each in times(file).items() if case.endswith(f" mb{batch}")]
    return ratios(layers, "winograd_blas", "winograd:mh=4:mw=4")


def _arm_layers() -> list[dict[str, float]]:
    report = json.loads(gzip.decompress((RESULTS / "arm-peers.json.gz").read_bytes()))
    found = []
    for row in report["layers"].get("ft2000plus", ()):
        cycles = {
            name.removeprefix("tvmconv, "): float(each["cycles"])
            for name, each in row.items()
            if isinstance(each, dict) and "cycles" in each
        }
        found.append(cycles)
    return found


def direct() -> str:
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
    return _section(
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


def ftengine() -> str:
    """Return the section of FTEngine."""
    report = json.loads(gzip.decompress((RESULTS / "ftengine.json.gz").read_bytes()))
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
    many = ratios(times("sgemm-16-threads").values(), "openblas", "gemm")
    return _section(
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
            ("pooling 38 and 11 % faster than ACL", "ACL was not run on it", "not tested"),
            ("AlexNet and VGG-16 with 16 and 64 threads", "one thread", "not tested"),
        ),
    )


def quantized() -> str:
    """Return the section of quantized Winograd."""
    summary = saved("int8-winograd")["summary"]
    layers = {
        row["case"]: row["best_peer_seconds"] / row["min_seconds"]
        for row in summary
        if row["contender"].startswith("tvmconv") and row.get("best_peer")
    }
    return _section(
        "Quantized Winograd on Arm",
        "Wen, *Research on Optimization of Quantitative Fast Convolution Method on ARM Devices*, "
        "2020.",
        (
            ("exact INT8 Winograd", "bit for bit, F(2,3) to F(4,3), by tests", "reproduced"),
            (
                "F(2,3) 1.8 to 2.8 times TensorFlow Lite on four layers",
                "on x86 with VNNI, all layers of the suite, fastest other over ours: "
                f"{spread(list(layers.values()))}",
                "partly",
            ),
            (
                "accuracy of ResNet-18 is kept by F(2,3)",
                "with another network and other images: `python -m examples.accuracy`",
                "reproduced",
            ),
            ("accuracy collapses with F(4,3) at 8 bits", "the same command", "reproduced"),
            ("accuracy collapses with F(4,3) at 16 bits", "the same command", "not reproduced"),
        ),
    )
