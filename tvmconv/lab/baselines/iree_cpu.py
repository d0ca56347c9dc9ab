"""IREE on the CPU: imported from ONNX and compiled for this CPU by its own tools."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from .case import Array, Case, Session, Unsupported

# the importer's own converters expect this opset or a later one
_OPSET = "17"
_SECONDS = 280
_TOOLS = "iree.compiler.tools"
_OPTIONS = (
    "--iree-input-type=onnx",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
    # not the default: twice as fast on YOLO11n, and matrix products of packed tiles
    "--iree-global-opt-use-im2col-for-convs",
    "--iree-opt-data-tiling",
)

version = partial(installed, "iree-base-runtime")


def prepare(case: Case, threads: int) -> Session:
    """Compiled at the highest level for this CPU.

    Inputs are in the device's memory before a call. A call returns when its outputs are there.
    """
    exported = export(case, threads)
    session = open_export(case, threads, exported)
    Path(exported["file"]).unlink()
    return session


def export(case: Case, threads: int) -> dict[str, Any]:
    """The module for IREE's virtual machine."""
    text, module = case.folder / "model.mlir", case.folder / "model.vmfb"
    _run(f"{_TOOLS}.import_onnx", str(case.onnx), "--opset-version", _OPSET, "-o", str(text))
    _run(f"{_TOOLS}.scripts.iree_compile", *_OPTIONS, str(text), "-o", str(module))
    text.unlink()
    return {"file": str(module)}


def _run(tool: str, *arguments: str) -> None:
    """One of IREE's tools; raises :class:`Unsupported` with the first error that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "rror" in line]
        raise Unsupported(f"{tool.rpartition('.')[2]}: {(errors or ['failed'])[0][:200]}")


def open_export(case: Case, threads: int, exported: Mapping[str, Any]) -> Session:
    """See :func:`prepare`."""
    import iree.runtime as rt

    rt.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = rt.Config("local-sync" if threads == 1 else "local-task")
    module = rt.VmModule.mmap(config.vm_instance, exported["file"])
    # besides initializers, a module has the function and a form of it that does not wait
    (name,) = {name.removesuffix("$async") for name in module.function_names if name[:2] != "__"}
    call = rt.load_vm_module(module, config)[name]
    values = [rt.asdevicearray(config.device, value) for value in case.inputs.values()]
    last: list[Any] = [None]

    def run() -> None:
        last[0] = call(*values)

    def outputs() -> dict[str, Array]:
        results = last[0] if isinstance(last[0], tuple) else (last[0],)
        return {n: np.asarray(r) for n, r in zip(case.outputs, results, strict=True)}

    return Session(run, outputs)
