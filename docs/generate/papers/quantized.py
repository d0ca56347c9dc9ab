"""The section of quantized Winograd."""

from __future__ import annotations

from docs.generate.benchmarks import saved
from docs.generate.papers.section import section
from docs.generate.ratios import ratios, spread, times


def text() -> str:
    """Return the section of quantized Winograd."""
    summary = saved("int8-winograd")["summary"]
    layers = {
        row["case"]: row["best_peer_seconds"] / row["min_seconds"]
        for row in summary
        if row["contender"].startswith("tvmconv") and row.get("best_peer")
    }
    layers_of_paper = [
        each for case, each in times("int8-winograd-stages", 1).items() if case.startswith("conv")
    ]
    small = ratios(layers_of_paper, "litert", "winograd:mh=2:mw=2")
    large = ratios(layers_of_paper, "litert", "winograd:mh=4:mw=4")
    return section(
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
                "",
                f"the four layers on Zen 5 with VNNI, LiteRT over F(2,3): {spread(small)}",
                "not reproduced",
            ),
            ("", f"the same, LiteRT over F(4,3): {spread(large)}", "partly"),
            (
                "accuracy of ResNet-18 is kept by F(2,3)",
                "with another network and other images: `python -m examples.accuracy`",
                "reproduced",
            ),
            ("accuracy collapses with F(4,3) at 8 bits", "the same command", "reproduced"),
            ("accuracy collapses with F(4,3) at 16 bits", "the same command", "not reproduced"),
        ),
    )
