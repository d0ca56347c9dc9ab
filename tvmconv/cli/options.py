"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from tvmconv.cli import destinations
from tvmconv.core.errors import InputError

# typer evaluates these at run time; Python 3.10's typer needs Optional in aliases
ModelOutput = Annotated[Path, destinations.model_file("-o", "--output", help="The .so to write.")]
Model = Annotated[
    Path, typer.Argument(help="ONNX model, or a .so that `compile` wrote.", show_default=False)
]
OnnxModel = Annotated[Path, typer.Argument(help="ONNX model.", show_default=False)]
Target = Annotated[
    str,
    typer.Option(
        metavar="TARGET",
        help="CPU or GPU to build for, or an LLVM string such as 'llvm -mcpu=haswell'. Run"
        " `tvmconv targets` for the list.",
    ),
]
Compiler = Annotated[
    str,
    typer.Option(
        "--cc",
        metavar="COMMAND",
        help="C compiler that links the model, e.g. 'clang --target=aarch64-linux-gnu'; CC's by"
        " default.",
        show_default=False,
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        metavar="inside|separate",
        help="Weights inside the .so, or separate: in a .weights file beside it, which is mapped.",
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify", help="Compare a .so and its weights with their hashes first."
    ),
]
Rpc = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Upload to a server of TVM's RPC and run there; for trusted networks only.",
    ),
]
RpcTracker = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="As --rpc, on a device of TVM's RPC tracker; with --rpc-key.",
    ),
]
RpcKey = Annotated[
    str, typer.Option(metavar="KEY", help="Key of the device at the tracker.", show_default=False)
]
Threads = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=1, metavar="N", help="Threads to build for; all CPUs of this process by default."
    ),
]
Shape = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(metavar="NAME:1x3x224x224", help="Shape of an input; may be repeated."),
]
Inputs = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy|FILE.npz",
        help="Input values; random (seeded) ones where not given. May be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Save = Annotated[
    Optional[Path],  # noqa: UP045
    destinations.result_file("--save", help="Also write the JSON to a file."),
]
Algorithms = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="NAME,...",
        help="Convolution algorithms to choose from; -NAME leaves one out. All by default.",
        show_default=False,
    ),
]
NoWinograd = Annotated[
    bool, typer.Option("--no-winograd", help="The same as --algorithms=-winograd.")
]
MemoryBudget = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="64MiB",
        help="Most workspace of a call; 0 leaves algorithms without any.",
        show_default=False,
    ),
]
FoldBudget = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        metavar="1GiB",
        help="Most bytes of constants computed while the model is read; 4 times its size and"
        " 256MiB by default.",
        show_default=False,
    ),
]
ErrorBudget = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        metavar="5e-6",
        help="Largest estimated error of a layer, relative to its largest output.",
        show_default=False,
    ),
]
Finite = Annotated[
    bool,
    typer.Option(
        "--finite/--no-finite",
        help="Inputs hold finite numbers of ordinary size; --no-finite leaves out algorithms that"
        " spread NaN, infinity and overflow over neighbouring pixels.",
    ),
]
Requantise = Annotated[
    str,
    typer.Option(
        metavar="float|fixed",
        help="How 8-bit layers rescale their sums: by float32, as ONNX defines it, or by integer"
        " multipliers and shifts, which may differ by one step.",
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        metavar="float32|tf32|fp16",
        help="What GPUs may round operands of convolutions to, for tensor cores; sums are float32.",
    ),
]
GpuIndex = Annotated[
    int,
    typer.Option("--device", min=0, metavar="N", help="Of models for GPUs: which GPU, from 0."),
]
CudaGraph = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option(
        "--cuda-graph/--no-cuda-graph",
        help="Of models for GPUs: replay the launches of a call as a CUDA graph; by default where"
        " inputs are of one image.",
        show_default=False,
    ),
]
OverrideFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--override",
        metavar="FILE",
        help="JSON file that names the algorithm of single layers.",
        show_default=False,
    ),
]

TuningLog = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--log",
        metavar="FILE",
        help="Tuning log that goes before the user's and the shipped ones; none for no log.",
        show_default=False,
    ),
]
Models = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Argument(help="ONNX models.", show_default=False),
]
Suites = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--suite",
        metavar="NAME|FILE",
        help="A layer suite by name (`tvmconv bench --list` shows them) or a text file; may be"
        " repeated.",
    ),
]
Layers = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--layer", metavar="PROBLEM", help="One layer as a problem string; may be repeated."
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the random inputs.")]
PeerPython = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--peer-python",
        metavar="[PEER=]PATH",
        envvar="TVMCONV_PEER_PYTHON",
        help="Python of the environment that holds the peers, or one peer; may be repeated.",
    ),
]


def parse_weights(text: str) -> Literal["inside", "separate"]:
    """The place of the weights.

    Raises
    ------
    InputError
        If it is none.
    """
    if text not in ("inside", "separate"):
        raise InputError(f"--weights {text!r} is not known; use inside or separate")
    return "separate" if text == "separate" else "inside"


def parse_shapes(items: list[str] | None) -> dict[str, tuple[int, ...]] | None:
    """``NAME:1x3x224x224`` options as a mapping.

    Raises
    ------
    InputError
        If an item is not a name, a colon and positive sizes joined by ``x``.
    """
    if not items:
        return None
    shapes = {}
    for item in items:
        name, _, sizes = item.rpartition(":")
        parts = sizes.split("x")
        if not name or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise InputError(f"cannot read --shape {item!r}; write NAME:1x3x224x224")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def integers(text: str, option: str) -> tuple[int, ...]:
    """A comma-separated list of positive integers, e.g. ``1,2``.

    Raises
    ------
    InputError
        If an entry is not a positive integer.
    """
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"cannot read {option} {text!r}; write positive integers such as 1,2")
    return tuple(int(part) for part in parts)
