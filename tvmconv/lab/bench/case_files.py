"""The files of a case folder, which every adapter reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvmconv.core.tensor import Array

SEED = 7


@dataclass(frozen=True)
class CaseInfo:
    """Facts of a case that the bench wrote; a call computes ``images``.

    ``quantized`` models may differ in 8-bit values by several steps, because kernels saturate.
    """

    name: str
    kind: str
    problem: str
    flops: int
    count: int = 1
    quantized: bool = False
    images: int = 1


def write_case(
    folder: Path,
    onnx_path: Path,
    nodes: list[dict[str, Any]],
    shapes: Mapping[str, Any],
    constants: Mapping[str, Array],
    inputs: Mapping[str, Array],
    outputs: list[str],
    repeated: int = 0,
) -> None:
    """The files of a case folder except the ONNX file and the reference.

    Only the first ``repeated`` values of inputs are written, where inputs repeat after so many.
    """
    data = {
        "onnx": str(onnx_path),
        "nodes": nodes,
        "shapes": shapes,
        "inputs": list(inputs),
        "outputs": outputs,
        "repeated": repeated,
    }
    (folder / "case.json").write_text(json.dumps(data))
    np.savez(folder / "constants.npz", **constants)  # type: ignore[arg-type]
    if repeated:
        inputs = {name: value.reshape(-1)[:repeated] for name, value in inputs.items()}
    np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
