"""Element-wise functions by scalable vectors: their code, and calls at every vector length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tests.assembly import SVE_FRAME, assembly
from tests.compile.test_sve import LENGTHS, SCALABLE
from tests.emulating import needs_arm, run_functions, vectors_of
from tvmconv.kernels.rules import schedule_function
from tvmconv.tir.pipeline import compile_function

# the last has fewer pixels than long vectors, the second more than threads share evenly
SHAPES = ((1, 8, 14, 15, 4), (2, 3, 5, 7, 4), (1, 1, 1, 3, 4))
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., np.ndarray]]] = {
    "relu": (lambda a: tirx.max(a, 0.0), lambda a: np.maximum(a, 0)),
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "clipped product": (
        lambda a, b: tirx.min(tirx.max(a * b, -0.5), 0.5),
        lambda a, b: np.clip(a * b, -0.5, 0.5),
    ),
    "sigmoid": (tirx.sigmoid, lambda a: 1 / (1 + np.exp(-a))),
    "leaky": (
        lambda a: tirx.Select(a > 0.0, a, a * tirx.const(0.25, "float32")),
        lambda a: np.where(a > 0, a, a * 0.25),
    ),
    "sine of large angles": (
        lambda a: tirx.sin(a * tirx.const(2.0**33, "float32")),
        lambda a: np.sin(a * 2.0**33),
    ),
    "tangent": (tirx.tan, lambda a: np.sin(a) / np.cos(a)),
    "power": (
        lambda a, b: tirx.power(tirx.abs(a), b),
        lambda a, b: np.abs(a) ** b,
    ),
    "root": (lambda a: tirx.sqrt(tirx.abs(a)), lambda a: np.sqrt(np.abs(a))),
}


def scheduled(name: str, shape: tuple[int, ...]) -> tvm.tirx.PrimFunc:
    function, reference = FUNCTIONS[name]
    count = reference.__code__.co_argcount
    operands = [te.placeholder(shape, name=f"x{i}") for i in range(count)]
    result = te.compute(shape, lambda *i: function(*(x[i] for x in operands)), name="result")
    func = te.create_prim_func([*operands, result]).with_attr("global_symbol", "main")
    return schedule_function(func, SCALABLE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_blocks_are_one_masked_loop(name: str) -> None:
    function = scheduled(name, SHAPES[0])
    code = assembly(compile_function(function, SCALABLE))
    for instruction in ("whilelt", "ld1w", "st1w"):
        assert code.count(instruction), instruction
    # powers have more constants than there are registers
    assert code.has(SVE_FRAME) == (name == "power")


def test_what_has_no_instruction_has_neon_code() -> None:
    x = te.placeholder(SHAPES[0], name="x")
    y = te.compute(x.shape, lambda *i: tirx.atan2(x[i], x[i]), name="y")
    func = te.create_prim_func([x, y]).with_attr("global_symbol", "main")
    code = assembly(compile_function(schedule_function(func, SCALABLE), SCALABLE))
    assert not code.count("st1w")


@needs_arm
def test_every_function_at_every_vector_length(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    functions, operands, expected = [], [], []
    for name, (_, reference) in FUNCTIONS.items():
        for shape in SHAPES:
            count = reference.__code__.co_argcount
            given = [random.standard_normal(shape).astype("float32") for _ in range(count)]
            functions.append(scheduled(name, shape))
            operands.append([*given, np.full(shape, np.nan, "float32")])
            expected.append(reference(*(a.astype("float64") for a in given)))
    for results in run_functions(
        functions, operands, SCALABLE, tmp_path, *map(vectors_of, LENGTHS)
    ):
        for actual, exact in zip(results, expected, strict=True):
            np.testing.assert_allclose(actual, exact, rtol=1e-6, atol=1e-6)
