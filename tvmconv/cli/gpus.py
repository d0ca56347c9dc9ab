"""``--device``: the GPU that a model is built for, or that processes of their own measure on."""

from __future__ import annotations

import os
from itertools import takewhile

from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.runtime.gpu_options import GpuOptions

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def take_gpu(index: int, target: str, remote: bool = False) -> None:
    """Let this process and its subprocesses see one GPU alone, as their first.

    Baselines then run there, too. The driver reads the variable once, so call this before opening
    the driver. ``remote`` says that a device of RPC measures.

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
        # the driver hides all GPUs after an invalid name, usually -1
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
    """The GPU that describes the target ``cuda`` of a build.

    Raises :class:`InputError` if a number is given for another target.
    """
    if index and target != "cuda":
        raise InputError(
            f"--device {index} selects a local GPU and requires --target cuda, got {target!r}. "
            "Leave out --device; run and profile choose the GPU that runs a model."
        )
    return GpuOptions.of(index, None)
