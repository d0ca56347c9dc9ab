"""Arguments and options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tvmconv.cli import destinations
from tvmconv.cli.values import argument, flag, number, value

# headings of the help, in which options are grouped
BUILD = "Build options"
SELECTION = "Algorithm selection"
MEASURING = "Measurement"
BASELINES = "Baselines"
GPU = "GPU options"
REMOTE = "Remote devices"
OUTPUT = destinations.HEADING

ALL_CPUS = "all available CPUs"

ModelOutput = Annotated[Path, destinations.model_file("-o", "--output", help="The .so to write.")]
Model = Annotated[Path, argument("MODEL", help="ONNX model, or .so of `compile`.")]
OnnxModel = Annotated[Path, argument("MODEL", help="ONNX model.")]
Target = Annotated[
    str,
    value(
        "TARGET",
        "--target",
        help="CPU, GPU or LLVM string. `tvmconv targets` lists them.",
        panel=BUILD,
    ),
]
Compiler = Annotated[
    str,
    value(
        "COMMAND",
        "--cc",
        help="C compiler that links the model.",
        panel=BUILD,
        show_default="CC, or cc",
    ),
]
Weights = Annotated[
    str,
    value(
        "embedded|external", help="Weights in the .so, or in a mapped .weights file.", panel=BUILD
    ),
]
Verify = Annotated[
    bool,
    flag("--verify/--no-verify", help="Check the hashes of a .so and its weights.", panel=BUILD),
]
Rpc = Annotated[
    str, value("HOST:PORT", help="Run on a TVM RPC server; trusted networks only.", panel=REMOTE)
]
RpcTracker = Annotated[
    str, value("HOST:PORT", help="Address of a TVM RPC tracker (requires --rpc-key).", panel=REMOTE)
]
RpcKey = Annotated[
    str, value("KEY", help="Key of the device at the tracker.", panel=REMOTE, show_default=False)
]
Threads = Annotated[
    int | None, number(1, help="Number of threads.", panel=BUILD, show_default=ALL_CPUS)
]
Shape = Annotated[
    list[str] | None,
    value(
        "NAME:1x3x224x224|NAME=224",
        "--shape",
        "--dim",
        help="Shape of an input, or size of a named dimension; repeatable.",
        panel=BUILD,
    ),
]
Outputs = Annotated[
    str | None,
    value(
        "NAME,...",
        "--outputs",
        help="Values at which the model ends; the rest is left out.",
        panel=BUILD,
        show_default="the model's outputs",
    ),
]
Inputs = Annotated[
    list[str] | None,
    value(
        "NAME=FILE.npy|FILE.npz", "--input", help="Input values; repeatable.", show_default="random"
    ),
]
Json = Annotated[bool, flag("--json", help="Print JSON instead of tables.", panel=OUTPUT)]
Report = Annotated[
    Path | None,
    destinations.result_file("--report", help="Also write the JSON to a file."),
]
Algorithms = Annotated[
    str | None,
    value(
        "NAME,...",
        help="Convolution algorithms to consider; -NAME excludes one.",
        panel=SELECTION,
        show_default="all",
    ),
]
NoWinograd = Annotated[
    bool, flag("--no-winograd", help="Same as --algorithms=-winograd.", panel=SELECTION)
]
MemoryBudget = Annotated[
    str | None,
    value(
        "64MiB",
        help="Maximum workspace of a call; 0 allows none.",
        panel=SELECTION,
        show_default="no limit",
    ),
]
FoldBudget = Annotated[
    str | None,
    value(
        "1GiB",
        help="Maximum bytes of constants computed while reading.",
        panel=BUILD,
        show_default="4x the model + 256MiB",
    ),
]
ErrorBudget = Annotated[
    float | None,
    value(
        "ERROR",
        help="Maximum estimated error of a layer, relative to its largest output.",
        panel=SELECTION,
        show_default="5e-6",
    ),
]
Finite = Annotated[
    bool,
    flag(
        "--finite/--no-finite",
        help="With --no-finite: exclude algorithms that spread NaN and infinity.",
        panel=SELECTION,
    ),
]
Requantize = Annotated[
    str,
    value(
        "float|fixed",
        help="INT8: rescale by FP32 as ONNX defines, or by integers.",
        panel=SELECTION,
    ),
]
Precision = Annotated[
    str,
    value(
        "float32|tf32|fp16",
        help="CUDA only: round operands to this; accumulate in FP32.",
        panel=GPU,
    ),
]
GpuIndex = Annotated[int, number(0, "--device", help="CUDA only: GPU index.", panel=GPU)]
CudaGraph = Annotated[
    bool | None,
    flag(
        "--cuda-graph/--no-cuda-graph",
        help="CUDA only: replay launches as a CUDA graph.",
        panel=GPU,
        show_default="at batch size 1",
    ),
]
OverrideFile = Annotated[
    Path | None,
    value(
        "FILE",
        "--override",
        help="JSON file with the algorithms of single layers.",
        panel=SELECTION,
        show_default=False,
    ),
]
TuningLog = Annotated[
    str | None,
    value(
        "FILE",
        "--tuning-log",
        help="Preferred tuning log, or none for no log at all.",
        panel=SELECTION,
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
    Path | None,
    destinations.result_file("--csv", help="Write the first table as CSV."),
]
