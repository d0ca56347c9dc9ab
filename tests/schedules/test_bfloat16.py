"""bfloat16 on ``direct``: results against float64, the code of the hot loop, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.assembly import assembly, matching
from tests.kernels import V4, assert_close, dense, errors, executed_on
from tests.strategies import conv2d_workloads, volumes
from tvmconv.compile.inspection import kernel_text
from tvmconv.core.datatypes import BFLOAT16, FLOAT32, DataTypes
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.lab.bench.dot_peak import peak_runner
from tvmconv.lab.bench.kernel_run import KernelRun
from tvmconv.lab.bench.variants import parse_variants
from tvmconv.machines.multiply import multiply_of_types
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring.operands import random_operands
from tvmconv.measuring.reference import convolution
from tvmconv.selection.select import select

BF16 = resolve_machine("llvm -mcpu=cooperlake", 1)
each_machine = pytest.mark.parametrize("machine", [executed_on(BF16)])
TYPES = st.sampled_from(BFLOAT16)
# images, and volumes without an epilogue: any channels, groups, strides, borders and dilations
LAYERS = st.one_of(
    conv2d_workloads(max_size=9, max_kernel=4, types=TYPES),
    volumes(conv2d_workloads(max_size=6, max_kernel=3, types=TYPES, with_epilogue=False)),
)
STEPS = "ic17ih6oc20kh3ph1:bf16bf16f32bf16+bias+add+"


def check(workload: Conv2dWorkload, machine) -> None:
    kernel = make_kernel(workload, machine, "direct")
    assert_close(kernel, *errors(kernel, draft=True))


@each_machine
@settings(max_examples=5)
@given(workload=LAYERS.filter(dense))
def test_layers_are_right(workload, machine):
    check(workload, machine)


@pytest.mark.slow
@each_machine
@settings(max_examples=100)
@given(workload=LAYERS.filter(dense))
def test_layers_are_right_thoroughly(workload, machine):
    check(workload, machine)


@each_machine
@pytest.mark.parametrize(
    "layer",
    [
        # one channel, pairs with one channel, whole blocks and a rest
        *("ic1ih5oc3kh3ph1", "ic15ih9oc16kh2", "ic33ih7oc31kh1", "ic48ih5oc17kh1sh2"),
        # windows with a border on one side, wide strides, gaps between taps
        *("ic20ih9oc20kh4pt2pl0pb0pr3", "ic7ih12oc9kh3sh3ph1", "ic16ih9oc16kh3dh1ph2"),
        # groups inside of a block, across blocks
        *("g2ic6ih6oc4kh3ph1", "g4ic36ih6oc20kh3ph1", "g3ic96ih5oc48kh1", "mb2g5ic35ih7oc45kh3sh2"),
    ],
)
@pytest.mark.parametrize("types", BFLOAT16, ids=str)
def test_edges_are_right(layer, types, machine):
    check(replace(Conv2dWorkload.parse(layer), types=types), machine)


@each_machine
@pytest.mark.parametrize("step", ["relu", "clip(0,6)", "silu"])
def test_steps_are_made_in_float32_and_rounded_once(step, machine):
    check(Conv2dWorkload.parse(STEPS + step), machine)


@each_machine
def test_a_kernel_is_measured_as_any_other(machine):
    workload = Conv2dWorkload.parse("ic24ih9oc40kh3ph1:bf16bf16f32bf16+bias+add")
    (variant,) = parse_variants("", [workload], machine)
    inputs, constants = random_operands(workload)
    run = KernelRun(variant.kernel(workload, machine), inputs, constants, 1)
    run()
    run.touch_activations()
    expected = convolution(workload, inputs, constants)
    error = np.abs(run.output().astype(np.float64) - expected).max()
    assert error <= workload.types.rounding * np.abs(expected).max()
    peak, operations = peak_runner(machine, 1, workload.types)
    peak()
    assert operations >= 2 * peak_runner(machine, 1)[1]


@pytest.mark.parametrize(
    "layer", ["ic64ih56oc64kh3ph1", "ic128ih56oc128kh3sh2ph1", "ic256ih14oc1024kh1"]
)
def test_the_hot_loop_multiplies_and_loads_alone(layer):
    """Layers of ResNet-50: the accumulators of a tile stay in registers."""
    kernel = make_kernel(Conv2dWorkload.parse(f"{layer}:bf16bf16f32bf16+bias"), BF16, "direct")
    code = assembly(kernel)
    assert not code.marked_spills()
    blocks, pixels = kernel.config.int("oc"), kernel.config.int("oh") * kernel.config.int("ow")
    whole = [
        body
        for body in code.straight_loops()
        if len(matching("vdpbf16ps", body)) == blocks * pixels > 20
    ]
    assert whole
    for body in whole:
        loads = matching(r"vmovaps\s+\S*\(|vbroadcastss\s+\S*\(|prefetch", body)
        products = matching("vdpbf16ps", body)
        assert len(matching("[vp]", body)) == len(products) + len(loads)
        if blocks == 1:
            assert len(matching(r"vdpbf16ps\s+.*\{1to16\}, %zmm", body)) == pixels
    assert "vdpbf16ps" in kernel_text(kernel, "asm")


@pytest.mark.parametrize("types", BFLOAT16, ids=str)
def test_direct_is_chosen_with_the_instruction_and_half_the_steps(types):
    layer = Conv2dWorkload.parse("ic256ih14oc256kh3ph1")
    workload = replace(layer, types=types)
    assert multiply_of_types(types, BF16).name == "vdpbf16ps"
    decision = select(workload, BF16, layer="conv4")
    assert decision.chosen.algorithm == "direct"
    refused = {other.algorithm: other.rejected for other in decision.rejected}
    assert refused["winograd"] == f"it computes in float32, not {types}"
    plain = make_kernel(layer, BF16, "direct")
    kernel = make_kernel(workload, BF16, "direct")
    assert 1.8 < plain.predicted_cycles / kernel.predicted_cycles < 2.2
    sizes = [k.expression.packed_weight_bytes(k.workload, BF16, k.config) for k in (plain, kernel)]
    assert sizes[0] == 2 * sizes[1]


@pytest.mark.parametrize("target", ["x86-64-v4", "llvm -mcpu=icelake-server", "neoverse-n2"])
def test_machines_without_the_instruction_refuse(target):
    machine = resolve_machine(target, 1)
    workload = Conv2dWorkload.parse("ic16ih8oc16kh3ph1:bf16bf16f32f32")
    reason = "has no instruction that multiplies bfloat16 with float32 accumulators"
    with pytest.raises(ConfigError, match=f"direct cannot compute .*{reason}"):
        make_kernel(workload, machine, "direct")
    for ask in (lambda: select(workload, machine), lambda: parse_variants("", [workload], machine)):
        with pytest.raises(
            ConfigError, match=f"no allowed algorithm computes .*direct: .*{reason}"
        ):
            ask()


def test_types_that_no_instruction_adds_are_refused():
    for text in ("bf16bf16bf16bf16", "bf16f32f32f32", "f16f16f32f32"):
        workload = Conv2dWorkload.parse(f"ic16ih8oc16kh3:{text}")
        with pytest.raises(ConfigError, match=f"it computes in float32 or bf16.*, not {text}"):
            make_kernel(workload, BF16, "direct")


def test_an_odd_channel_multiplies_a_lane_without_one():
    """With ``finite=False`` nothing may: that lane may hold an infinity."""
    narrow, wide = (Conv2dWorkload.parse(f"ic{c}ih8oc16kh3:bf16bf16f32f32") for c in (5, 6))
    expression = make_kernel(narrow, BF16, "direct").expression
    assert expression.adds_foreign_products(narrow, BF16)
    assert not expression.adds_foreign_products(wide, BF16)
    assert not expression.adds_foreign_products(replace(narrow, types=FLOAT32), V4)


def test_layers_are_written_with_their_types():
    assert [str(types) for types in BFLOAT16] == ["bf16bf16f32f32", "bf16bf16f32bf16"]
    assert all(DataTypes.parse([str(types)]) == types for types in BFLOAT16)
