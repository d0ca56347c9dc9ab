"""``--estimate``, which several subcommands share."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tvmconv.cli import options
from tvmconv.cli.output import tell
from tvmconv.core.errors import InputError

if TYPE_CHECKING:
    from tvmconv.lab.estimation.estimate import Estimate
    from tvmconv.model import CompiledModel

Option = Annotated[
    bool,
    options.MEASURING.flag(
        "--estimate", help="Estimate cycles: QEMU and llvm-mca for CPUs, a model for GPUs."
    ),
]


def one_thread(threads: int | None) -> int:
    """The threads of an estimate; raises :class:`InputError` for more than one."""
    if threads not in (None, 1):
        raise InputError(f"--estimate supports one thread, got {threads}. Leave out --threads.")
    return 1


def estimated(model: CompiledModel) -> Estimate:
    """The estimate of a model; raises :class:`ArtifactError` if tools are missing."""
    from tvmconv.lab.estimation.estimate import estimate_model
    from tvmconv.lab.estimation.tools import check_tools

    check_tools(model.machine.triple)
    tell("estimating: every layer is run once under qemu")
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        return estimate_model(model.save(Path(folder) / "model.so"))
