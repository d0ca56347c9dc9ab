from __future__ import annotations

import numpy as np
import pytest

from tests.sweeps.cases import DRAWS, case_of
from tests.sweeps.draws import model_of
from tests.sweeps.running import Limits, error_of, measure


def test_every_draw_is_a_valid_model_and_repeats():
    for operator in DRAWS:
        cases = [case_of(1, operator, index, 4096) for index in range(4)]
        model_of(cases)
        again = [case_of(1, operator, index, 4096) for index in range(4)]
        assert list(map(str, again)) == list(map(str, cases))


def test_a_case_is_built_timed_and_compared():
    case = case_of(1, "ReduceL2", 0, 512)
    (outcome,) = measure([case], Limits(over=-1.0), baseline=True)
    assert not outcome.error
    assert outcome.wrong < 1e-5
    assert outcome.kernels > 0
    assert outcome.baseline


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.array([np.nan, 1.0]), np.array([1.0, 1.0])),
        (np.array([1.0, 1.0]), np.array([np.nan, 1.0])),
        (np.array([np.inf, 1.0]), np.array([1.0, 1.0])),
        (np.array([7, 100_001]), np.array([7, 100_000])),
        (np.array([1, 2], np.int32), np.array([1, 2])),
    ],
)
def test_differences_that_no_tolerance_hides(actual, expected):
    assert error_of(actual, expected) == np.inf
