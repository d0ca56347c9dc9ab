"""Every operator's node cases of ``onnx.backend.test`` as programs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.frontend.test_onnx_nodes import CORE, OTHERS, cases_of, check_case
from tests.program.executor import collected_from
from tvmconv.frontend import LoadedModel


def program_of(loaded: LoadedModel, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    return collected_from(loaded).run(feeds)


@pytest.mark.parametrize(
    "module",
    [
        name if name in ("split", "topk") else pytest.param(name, marks=pytest.mark.slow)
        for name in CORE + OTHERS
    ],
)
def test_cases_agree_with_their_expected_outputs(module: str) -> None:
    for case in cases_of(module):
        check_case(case, program_of)
