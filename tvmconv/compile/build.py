"""From the lowered graph to an executable."""

from __future__ import annotations

from typing import Any, Protocol

from tvmconv.compile.relax_pipeline import lower_pass
from tvmconv.machines.record import Machine
from tvmconv.tir.pipeline import register
from tvmconv.tir.workspace import recorded


class Lowered(Protocol):
    """What :func:`compile_graph` needs of ``tvmconv.graph.LoweredGraph``."""

    @property
    def mod(self) -> Any:
        """``tvm.IRModule`` with the Relax function ``main``."""


def compile_graph(lowered: Lowered, machine: Machine) -> Any:
    """Schedule what is not scheduled yet and generate machine code.

    Parameters
    ----------
    lowered
        The graph after layout planning, every operator a call of a ``PrimFunc``.
    machine
        The target.

    Returns
    -------
    tvm.relax.VMExecutable
        The executable with its constants. Its attribute ``workspace_bytes`` maps the symbol of
        each function that allocates scratch memory to the bytes one thread allocates.
    """
    from tvm import relax
    from tvm.target import Target

    # Not inside `with target:`, which would add attributes that override the code generator's
    # options.
    target = Target(machine.tvm_target())
    with recorded() as workspace:
        executable = relax.build(
            lowered.mod, target=target, relax_pipeline=lower_pass(machine), tir_pipeline=register()
        )
    executable.workspace_bytes = workspace
    return executable
