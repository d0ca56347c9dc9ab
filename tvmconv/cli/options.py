"""Arguments and options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvmconv.cli import destinations
from tvmconv.cli.values import at_least

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
Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="ONNX model, or .so of `compile`.", show_default=False),
]
OnnxModel = Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX model.", show_default=False)]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="TARGET",
        help="CPU, GPU or LLVM string. `tvmconv targets` lists them.",
        rich_help_panel=BUILD,
    ),
]
Compiler = Annotated[
    str,
    typer.Option(
        "--cc",
        metavar="COMMAND",
        help="C compiler that links the model.",
        show_default="CC, or cc",
        rich_help_panel=BUILD,
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        metavar="embedded|external",
        help="Weights in the .so, or in a mapped .weights file.",
        rich_help_panel=BUILD,
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify",
        help="Check the hashes of a .so and its weights.",
        rich_help_panel=BUILD,
    ),
]
Rpc = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Run on a TVM RPC server; trusted networks only.",
        rich_help_panel=REMOTE,
    ),
]
RpcTracker = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Address of a TVM RPC tracker (requires --rpc-key).",
        rich_help_panel=REMOTE,
    ),
]
RpcKey = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        help="Key of the device at the tracker.",
        show_default=False,
        rich_help_panel=REMOTE,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        parser=at_least(1),
        metavar="N",
        help="Number of threads.",
        show_default=ALL_CPUS,
        rich_help_panel=BUILD,
    ),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME:1x3x224x224",
        help="Shape of an input; repeatable.",
        rich_help_panel=BUILD,
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy|FILE.npz",
        help="Input values; repeatable.",
        show_default="random",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel=OUTPUT)
]
Report = Annotated[
    Path | None,
    destinations.result_file("--report", help="Also write the JSON to a file."),
]
Algorithms = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Convolution algorithms to consider; -NAME excludes one.",
        show_default="all",
        rich_help_panel=SELECTION,
    ),
]
NoWinograd = Annotated[
    bool,
    typer.Option(
        "--no-winograd", help="Same as --algorithms=-winograd.", rich_help_panel=SELECTION
    ),
]
MemoryBudget = Annotated[
    str | None,
    typer.Option(
        metavar="64MiB",
        help="Maximum workspace of a call; 0 allows none.",
        show_default="no limit",
        rich_help_panel=SELECTION,
    ),
]
FoldBudget = Annotated[
    str | None,
    typer.Option(
        metavar="1GiB",
        help="Maximum bytes of constants computed while reading.",
        show_default="4x the model + 256MiB",
        rich_help_panel=BUILD,
    ),
]
ErrorBudget = Annotated[
    float | None,
    typer.Option(
        metavar="ERROR",
        help="Maximum estimated error of a layer, relative to its largest output.",
        show_default="5e-6",
        rich_help_panel=SELECTION,
    ),
]
Finite = Annotated[
    bool,
    typer.Option(
        "--finite/--no-finite",
        help="With --no-finite: exclude algorithms that spread NaN and infinity.",
        rich_help_panel=SELECTION,
    ),
]
Requantize = Annotated[
    str,
    typer.Option(
        metavar="float|fixed",
        help="INT8: rescale by FP32 as ONNX defines, or by integers.",
        rich_help_panel=SELECTION,
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        metavar="float32|tf32|fp16",
        help="CUDA only: round operands to this; accumulate in FP32.",
        rich_help_panel=GPU,
    ),
]
GpuIndex = Annotated[
    int,
    typer.Option(
        "--device",
        parser=at_least(0),
        metavar="N",
        help="CUDA only: GPU index.",
        rich_help_panel=GPU,
    ),
]
CudaGraph = Annotated[
    bool | None,
    typer.Option(
        "--cuda-graph/--no-cuda-graph",
        help="CUDA only: replay launches as a CUDA graph.",
        show_default="at batch size 1",
        rich_help_panel=GPU,
    ),
]
OverrideFile = Annotated[
    Path | None,
    typer.Option(
        "--override",
        metavar="FILE",
        help="JSON file with the algorithms of single layers.",
        show_default=False,
        rich_help_panel=SELECTION,
    ),
]
TuningLog = Annotated[
    str | None,
    typer.Option(
        "--tuning-log",
        metavar="FILE",
        help="Preferred tuning log, or none for no log at all.",
        show_default="your log, then the shipped logs",
        rich_help_panel=SELECTION,
    ),
]
Models = Annotated[
    list[Path] | None,
    typer.Argument(metavar="MODEL...", help="ONNX models.", show_default=False),
]
Suites = Annotated[
    list[str] | None,
    typer.Option(
        "--suite",
        metavar="NAME|FILE",
        help="Layer suite; `tvmconv bench list` lists them. Repeatable.",
    ),
]
Layers = Annotated[
    list[str] | None,
    typer.Option("--layer", metavar="PROBLEM", help="Layer as a problem string; repeatable."),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the random inputs.")]
Csv = Annotated[
    Path | None,
    destinations.result_file("--csv", help="Write the first table as CSV."),
]
