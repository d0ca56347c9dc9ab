"""The section of im2win."""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

from docs.generate.benchmarks import saved
from docs.generate.papers.section import counted, section
from docs.generate.ratios import ratios, spread, times, wins
from tvmconv.core.workload import Conv2dWorkload


def text() -> str:
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
    large = [_memory(each) for each in saved("dnn12-memory")["results"]]
    less = [1 - each["tvmconv im2win_nchw"] / each["torch_im2col"] for each in large]
    return section(
        "im2win",
        "Lu, *Performance Optimization of Convolutional Neural Networks Based on Tensor Algebra*, "
        "2023. Twelve layers, batch size 128, 24 threads.",
        (
            *(
                (
                    "" if threads > 1 else "2.2 to 5.8 times PyTorch's im2col",
                    f"largest batch up to 128, {counted(threads)}: "
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
                    f"batch up to 128, {counted(threads)}, our whole-matrix "
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
                f"batch size 1, NCHW: {mean(stored):.0%} less on average; "
                f"channel blocks: {mean(saving):.0%}",
                "partly",
            ),
            (
                "",
                f"batch up to 128, NCHW, PyTorch's im2col: {mean(less):.0%} less on average, "
                f"{min(less):.0%} to {max(less):.0%}",
                "reproduced",
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
