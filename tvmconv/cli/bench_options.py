"""Options of the subcommands that measure next to other libraries, or show what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tvmconv.cli import options
from tvmconv.cli.values import argument, value

Batch = Annotated[
    str, value("N,...", help="Batch sizes; fit:N is halved while memory is too small.")
]
Types = Annotated[
    str,
    value(
        "TYPES",
        "--types",
        help="Data types of all layers, such as u8s8s32u8.",
        show_default="each layer's own",
    ),
]
Variants = Annotated[
    str,
    value(
        "NAME[:KNOB=VALUE...],...",
        "--algorithms",
        help="Algorithms to measure: NAME, -NAME, all, NAME:steps, NAME:KNOB=VALUE.",
        show_default="every algorithm that computes the layer",
    ),
]
Streams = Annotated[
    str,
    options.MEASURING.value(
        "N,...",
        "--streams",
        help="Numbers of calls at a time that share the threads: 1,2,4.",
        show_default="single calls",
    ),
]
Rounds = Annotated[int, options.MEASURING.number(1, help="Number of interleaved rounds.")]
Seconds = Annotated[
    float,
    options.MEASURING.number(
        0.001,
        "--seconds",
        help="Duration of one library in one round, in seconds.",
        metavar="SECONDS",
    ),
]
BaselinePython = Annotated[
    list[str] | None,
    options.BASELINES.value(
        "[NAME=]PATH",
        "--baseline-python",
        # the second is a former name
        envvar=["TVMCONV_BASELINE_PYTHON", "TVMCONV_PEER_PYTHON"],
        show_envvar=False,
        help="Python with the baselines, or one of them. Repeatable.",
        show_default="$TVMCONV_BASELINE_PYTHON",
    ),
]
RelativeTo = Annotated[
    str,
    options.OUTPUT.value(
        "ROW,...",
        "--relative-to",
        help="Rows to compare all others with.",
        show_default="im2col,direct",
    ),
]
Reports = Annotated[list[Path], argument("FILE...", help="Reports of `bench run`.")]
