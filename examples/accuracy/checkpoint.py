"""Where the trained network is, and what it must be."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
from onnx import ModelProto

from tvmconv.core.errors import ModelError

# channels of the first stage
WIDTH = 16
CHECKPOINT = Path(__file__).parent / "resnet18_textures.onnx"
# of the file that this command wrote:
# python -m examples.accuracy.train --bfloat16
SHA256 = "d4a2257bfedef0a99864f19b8e86348b3ffb6d07164c0c6dbacaa1fc91ddafdd"


def sha256(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_checkpoint() -> ModelProto:
    """The network as it was trained.

    Raises
    ------
    ModelError
        If the file is missing or another one.
    """
    command = "python -m examples.accuracy.train --bfloat16 makes one"
    if not CHECKPOINT.is_file():
        raise ModelError(f"{CHECKPOINT} is missing; {command}")
    found = sha256(CHECKPOINT)
    if found != SHA256:
        raise ModelError(
            f"{CHECKPOINT} has SHA-256 {found}, not {SHA256}; git checkout restores it, {command}"
            " and prints its sum, which belongs into checkpoint.py"
        )
    return onnx.load(CHECKPOINT)
