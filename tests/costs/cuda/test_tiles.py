"""The tiles that selection chooses on GPUs, and predictions within a GPU's peak."""

from __future__ import annotations

import pytest

from tests.cuda import SM_80, SM_90
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.constants import FULL
from tvmconv.costs.cuda.memory import memory_cycles
from tvmconv.costs.cuda.tiles import loop_share
from tvmconv.kernels import registry
from tvmconv.selection.policy import make_policy
from tvmconv.selection.select import candidates, select

LAYERS = [
    "mb128ic64ih56oc64kh3+bias+relu",
    "mb1ic512ih7oc512kh3ph1+bias+relu",
    "mb32ic256ih14oc1024kh1+bias+add+relu",
    "mb128ic3ih227oc96kh11sh4+bias+relu",
    "g4mb2ic64ih28oc128kh3ph1+bias",
]


def chosen(problem, machine=SM_90, **policy):
    return select(Conv2dWorkload.parse(problem), machine, policy=make_policy(**policy)).chosen


def tiled(problem):
    """The config of implicit GEMM."""
    return chosen(problem, algorithms=["implicit_gemm"]).config


@pytest.mark.parametrize("machine", [SM_80, SM_90], ids=["sm_80", "sm_90"])
@pytest.mark.parametrize("problem", LAYERS)
def test_no_prediction_is_faster_than_the_gpu(problem, machine):
    workload = Conv2dWorkload.parse(problem)
    (offer,) = candidates(workload, machine, "implicit_gemm")
    products = workload.macs / (machine.multiprocessors * machine.lanes)
    assert offer.cycles > max(products, memory_cycles(workload, machine))
    parts = registry.explain_cost("implicit_gemm", workload, machine, offer.config)
    assert sum(parts.values()) == pytest.approx(offer.cycles)


def test_few_pixels_have_their_reduction_split():
    assert tiled("mb1ic512ih7oc512kh3ph1+bias+relu")["split"] >= 8
    assert tiled("mb128ic64ih112oc128kh3ph1")["split"] == 1


def test_tiles_follow_the_channels():
    for channels in (32, 64):
        assert tiled(f"mb128ic64ih56oc{channels}kh3ph1")["m"] == channels
    assert tiled("mb128ic64ih112oc128kh3ph1")["m"] >= 64


def test_first_layers_take_whole_rows():
    config = tiled("mb128ic3ih224oc64kh7sh2ph3")
    assert (config["slice"], config["k"]) == ("row", 21)


@pytest.mark.parametrize("machine", [SM_80, SM_90], ids=["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "problem",
    [
        LAYERS[0],
        LAYERS[2],
        "mb32ic64ih56oc64kh3ph1+bias+add+relu",
        "mb32ic256ih56oc512kh1sh2+bias+relu",
        "mb32ic256ih28oc256kh3sh2ph1+bias+relu",
        "mb32ic512ih14oc512kh3sh2ph1+bias+add+relu",
    ],
)
def test_tiles_are_full_of_multiply_adds(problem, machine):
    """And none is selected that has two barriers a slice, or of which nvcc spilled."""
    workload = Conv2dWorkload.parse(problem)
    for name in ("implicit_gemm", "im2col"):
        expression = registry.algorithm(name, "cuda")
        for offer in candidates(workload, machine, name):
            assert loop_share(expression, workload, offer.config) >= FULL
            assert offer.config["pipeline"] != "single"
            largest = offer.config["m"] == offer.config["p"] == 128
            assert not (largest and workload.has("add"))


def test_the_smallest_tile_gathers_only_for_layers_without_64_rows():
    """Each value that it gathers has 32 products; tiles of 64 rows have twice as many."""
    assert tiled("mb32ic256ih56oc512kh1sh2")["m"] >= 64
    assert tiled("mb32ic64ih56oc32kh3ph1")["m"] == 32


def test_rows_that_64_do_not_divide_have_a_tile_of_their_own():
    for problem in ("mb128ic3ih227oc96kh11sh4+bias+relu", "mb32ic64ih56oc96kh3ph1"):
        assert (tiled(problem)["m"], tiled(problem)["p"]) == (96, 64)


def test_depthwise_layers_have_a_kernel_of_their_own():
    assert chosen("g96mb8ic96ih56oc96kh3ph1+bias").algorithm == "depthwise"


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"m": 48}, "tile m=48 p=.* Expected one of 128x128, 64x128, 96x64, 64x64, 32x64"),
        ({"m": 128, "p": 128, "k": 64}, "needs 131072 bytes .* Expected at most 49152"),
        ({"k": 16, "split": 5}, "split=5 .* does not divide its 36 slices"),
        ({"slice": "column"}, "slice='column' .* must be one of channels, row, window"),
    ],
)
def test_configs_that_no_block_can_have_are_refused(knobs, sentence):
    workload = Conv2dWorkload.parse("mb8ic64ih28oc64kh3ph1")
    config = registry.default_config("implicit_gemm", workload, SM_90)
    config = config.replace(slice="channels", pipeline="double").replace(**knobs)
    with pytest.raises(ConfigError, match=sentence):
        registry.check("implicit_gemm", workload, SM_90, config)
