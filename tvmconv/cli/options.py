"""Arguments and options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tvmconv.cli import destinations
from tvmconv.cli.values import Panel, argument, value

# headings of the help, in which options are grouped
BUILD = Panel("Build options")
SELECTION = Panel("Algorithm selection")
MEASURING = Panel("Measurement")
BASELINES = Panel("Baselines")
GPU = Panel("GPU options")
REMOTE = Panel("Remote devices")
OUTPUT = destinations.OUTPUT

ALL_CPUS = "all available CPUs"

ModelOutput = Annotated[Path, destinations.model_file("-o", "--output", help="The .so to write.")]
Model = Annotated[Path, argument("MODEL", help="ONNX model, or .so of `compile`.")]
OnnxModel = Annotated[Path, argument("MODEL", help="ONNX model.")]
Target = Annotated[
    str,
    BUILD.value(
        "TARGET", "--target", help="CPUs (A,B), GPU or LLVM string. `tvmconv targets` lists them."
    ),
]
Compiler = Annotated[
    str,
    BUILD.value(
        "COMMAND", "--cc", help="C compiler that links the model.", show_default="CC, or cc"
    ),
]
Weights = Annotated[
    str, BUILD.value("embedded|external", help="Weights in the .so, or in a mapped .weights file.")
]
Verify = Annotated[
    bool, BUILD.flag("--verify/--no-verify", help="Check the hashes of a .so and its weights.")
]
Rpc = Annotated[
    str, REMOTE.value("HOST:PORT", help="Run on a TVM RPC server; trusted networks only.")
]
RpcTracker = Annotated[
    str, REMOTE.value("HOST:PORT", help="Address of a TVM RPC tracker (requires --rpc-key).")
]
RpcKey = Annotated[
    str, REMOTE.value("KEY", help="Key of the device at the tracker.", show_default=False)
]
Threads = Annotated[int | None, BUILD.number(1, help="Number of threads.", show_default=ALL_CPUS)]
Shape = Annotated[
    list[str] | None,
    BUILD.value(
        "NAME:1x3x224x224|NAME=224",
        "--shape",
        "--dim",
        help="Shape of an input, or size of a dimension; repeatable; takes lists.",
    ),
]
Batch = Annotated[
    str | None,
    BUILD.value(
        "any",
        "--batch",
        help="CPU only: serve any batch size.",
        show_default="the model's batch size",
    ),
]
Outputs = Annotated[
    str | None,
    BUILD.value(
        "NAME,...",
        "--outputs",
        help="Values at which the model ends; the rest is left out.",
        show_default="the model's outputs",
    ),
]
Inputs = Annotated[
    list[str] | None,
    value(
        "NAME=FILE.npy|FILE.npz", "--input", help="Input values; repeatable.", show_default="random"
    ),
]
Json = Annotated[bool, OUTPUT.flag("--json", help="Print JSON instead of tables.")]
Report = Annotated[
    Path | None, destinations.result_file("--report", help="Also write the JSON to a file.")
]
Algorithms = Annotated[
    str | None,
    SELECTION.value(
        "NAME,...",
        help="Algorithms to consider; -NAME excludes one.",
        show_default="all",
    ),
]
NoWinograd = Annotated[
    bool, SELECTION.flag("--no-winograd", help="Same as --algorithms=-winograd.")
]
MemoryBudget = Annotated[
    str | None,
    SELECTION.value(
        "64MiB", help="Maximum workspace of a call; 0 allows none.", show_default="no limit"
    ),
]
FoldBudget = Annotated[
    str | None,
    BUILD.value(
        "1GiB",
        help="Maximum bytes of constants computed while reading.",
        show_default="4x the model + 256MiB",
    ),
]
ErrorBudget = Annotated[
    float | None,
    SELECTION.number(
        0.0,
        metavar="ERROR",
        help="Maximum estimated error of a layer, relative to its largest output.",
        show_default="5e-6",
    ),
]
Finite = Annotated[
    bool,
    SELECTION.flag(
        "--finite/--no-finite",
        help="With --no-finite: exclude algorithms that spread NaN and infinity.",
    ),
]
Requantize = Annotated[
    str,
    SELECTION.value("float|fixed", help="INT8: rescale by FP32 as ONNX defines, or by integers."),
]
Precision = Annotated[
    str,
    GPU.value("float32|tf32|fp16", help="CUDA only: round operands to this; accumulate in FP32."),
]
GpuIndex = Annotated[int, GPU.number(0, "--device", help="CUDA only: GPU index.")]
CudaGraph = Annotated[
    bool | None,
    GPU.flag(
        "--cuda-graph/--no-cuda-graph",
        help="CUDA only: replay launches as a CUDA graph.",
        show_default="at batch size 1",
    ),
]
OverrideFile = Annotated[
    Path | None,
    SELECTION.value(
        "FILE",
        "--override",
        help="JSON file with the algorithms of single layers.",
        show_default=False,
    ),
]
TuningLog = Annotated[
    str | None,
    SELECTION.value(
        "FILE",
        "--tuning-log",
        help="Preferred tuning log, or none for no log at all.",
        show_default="your log, then the shipped logs",
    ),
]
Models = Annotated[list[Path] | None, argument("MODEL...", help="ONNX models.")]
Suites = Annotated[
    list[str] | None,
    value("NAME|FILE", "--suite", help="Layer suite; `tvmconv bench list` lists them. Repeatable."),
]
Layers = Annotated[
    list[str] | None, value("PROBLEM", "--layer", help="Layer as a problem string; repeatable.")
]
Seed = Annotated[int, value("N", help="Seed of the random inputs.")]
Csv = Annotated[
    Path | None, destinations.result_file("--csv", help="Write the first table as CSV.")
]
