"""``--device``: the GPU that a model is built for, or that processes of their own measure on."""

from __future__ import annotations

import os
from itertools import takewhile

from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.runtime.gpu_options import GpuOptions

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def take_gpu(index: int, target: str, remote: bool = False) -> None:
    """Let this process and its subprocesses see one GPU alone, as their first.

    Baselines then run there, too. It comes before anything opens the driver,
    which reads the variable once.

    Parameters
    ----------
    index
        Number of the GPU, from 0, as the driver counts them.
    target
        Target of the measurement.
    remote
        Whether a device of RPC measures.

    Raises
    ------
    InputError
        If ``index`` is not 0, and the target is not a GPU of this machine.
    ArtifactError
        If the driver or the GPU is missing.
    """
    if index == 0:
        return
    if remote:
        raise InputError(
            "--device selects a local GPU and cannot be combined with RPC. To choose the GPU of an "
            f"RPC device, start its server with {_VISIBLE}."
        )
    if target.partition(":")[0] != "cuda":
        raise InputError(
            f"--device {index} requires a GPU, got --target {target}. Leave out --device, or use "
            "--target cuda."
        )
    from tvmconv.runtime.driver import Driver

    named, taken = os.environ.get(_VISIBLE), [str(index)]
    if named is not None:
        # the driver hides what follows a name of no GPU, of which -1 is the usual one
        shown = takewhile(lambda name: not name.strip().startswith("-"), named.split(","))
        taken = list(shown)[index : index + 1]
    os.environ[_VISIBLE] = ",".join(taken)
    try:
        Driver()
    except ArtifactError as error:
        raise ArtifactError(
            f"--device {index} does not exist: {error}. The driver numbers GPUs from 0; "
            f"{_VISIBLE} may hide some."
        ) from None


def built_for(index: int, target: str) -> GpuOptions:
    """The GPU of this machine whose record a build for ``--target cuda`` takes.

    Raises
    ------
    InputError
        If another than the first is asked for, and the target is not that.
    """
    if index and target != "cuda":
        raise InputError(
            f"--device {index} selects a local GPU and requires --target cuda, got {target!r}. "
            "Leave out --device; run and profile choose the GPU that runs a model."
        )
    return GpuOptions.of(index, None)
