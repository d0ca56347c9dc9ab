"""The page of the benchmarks: every number comes from a saved file."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from docs.figures.latency import LIBRARIES, NAMES, RESULTS
from docs.generate import search_spaces

COMMITS = Path(__file__).with_name("commits.json")
_HEAD = """# Benchmarks

For everyone who compares tvmconv with other libraries.
You see latencies of whole networks on CPUs and GPUs, and how to measure them yourself.

![Latency next to the fastest other library](../figures/latency-light.svg#only-light)
![Latency next to the fastest other library](../figures/latency-dark.svg#only-dark)

!!! note "Method"
    Batch size 1 and random weights, unless a table says otherwise.
    Every library runs in a process of its own, in interleaved rounds.
    Every output is compared with onnxruntime's.
    Tables show the minimum of the rounds. The last column is the ratio of the medians.
    Random weights do not change the time, because no kernel depends on values.

The other libraries are onnxruntime, OpenVINO, ncnn, MNN, LiteRT and PyTorch, as far as they run
on the machine. "Fastest other" is the fastest of them in the same run.
"""
_REPEAT = """
## Measure it yourself

```sh skip: needs all libraries and an hour
pip install '.[peers]' openvino ncnn MNN ai-edge-litert torch opencv-python
python -m examples.networks resnet50 -o resnet50.onnx
tvmconv bench run resnet50.onnx --baselines all --rounds 4 --threads 1 --report resnet50.json
```

```sh
tvmconv bench run model.onnx --baselines onnxruntime --rounds 2
tvmconv bench show docs/results/networks-1-thread.json.gz
```

[Benchmark](../how-to/benchmark.md) explains the options and the columns.

## Where tvmconv is slower

- Large matrix products on 16 threads: OpenBLAS takes 0.64 to 1.07 of the time.
- Tensor cores: cuDNN is faster in TF32 and FP16.
- Max pooling of a batch of 10: on two of [eight layers](../results/poolings.json.gz) LiteRT takes
  0.77 to 0.94 of the time.

## More

- [The papers](papers.md): the claims of the papers, and what tvmconv reaches.
- [Raw data](../results/README.md): every sample of every table.
"""


@dataclass(frozen=True)
class Table:
    """The networks of a saved report on one number of threads; on a GPU there are none."""

    file: str
    machine: str
    threads: int | None

    @property
    def title(self) -> str:
        """Name the machine and the number of threads."""
        words = {None: "", 1: ", one thread", 2: ", two threads"}
        return self.machine + words[self.threads]


@dataclass(frozen=True)
class Section:
    """A heading with tables."""

    title: str
    text: str
    tables: tuple[Table, ...]


_SECTIONS = (
    Section(
        "FP32 on CPUs",
        "",
        (
            Table("networks-zen5", "AMD EPYC (Zen 5), AVX-512", 1),
            Table("networks-zen5", "AMD EPYC (Zen 5), AVX-512", 2),
            Table("networks-zen5-avx2", "AMD EPYC (Zen 5), limited to AVX2", 1),
            Table("networks-1-thread", "AMD EPYC (Zen 4), AVX-512", 1),
            Table("networks-2-threads", "AMD EPYC (Zen 4), AVX-512", 2),
            Table("networks-avx2", "AMD EPYC (Zen 4), limited to AVX2", 1),
            Table("networks-xeon-amx-1-thread", "Intel Xeon with AMX", 1),
        ),
    ),
    Section(
        "INT8 on CPUs",
        "All libraries run the same quantized ONNX models.",
        (
            Table("int8-networks-zen5", "AMD EPYC (Zen 5), AVX-512 VNNI", 1),
            Table("int8-networks-zen5", "AMD EPYC (Zen 5), AVX-512 VNNI", 2),
            Table("int8-networks-1-thread", "AMD EPYC (Zen 4), AVX-512 VNNI", 1),
            Table("int8-networks-2-threads", "AMD EPYC (Zen 4), AVX-512 VNNI", 2),
            Table("int8-networks-avx2", "AMD EPYC (Zen 4), limited to AVX2", 1),
            Table("int8-networks-amx-1-thread", "Intel Xeon with AMX", 1),
        ),
    ),
    Section(
        "89 architectures",
        "Architectures of torchvision, timm, pytorchcv and transformers in FP32, exported with "
        "operator set 17. The other libraries are onnxruntime and OpenVINO.",
        (Table("architectures-zen5", "AMD EPYC (Zen 5), AVX-512", 1),),
    ),
    Section(
        "NVIDIA GPUs",
        "FP32. PyTorch uses cuDNN and replays a CUDA graph, as tvmconv does. `mb`: batch size.",
        (
            Table("cuda-h100-networks-measured", "NVIDIA H100", None),
            Table("cuda-h200-networks-measured", "NVIDIA H200", None),
        ),
    ),
)


def saved(file: str) -> dict[str, Any]:
    """Return a saved report."""
    report: dict[str, Any] = json.loads(gzip.decompress((RESULTS / f"{file}.json.gz").read_bytes()))
    return report


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for section in _SECTIONS:
        parts.append(f"\n## {section.title}\n\n")
        if section.text:
            parts.append(f"{section.text}\n\n")
        parts += [_table(table) for table in section.tables]
    if (RESULTS / f"{search_spaces.FILE}.json.gz").exists():
        report = saved(search_spaces.FILE)
        parts.append(search_spaces.text(report, _origin(search_spaces.FILE, report)))
    return "".join([*parts, _REPEAT.lstrip("\n")])


def _table(table: Table) -> str:
    report = saved(table.file)
    lines = [
        f"**{table.title}**\n",
        "| network | tvmconv, ms | fastest other, ms | library | ratio | by medians |",
        "|---|---|---|---|---|---|",
    ]
    ratios = []
    for row in _fastest(report, table.threads):
        ratios.append(row["best_peer_seconds"] / row["min_seconds"])
        medians = [_median(report, row, name) for name in (row["best_peer"], row["contender"])]
        cells = (
            _network(row["case"]),
            f"{row['min_seconds'] * 1e3:#.3g}".rstrip("."),
            f"{row['best_peer_seconds'] * 1e3:#.3g}".rstrip("."),
            LIBRARIES.get(row["best_peer"], row["best_peer"]),
            f"{ratios[-1]:.2f}",
            f"{medians[0] / medians[1]:.2f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    lines.append(f"| geometric mean | | | | {geometric_mean(ratios):.2f} | |")
    return "\n".join(lines) + f"\n\n*{_origin(table.file, report)}*\n\n"


def _fastest(report: dict[str, Any], threads: int | None) -> list[dict[str, Any]]:
    """Our fastest entry of each network, which other libraries ran on as many threads, too."""
    best: dict[str, dict[str, Any]] = {}
    for row in report["summary"]:
        if threads not in (None, row["threads"]):
            continue
        known = best.get(row["case"])
        if row.get("best_peer") and (not known or row["min_seconds"] < known["min_seconds"]):
            best[row["case"]] = row
    return list(best.values())


def _median(report: dict[str, Any], row: dict[str, Any], name: str) -> float:
    return min(
        float(each["median_seconds"])
        for each in report["measurements"]
        if (each["case"], each["threads"]) == (row["case"], row["threads"])
        and each["contender"] == name
        and each["status"] == "ok"
    )


def _network(case: str) -> str:
    name, _, batch = case.removesuffix(".int8").partition(" ")
    return " ".join(filter(None, [NAMES.get(name, name), batch]))


def _origin(file: str, report: dict[str, Any]) -> str:
    machine = report["machine"]
    commit = json.loads(COMMITS.read_text())[file]
    link = f"[{file}.json.gz](../results/{file}.json.gz)"
    where = machine["gpu"]["name"] if file.startswith("cuda") else machine["cpu"]
    return f"{link}, {machine['date'][:10]}, commit {commit}, {where}"
