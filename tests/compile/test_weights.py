"""Constants in one block of memory, as models are saved and cached."""

from __future__ import annotations

import numpy as np
import pytest

from tvmconv.compile.weights import IN_MEMORY, content, gathered
from tvmconv.program.program import Constant, Program


def test_bytes_between_constants_are_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saved files must not hold what the memory of the process held before."""

    def used(shape: int, dtype: type = float) -> np.ndarray:
        return np.full(shape, 0xA5, dtype)

    first, second = np.arange(1, 6, dtype=np.float32), np.arange(7, 16, dtype=np.int8)
    constants = (Constant(0, first), Constant(64, second))
    program = Program((), (), (), constants, 128, 0, 0)
    monkeypatch.setattr(np, "empty", used)
    views, block = gathered(program)
    saved = np.concatenate(list(content(program, IN_MEMORY)))
    assert np.array_equal(block[: saved.size], saved)
    assert not block[saved.size :].any()
    for view, constant in zip(views.constants, constants, strict=True):
        assert np.array_equal(view.data.ravel(), constant.data)
