"""The default tile of first layers: wide kernels have large borders, few taps mostly stores."""

from __future__ import annotations

import pytest

from tests.kernels import V3, V4
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.registry import default_config


@pytest.mark.parametrize(
    ("problem", "machine", "rows"),
    [
        ("ic3ih224oc64oh112kh7sh2ph3:nchw", V4, 1),
        ("ic8ih172iw264oc8oh172ow264kh3kw39ph1pw19:nchw", V4, 1),
        ("ic16ih64oc16oh64kh9ph4:nchw", V4, 2),
        ("ic16ih64oc64oh64kh3ph1:nchw", V4, 2),
        ("ic3ih224oc64oh112kh7sh2ph3:nchw", V3, 2),
        # few taps: stores are the limit
        ("ic3ih224oc32oh112kh3sh2ph1:nchw", V4, 1),
    ],
)
def test_wide_kernels_and_few_taps_have_tiles_of_one_row(problem, machine, rows):
    config = default_config("direct_first", Conv2dWorkload.parse(problem), machine)
    assert config["tile_h"] == rows
