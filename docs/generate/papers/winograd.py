"""The section of Winograd on Phytium CPUs."""

from __future__ import annotations

from statistics import geometric_mean

from docs.generate.benchmarks import saved
from docs.generate.papers.section import counted, section
from docs.generate.ratios import ratios, spread, times


def text() -> str:
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
    batches = {threads: list(times("vgg16-batches", threads).values()) for threads in (1, 2)}
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
        *(
            (
                "",
                f"batch sizes 1 to 64, {counted(threads)}, {name} over ours: "
                f"{spread(ratios(layers, library, 'tvmconv'))} times",
                "partly",
            )
            for threads, layers in batches.items()
            for name, library in (("onnxruntime", "onnxruntime"), ("PyTorch", "torch"))
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
    return section(
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
    report = saved("arm-peers")
    found = []
    for row in report["layers"].get("ft2000plus", ()):
        cycles = {
            name.removeprefix("tvmconv, "): float(each["cycles"])
            for name, each in row.items()
            if isinstance(each, dict) and "cycles" in each
        }
        found.append(cycles)
    return found
