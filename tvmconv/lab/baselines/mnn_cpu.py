"""MNN on the CPU, converted from the ONNX file.

The converter is called natively: the package's ``mnnconvert`` command wraps it in a logger that
installs software and uploads usage data.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from .case import EMULATOR, Array, Case, Session, Unsupported
from .quantized import is_quantized

_CONVERT = "import sys, _tools; _tools.mnnconvert(sys.argv)"


version = partial(installed, "MNN")


def prepare(case: Case, threads: int) -> Session:
    """High precision (FP32); the input copy is not part of a call."""
    exported = export(case, threads)
    session = open_export(case, threads, exported)
    Path(exported["file"]).unlink()
    return session


def export(case: Case, threads: int) -> dict[str, Any]:
    """MNN's own format; the converter leaves a file next to it."""
    path = case.folder / "model.mnn"
    # a program for another CPU needs its emulator
    emulator = shlex.split(os.environ.get(EMULATOR, ""))
    arguments = ["-f", "ONNX", "--modelFile", str(case.onnx.resolve()), "--MNNModel", str(path)]
    try:
        subprocess.run(
            [*emulator, sys.executable, "-c", _CONVERT, *arguments, "--bizCode", "bench"],
            check=True,
            cwd=case.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=300,
        )
    except subprocess.CalledProcessError:
        if is_quantized(case):
            raise Unsupported("MNN's converter aborts on this quantized model") from None
        raise
    return {"file": str(path)}


def open_export(case: Case, threads: int, exported: Mapping[str, Any]) -> Session:
    """See :func:`prepare`."""
    import MNN

    name, value = case.single_input()
    interpreter = MNN.Interpreter(exported["file"])
    settings = {"numThread": threads, "precision": "high", "backend": "CPU", "power": "high"}
    session = interpreter.createSession(settings)
    target = interpreter.getSessionInput(session, name)
    layout = MNN.Tensor_DimensionType_Caffe
    source = MNN.Tensor(tuple(value.shape), MNN.Halide_Type_Float, value, layout)
    target.copyFrom(source)

    def outputs() -> dict[str, Array]:
        # a run reuses the input's memory, so the checked run needs it again
        target.copyFrom(source)
        interpreter.runSession(session)
        return {name: _read(interpreter.getSessionOutput(session, name)) for name in case.outputs}

    def _read(tensor: object) -> Array:
        shape = tuple(tensor.getShape())  # type: ignore[attr-defined]
        host = MNN.Tensor(shape, MNN.Halide_Type_Float, np.zeros(shape, "float32"), layout)
        tensor.copyToHostTensor(host)  # type: ignore[attr-defined]
        return np.array(host.getNumpyData()).reshape(shape)

    return Session(lambda: interpreter.runSession(session), outputs)
