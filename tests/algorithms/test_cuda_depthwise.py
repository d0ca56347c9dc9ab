"""Depthwise convolution of GPUs against float64, executed on the processor."""

from __future__ import annotations

import pytest

from tests.cuda import SM_90, check_kernel
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry


@pytest.mark.parametrize(
    ("problem", "rows"),
    [
        ("g6mb2ic6ih9iw11oc6kh3ph1+bias+clip(0,6)", 4),
        ("g5ic5ih11oc5kh3sh2ph1+bias+add+relu", 2),
        ("g4ic4ih13iw9oc4kh5kw3dh1pt3pl0pb1pr2", 1),
        ("g3ic3ih12oc3kh2", 8),
        ("g3ic3ih20oc3kh13ph6", 1),
    ],
)
def test_layers(problem, rows):
    check_kernel(problem, "depthwise", rows=rows, threads=64)


def test_windows_beyond_the_registers_are_refused():
    workload = Conv2dWorkload.parse("g8ic8ih32oc8kh7ph3")
    config = registry.default_config("depthwise", workload, SM_90)
    with pytest.raises(ConfigError, match=r"rows=16 .* registers. Expected at most 96"):
        registry.check("depthwise", workload, SM_90, config.replace(rows=16))
