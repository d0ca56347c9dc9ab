"""OpenCV 5 on the CPU: its own engine for ONNX files, in FP32."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Array, Case, Session, Unsupported


def version() -> str:
    """Version of OpenCV; raises :class:`ImportError` before version 5."""
    import cv2

    if not hasattr(cv2.dnn, "ENGINE_NEW"):
        raise ImportError(f"OpenCV {cv2.__version__} lacks the engine of version 5")
    return str(cv2.__version__)


def prepare(case: Case, threads: int) -> Session:
    """The new engine alone, which would otherwise leave some files to the engine of OpenCV 4.

    Inputs are set once, because ``setInput`` copies them. A call returns new output arrays.
    """
    import cv2

    cv2.setNumThreads(threads)
    try:
        net = cv2.dnn.readNetFromONNX(str(case.onnx), engine=cv2.dnn.ENGINE_NEW)
    except cv2.error as error:
        raise Unsupported(_reason(error)) from None
    for name, value in case.inputs.items():
        net.setInput(np.ascontiguousarray(value), name)
    names = list(case.outputs)
    last: list[Any] = [None]

    def run() -> None:
        last[0] = net.forward(names)

    def outputs() -> dict[str, Array]:
        return dict(zip(names, last[0], strict=True))

    return Session(run, outputs)


def _reason(error: Any) -> str:
    """The message of an error of OpenCV, without its version, file and line."""
    return " ".join(str(getattr(error, "err", "") or error).split())
