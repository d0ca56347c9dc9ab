"""Recurrent layers on emulated processors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvmconv
from tests.compile.test_riscv import vectors_of
from tests.emulating import CORES, needs, needs_arm, run_model
from tests.frontend.onnx_runner import run_reference
from tests.frontend.test_recurrent import model_of, operands

LAYERS = [
    ("LSTM", 20, {"direction": "bidirectional"}),
    ("GRU", 7, {}),
    ("GRU", 33, {"linear_before_reset": 1}),
]
RISC_V = "riscv64-linux-gnu"


def check(target: str, folder: Path, processors: dict[str, tuple[str, ...]]) -> None:
    for number, (op, hidden, attributes) in enumerate(LAYERS):
        directions = 2 if "direction" in attributes else 1
        arrays = operands(op, hidden, directions=directions)
        model = model_of(op, arrays, "lengths", hidden_size=hidden, **attributes)
        feeds = {info.name: arrays[info.name] for info in model.graph.input}
        expected = run_reference(model, feeds)
        built = tvmconv.build(model, target=target, threads=2)
        values = [feeds[info.name] for info in built.inputs]
        for name, options in processors.items():
            place = folder / f"{number}_{name}"
            place.mkdir()
            results = run_model(built, place, *values, options=options)
            for actual, wanted in zip(results, expected, strict=True):
                np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)


@needs_arm
@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_arm(core: str, tmp_path: Path) -> None:
    check(CORES[core].machine.name, tmp_path, dict(CORES[core].processors))


@needs(RISC_V)
@pytest.mark.slow
def test_risc_v(tmp_path: Path) -> None:
    lengths = {str(bits): vectors_of(bits) for bits in (256, 512)}
    check("riscv64-v256", tmp_path, lengths)
