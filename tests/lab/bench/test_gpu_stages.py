"""Stages of calls on GPUs."""

from __future__ import annotations

import pytest

from tvmconv.core.config import Config
from tvmconv.core.launch import Launch
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.cuda import MACHINES
from tvmconv.measuring.gpu.kernel_run import stage_names

WIDE = Conv2dWorkload.parse("mb1ic512ih7oc512kh3ph1+relu")


@pytest.mark.parametrize(
    ("algorithm", "knobs", "expected"),
    [
        ("im2win", {"windows": "fused", "split": 1}, ["product"]),
        ("im2win", {"windows": "fused", "split": 2}, ["product", "sum of the parts"]),
        (
            *("im2win", {"windows": "stored", "split": 2}),
            ["window transform", "product", "sum of the parts"],
        ),
        ("implicit_gemm", {"split": 2}, ["product", "sum of the parts"]),
        # whose last kernel adds the parts
        ("winograd", {"split": 2}, ["input transform", "products", "output transform"]),
        ("direct", {}, ["1 main_kernel"]),
    ],
)
def test_stages_are_named_after_what_kernels_do(algorithm, knobs, expected):
    launches = [Launch("main_kernel", (1, 1, 1), (64, 1, 1), ())] * len(expected)
    kernel = Kernel(WIDE, MACHINES["cuda:sm_90"], algorithm, Config.of(**knobs))
    assert stage_names(kernel, launches) == expected
