"""Options of the subcommands that measure next to other libraries, or show what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvmconv.cli import options
from tvmconv.cli.values import at_least

Batch = Annotated[
    str, typer.Option(metavar="N,...", help="Batch sizes in place of each layer's or model's own.")
]
Types = Annotated[
    str,
    typer.Option(
        "--types",
        metavar="TYPES",
        help="Data types of all layers, such as u8s8s32u8.",
        show_default="each layer's own",
    ),
]
Variants = Annotated[
    str,
    typer.Option(
        "--algorithms",
        metavar="NAME[:KNOB=VALUE...],...",
        help="Algorithms to measure: NAME, -NAME, all, NAME:steps, NAME:KNOB=VALUE.",
        show_default="every algorithm that computes the layer",
    ),
]
Rounds = Annotated[
    int,
    typer.Option(
        parser=at_least(1),
        metavar="N",
        help="Number of interleaved rounds.",
        rich_help_panel=options.MEASURING,
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        "--seconds",
        parser=at_least(0.001),
        metavar="SECONDS",
        help="Duration of one library in one round, in seconds.",
        rich_help_panel=options.MEASURING,
    ),
]
BaselinePython = Annotated[
    list[str] | None,
    typer.Option(
        "--baseline-python",
        metavar="[NAME=]PATH",
        # the second name is of the option's former name
        envvar=["TVMCONV_BASELINE_PYTHON", "TVMCONV_PEER_PYTHON"],
        show_envvar=False,
        help="Python with the baselines, or one of them. Repeatable.",
        show_default="$TVMCONV_BASELINE_PYTHON",
        rich_help_panel=options.BASELINES,
    ),
]
RelativeTo = Annotated[
    str,
    typer.Option(
        "--relative-to",
        metavar="ROW,...",
        help="Rows to compare all others with.",
        show_default="im2col,direct",
        rich_help_panel=options.OUTPUT,
    ),
]
Reports = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Reports of `bench run`.", show_default=False),
]
