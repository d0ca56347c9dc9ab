"""Implicit GEMM on tensor cores against float64, executed from its CUDA source on the processor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.cuda import SM_80, SM_90, check_kernel, convolution_operands, run_source, source_of
from tests.cuda import default_kernel as kernel_of
from tests.strategies import conv2d_workloads, conv_arrays
from tvmconv.algorithms.cuda import fragments
from tvmconv.algorithms.cuda.implicit_gemm_mma import ImplicitGemmMma
from tvmconv.algorithms.cuda.precision import PRECISIONS, round_tf32
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import mma as cuda_mma
from tvmconv.measuring.reference import convolution
from tvmconv.selection.policy import make_policy
from tvmconv.selection.select import candidates, select

ALGORITHM = "implicit_gemm_mma"
# the smallest tile, of two warps, with slices of one step
SMALL = {"m": 32, "p": 64, "wm": 32, "wp": 32, "split": 1, "slice": "channels"}
STEP = {"tf32": 8, "fp16": 16}
# every kind of layer, with knobs that cover every variant of the schedule, on layers of few blocks
LAYERS = {
    "3x3": ("tf32", "ic16ih9oc40kh3ph1+bias+add+relu", {}),
    "3x3 of halves": ("fp16", "ic40ih9oc40kh3ph1+bias+add+relu", {"m": 64, "wp": 64, "k": 32}),
    "1x1": ("fp16", "mb2ic24ih5oc70kh1+bias", {"m": 128, "p": 128, "wm": 64, "wp": 64}),
    "strided": ("tf32", "ic8ih15oc33kh3sh2ph1+relu", {"m": 64}),
    "dilated": ("tf32", "ic8ih12iw9oc16kh3kw2dh1ph2", {"p": 128, "wp": 64}),
    "ragged": ("fp16", "mb3ic11ih5iw7oc5kh2+bias+leakyrelu(0.25)", {}),
    "grouped": ("tf32", "g3mb1ic24ih7oc30kh3ph1+bias+clip(0,6)", {}),
    "first": ("tf32", "ic3ih13oc20kh5sh2ph2+bias+relu", {"k": 16, "slice": "row"}),
    "window": ("fp16", "ic3ih8oc20kh3pt1pl0pb0pr1", {"k": 32, "slice": "window"}),
    "split": ("fp16", "ic32ih7oc48kh3ph1+bias+add+relu", {"split": 6, "k": 16}),
    "volume": ("tf32", "ic8id3ih4oc20kd3kh3ph1pd1+bias", {}),
    "one buffer": ("tf32", "ic24ih6oc20kh1", {"pipeline": "single"}),
    # pixels of one fragment, and images whose pairs of pixels lie apart
    "eight pixels": ("fp16", "mb2ic16ih2oc40kh1+bias+add", {"k": 16}),
    "eight images": ("tf32", "mb8ic16ih1oc40kh1+bias+relu", {}),
    "no pipeline": ("fp16", "ic48ih6oc20kh1", {"pipeline": "none"}),
}


# whose forms others have, too
LONGER = ("3x3", "dilated", "volume", "one buffer")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONGER else []) for n in LAYERS]
)
def test_layers(name):
    precision, problem, knobs = LAYERS[name]
    given_knobs = {**SMALL, "precision": precision, "k": STEP[precision], "pipeline": "double"}
    check_kernel(problem, ALGORITHM, **{**given_knobs, **knobs})


@pytest.mark.parametrize("precision", PRECISIONS)
def test_operands_are_rounded_to_nearest_and_nothing_else(precision):
    """With operands rounded beforehand, what is left is the rounding of float32 sums."""
    workload = Conv2dWorkload.parse("ic32ih6oc32kh3ph1")
    knobs = {**SMALL, "precision": precision, "k": STEP[precision]}
    kernel = kernel_of(workload, ALGORITHM, SM_90, **knobs)
    arrays, round_ = conv_arrays(workload), PRECISIONS[precision].round
    rounded = convolution(
        workload, {"data": round_(arrays.data)}, {"weight": round_(arrays.weight)}
    )
    operands, exact = convolution_operands(kernel)
    actual = run_source(source_of(kernel), operands, len(operands) - 1)
    largest = np.abs(exact).max()
    assert np.abs(actual - rounded).max() <= 2e-6 * largest
    # and that is far less than rounding the operands does
    assert np.abs(actual - exact).max() >= 2e-5 * largest
    # the packed weights have the promised size
    assert operands[1].nbytes == kernel.expression.packed_weight_bytes(
        workload, SM_90, kernel.config
    )
    assert operands[1].nbytes == arrays.weight.nbytes // PRECISIONS[precision].values


def test_estimates_are_what_rounding_does():
    generator = np.random.default_rng(1)
    weight = generator.standard_normal((64, 64, 3, 3), np.float32)
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1")
    for offer in candidates(workload, SM_90, ALGORITHM):
        measured = PRECISIONS[offer.precision].measured_error(weight, 1)
        assert 0.5 <= measured / offer.error <= 2


def test_dwords_hold_rounded_values():
    values = np.array([1.0, 1 + 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-10, -np.inf], np.float32)
    nearest = [1, 1 + 2.0**-10, -1 - 2.0**-10, 1 + 2.0**-10, -np.inf]
    np.testing.assert_array_equal(round_tf32(values), np.float32(nearest))
    assert np.isnan(round_tf32(np.float32([np.nan]))).all()
    words = PRECISIONS["fp16"].dwords(np.float32([[1, 2], [70000, -0.5]]))
    np.testing.assert_array_equal(words.ravel(), [0x40003C00, 0xB8007C00])


def test_fragments_give_every_value_one_place():
    for place, shape in (
        (fragments.of_weights, (fragments.ROWS, fragments.DWORDS)),
        (fragments.of_columns, (fragments.DWORDS, fragments.COLUMNS)),
        (fragments.of_sums, (fragments.ROWS, fragments.COLUMNS)),
    ):
        lane, register = place(*np.indices(shape))
        registers = shape[0] * shape[1] // fragments.LANES
        assert sorted(zip(lane.ravel(), register.ravel(), strict=True)) == [
            (x, r) for x in range(fragments.LANES) for r in range(registers)
        ]


def test_weights_beyond_fp16_are_refused():
    workload = Conv2dWorkload.parse("ic32ih6oc32kh3ph1")
    kernel = kernel_of(workload, ALGORITHM, SM_90, precision="fp16", k=32, split=1)
    weight = np.full(workload.weight_shape, 1e5, np.float32)
    with pytest.raises(
        ConfigError, match=r"a weight of 1e\+05 would be infinite, as fp16 ends at 65504"
    ):
        kernel.pack_weight(weight)
    weight[:] = np.inf
    assert set(kernel.pack_weight(weight).ravel()) == {0x7C007C00}


class TestSelection:
    WIDE = Conv2dWorkload.parse("mb32ic256ih56oc256kh3ph1+bias+relu")

    def test_nobody_gets_it_who_did_not_ask(self):
        decision = select(self.WIDE, SM_90)
        assert decision.precision == "float32"
        assert ALGORITHM not in {o.algorithm for o in decision.rejected}

    @pytest.mark.parametrize("precision", PRECISIONS)
    @pytest.mark.parametrize("machine", [SM_80, SM_90], ids=["sm_80", "sm_90"])
    def test_large_layers_get_it_who_asked(self, precision, machine):
        policy = make_policy(precision=precision)
        decision = select(self.WIDE, machine, policy=policy)
        assert decision.chosen.algorithm == ALGORITHM
        assert decision.precision == precision
        others = {o.precision for o in decision.rejected}
        assert others == {""}
        peak = self.WIDE.macs / machine.multiprocessors / machine.tensor_rate(precision)
        assert decision.chosen.cycles > peak

    def test_other_layers_stay_float32_and_say_why(self):
        policy = make_policy(precision="fp16")
        depthwise = select(Conv2dWorkload.parse("g96mb8ic96ih56oc96kh3ph1"), SM_90, policy=policy)
        assert depthwise.precision == "float32"
        (refused,) = (o for o in depthwise.rejected if o.algorithm == ALGORITHM)
        assert "depthwise layer is not a matrix product" in refused.rejected

    def test_an_error_budget_that_is_given_holds(self):
        policy = make_policy(precision="tf32", error_budget=1e-5)
        decision = select(self.WIDE, SM_90, policy=policy)
        assert decision.precision == "float32"
        (refused,) = (o for o in decision.rejected if o.algorithm == ALGORITHM)
        assert "error estimate 0.00027 exceeds the budget 1e-5" in refused.rejected

    def test_values_of_any_size_keep_their_type(self):
        policy = make_policy(precision="fp16", finite=False)
        decision = select(self.WIDE, SM_90, policy=policy)
        assert decision.precision == "float32"
        (refused,) = (o for o in decision.rejected if o.algorithm == ALGORITHM)
        assert "in fp16 operands beyond 65504 become infinite" in refused.rejected


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"wm": 48}, "warps wm=48 wp=32 .* do not divide the tile m=32 p=64"),
        ({"k": 12}, "a multiple of 8 for tf32"),
        ({"precision": "fp16", "k": 24}, "a multiple of 16 for fp16"),
        ({"m": 128, "p": 128, "wm": 64, "wp": 64, "k": 32}, "bytes of shared memory .* Expected"),
        ({"m": 128, "p": 128, "wm": 64, "wp": 128, "k": 8}, "of a thread. Expected at most 255"),
        ({"k": 8, "split": 5}, "split=5 .* does not divide its 72 slices"),
        ({"precision": "bf16"}, "precision='bf16' .* must be one of tf32, fp16"),
    ],
)
def test_configs_that_no_block_can_have_are_refused(knobs, sentence):
    from tvmconv.kernels import registry

    workload = Conv2dWorkload.parse("mb8ic64ih28oc64kh3ph1")
    config = registry.default_config(ALGORITHM, workload, SM_90)
    config = config.replace(**{**SMALL, "k": 16, "pipeline": "double"}).replace(**knobs)
    with pytest.raises(ConfigError, match=sentence):
        registry.check(ALGORITHM, workload, SM_90, config)


@pytest.mark.slow
@settings(max_examples=20)
@given(
    workload=conv2d_workloads(max_size=10).filter(
        lambda w: ImplicitGemmMma().unsupported(w, SM_90) is None
    )
)
def test_any_problem(workload):
    check_kernel(workload, ALGORITHM)


def banks(addresses: list[int], words: int) -> int:
    """The most requests of one bank when a warp accesses ``words`` 32-bit values at each address.

    Accesses of 8 bytes are served by half warps, accesses of 16 bytes by quarters.
    """
    worst = 0
    for first in range(0, 32, 32 // words):
        touched = {a + w for a in addresses[first : first + 32 // words] for w in range(words)}
        counts = np.bincount([a % 32 for a in touched], minlength=32)
        worst = max(worst, int(counts.max()))
    return worst


@pytest.mark.parametrize("p", [64, 128])
def test_shared_memory_has_no_conflicts_of_banks(p):
    """By the places that :mod:`tvmconv.costs.cuda.mma` counts bytes of."""
    pitch = cuda_mma.row_pitch(p)
    lanes = range(32)
    # weight fragments are stored lane by lane; column lane // 4 is the pixel, lane % 4 the row
    assert banks([lane * 4 for lane in lanes], 4) == 1
    assert banks([lane % 4 * pitch + lane // 4 * 2 for lane in lanes], 2) == 1
    # a warp stores adjacent values
    assert banks([lane * 2 for lane in lanes], 2) == 1
    # without the padding two rows meet in a bank
    assert banks([lane % 4 * 2 * p + lane // 4 * 2 for lane in lanes], 2) > 1
