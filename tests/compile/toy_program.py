"""A program of three calls whose kernels are written in C, so that nothing of TVM is needed."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tvmconv.compile.network import CompiledProgram
from tvmconv.compile.objects import Objects
from tvmconv.compile.source import Facts
from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.targets import resolve_machine
from tvmconv.program.program import Call, Constant, Operand, Place, Program

WIDTH = 16
SCALE = np.linspace(1, 2, WIDTH, dtype=np.float32)
SHIFT = np.linspace(-3, 3, WIDTH, dtype=np.float32)
# characters that end or change a literal, a comment or a line, and similar harmless ones
HOSTILE = [
    'quote" and \\ backslash \\',
    "ends */ /* begins // \\\n#error line",
    "trigraphs ??/ ??= ??( ???/",
    "percent %s %n and tab\t and bell \a",
    "UTF-8 Größe 卷积 \U0001f642",
    "right to left \u202e evil \u2066 \u200b",
    "digits after an escape é0123 \x01777",
    "",
    "x" * 5000,
]
_KERNELS = f"""
#include <stdint.h>
int32_t multiply_kernel(const float *x, const float *scale, float *y) {{
    for (int i = 0; i < {WIDTH}; ++i) y[i] = x[i] * scale[i];
    return 0;
}}
int32_t add_kernel(const float *x, const float *shift, float *y) {{
    for (int i = 0; i < {WIDTH}; ++i) y[i] = x[i] + shift[i];
    return x[0] == 1e30f ? 7 : 0;
}}
"""


def operand(place: Place, offset: int = 0, index: int = 0) -> Operand:
    return Operand(place, offset, 4 * WIDTH, index)


def toy(name: str = "toy", factor: float = 1, names: list[str] | None = None) -> Program:
    """outputs = (input * scale + shift, a copy of input * scale)."""
    layer, first, second, kind = (names or ["layer", "image", "scores", "multiply"])[:4]
    calls = [
        Call(
            KernelCall(layer, "multiply_kernel", kind, "", 1 << 40, 3 * 4 * WIDTH),
            (operand(Place.INPUT), operand(Place.CONSTANT), operand(Place.ARENA, 64)),
            "direct",
        ),
        Call(
            KernelCall("", "add_kernel", "add"),
            (operand(Place.ARENA, 64), operand(Place.CONSTANT, 128), operand(Place.OUTPUT)),
        ),
        Call(
            KernelCall("", "", "copy"),
            (operand(Place.ARENA, 64), operand(Place.OUTPUT, index=1)),
        ),
    ]
    return Program(
        inputs=(TensorInfo(first, (1, WIDTH), "float32"),),
        outputs=(TensorInfo(second, (WIDTH,), "float32"), TensorInfo("copy", (WIDTH,), "float32")),
        calls=tuple(calls),
        constants=(Constant(0, np.float32(factor) * SCALE), Constant(128, SHIFT)),
        constant_bytes=128 + 4 * WIDTH,
        arena_bytes=128,
        arena_bound=128,
    )


def expected(image: np.ndarray, factor: float = 1) -> list[np.ndarray]:
    scaled = image.reshape(-1) * (np.float32(factor) * SCALE)
    return [scaled + SHIFT, scaled]


def facts(name: str = "toy") -> Facts:
    return Facts(name, "0.0", "here", (), 1)


@cache
def objects() -> Objects:
    with TemporaryDirectory() as folder:
        source, output = Path(folder) / "k.c", Path(folder) / "k.o"
        source.write_text(_KERNELS)
        command = ["cc", "-O1", "-fPIC", "-fvisibility=default", "-c", source, "-o", output]
        subprocess.run(command, check=True)
        return Objects({"kernels": output.read_bytes()}, {})


def compiled(name: str = "toy", factor: float = 1) -> CompiledProgram:
    machine = resolve_machine("native", 1)
    return CompiledProgram(toy(name, factor), objects(), facts(name), machine)
