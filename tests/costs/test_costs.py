"""Properties of every cost model: it counts cycles, from the machine's fields and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels import V3, V4
from tests.strategies import conv2d_workloads, depthwise_workloads
from tests.toy_family import TOY
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.direct_default import default_config, fetches_input, fetches_weights
from tvmconv.costs.cpu.strassen import StrassenModel
from tvmconv.costs.cpu.winograd import WinogradModel
from tvmconv.kernels import registry
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.arm import MACHINES as ARM
from tvmconv.machines.record import CodeCosts, Machine, Rates
from tvmconv.machines.targets import resolve_machine
from tvmconv.selection.policy import DEFAULT_ERROR_BUDGET, make_policy
from tvmconv.selection.select import make_candidate, select

LARGE = "mb1ic256ih56oc256oh56kh3ph1"
DEEP = "mb1ic512ih7oc512oh7kh3ph1"
POINTWISE = "mb1ic512ih28oc1024oh28kh1"
DEPTHWISE = "mb1g256ic256ih56oc256oh56kh3ph1"
FIRST = "mb1ic3ih224oc64oh112kh7sh2ph3:nchw"
PROBLEMS = (LARGE, DEEP, POINTWISE, DEPTHWISE, FIRST)


def predictions(workload: Conv2dWorkload, machine: Machine) -> list[tuple[str, Config, float]]:
    """Every algorithm's offers with their cycles."""
    found = []
    for name in registry.ALGORITHMS:
        module = registry.schedule(name, machine)
        assert module is not None
        if registry.algorithm(name).unsupported(workload, machine) is None:
            for config in registry.offers(name, workload, machine):
                cycles = module.predicted_cycles(workload, machine, config)
                found.append((name, config, cycles))
    return found


def slower_by(factor: float, name: str, machine: Machine) -> Machine:
    """The machine with one rate divided."""
    rate = getattr(machine.rates, name)
    return replace(machine, rates=replace(machine.rates, **{name: rate / factor}))


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_names_decide_nothing(problem: str, machine: Machine) -> None:
    workload = Conv2dWorkload.parse(problem)
    other = replace(machine, name="other", isa="other", mcpu="other", features=())
    assert predictions(workload, machine) == predictions(workload, other)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(conv2d_workloads() | depthwise_workloads(), st.sampled_from([V3, V4]), st.data())
def test_a_slower_core_is_never_predicted_to_be_faster(
    workload: Conv2dWorkload, machine: Machine, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([f.name for f in fields(Rates) if f.name != "origin"]))
    slow = slower_by(4, name, machine)
    for algorithm, config, cycles in predictions(workload, machine):
        module = registry.schedule(algorithm, machine)
        assert module is not None
        slower = module.predicted_cycles(workload, slow, config)
        assert slower >= cycles * (1 - 1e-12), (algorithm, name)


# `words` is a rate of integers (tests/costs/test_integers.py), `all_memory` one of several cores
OTHER_RATES = ("origin", "words", "all_memory")
FLOATING_RATES = [f.name for f in fields(Rates) if f.name not in OTHER_RATES]


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
@pytest.mark.parametrize("name", FLOATING_RATES)
def test_every_rate_counts_somewhere(name: str, machine: Machine) -> None:
    slow = slower_by(64, name, machine)
    changed = set()
    for problem in PROBLEMS:
        workload = Conv2dWorkload.parse(problem)
        for algorithm, config, cycles in predictions(workload, machine):
            module = registry.schedule(algorithm, machine)
            assert module is not None
            if module.predicted_cycles(workload, slow, config) > cycles:
                changed.add(algorithm)
    dense = {"direct", "im2col", "im2win", "winograd"}
    assert dense <= changed, changed


# schedules and passes of operators read them, and the cost model of the stem
SWITCHES = ("extrema", "halved_loads", "slow_conversions")
# for integers, where the CPU has no dot products
OF_INTEGERS = ("widening", "other_units", "loads_block")


@pytest.mark.parametrize("name", [f.name for f in fields(CodeCosts) if f.name not in SWITCHES])
def test_every_cost_of_code_counts_somewhere(name: str) -> None:
    base = ARM["cortex-a53"] if name in OF_INTEGERS else V4
    value = getattr(base.code, name)
    slower = {name: not value if value is True else value + 4}
    other = replace(base, code=replace(base.code, **slower))
    if name == "unrolls_block":
        other = replace(V4, code=replace(V4.code, unrolls_block=True))
    problems = (*PROBLEMS, "mb1ic512ih28oc16oh28kh1", "mb1ic64ih28oc64kh3sh2ph1")
    problems = (*problems, "g3mb1ic240ih28oc60kh1")
    if name in OF_INTEGERS:
        problems = ("mb1ic64ih28oc64kh3ph1:s8s8s32s8",)
    found = [
        [predictions(Conv2dWorkload.parse(p), machine) for p in problems]
        for machine in (base, other)
    ]
    assert found[0] != found[1]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_core_without_l3_and_with_four_lanes_has_costs(problem: str) -> None:
    workload = Conv2dWorkload.parse(problem)
    found = predictions(workload, TOY)
    assert found
    for name, config, cycles in found:
        registry.schedule(name, TOY).check(workload, TOY, config)
        assert cycles > 0, name


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("machine", [V3, V4, TOY], ids=["avx2", "avx512", "toy"])
def test_no_prediction_beats_the_units(problem: str, machine: Machine) -> None:
    """No kernel does more MACs in a cycle than the core."""
    workload = Conv2dWorkload.parse(problem)
    for name, config, cycles in predictions(workload, machine):
        done = registry.algorithm(name).multiplies(workload, machine, config)
        assert cycles >= done / machine.lanes / machine.rates.multiply_adds * (1 - 1e-9), name


def test_transforms_by_strips_fall_with_the_units() -> None:
    workload = Conv2dWorkload.parse(LARGE)
    one = MACHINES["cortex-a72"]
    two = replace(one, rates=replace(one.rates, multiply_adds=2.0))
    for config in WinogradModel(workload, one).offers():
        slow, fast = (WinogradModel(workload, m).parts(config)["transforms"] for m in (one, two))
        assert slow == pytest.approx(2 * fast)


def test_rows_of_a_tile_share_weights_that_pass_l2() -> None:
    machine = resolve_machine("llvm -mcpu=znver4", 1)
    found = select(Conv2dWorkload.parse("mb1ic512ih14oc512kh3sh2ph1"), machine).chosen
    assert found.algorithm == "direct"
    assert (found.config.int("oc"), found.config.int("oh")) == (2, 2)


@pytest.mark.parametrize("name", ["cortex-a72", "neoverse-n1", "neoverse-v1", "neoverse-v2"])
def test_larger_winograd_tiles_within_the_budget_are_taken_where_transforms_are_cheap(
    name: str,
) -> None:
    workload, machine = Conv2dWorkload.parse("mb1ic128ih112oc128kh3ph1"), MACHINES[name]
    found = select(workload, machine).chosen
    assert found.algorithm == "winograd"
    assert found.config.int("mh") * found.config.int("mw") > 16
    assert found.error <= DEFAULT_ERROR_BUDGET


def test_tiles_of_half_vectors_leave_no_pixel_over_where_they_can() -> None:
    workload = Conv2dWorkload.parse("mb1ic960ih7oc320kh1")
    config = StrassenModel(workload, ARM["cortex-a72"].with_cores(1)).best()
    # 49 pixels are two parts of 25, and tiles of 13 would compute 26 of each
    assert (config.int("half"), config.int("rt")) == (25, 5)


def test_weights_of_few_lanes_cost_their_bytes_whenever_they_pass_l1_again() -> None:
    """Tiles of three blocks whose weights exceed L1, and regions of one register tile, pay."""
    cases = (
        ("cortex-a53", "mb1ic256ih28oc256kh3sh2ph1", ("kr", 3), ("rt", 7)),
        ("ft2000plus", "mb1ic64ih112oc128kh3ph1", ("rw", 7), ("rt", 7)),
    )
    for name, problem, *knobs in cases:
        workload, machine = Conv2dWorkload.parse(problem), MACHINES[name]
        config = select(workload, machine).chosen.config
        assert [config.int(knob) for knob, _ in knobs] == [value for _, value in knobs], name
    model, longer = WinogradModel(workload, machine), config.replace(rw=2 * config.int("rw"))
    passed = [model.passed_again(c, 7) for c in (config, longer)]
    assert passed[0] > 2 * passed[1] * 0.99 > 0


def test_prefetched_panels_may_take_the_share_of_l2_that_the_machine_allows() -> None:
    model = TileModel(Conv2dWorkload.parse(DEEP), V4)
    panel = 4 * V4.channel_block * 2 * model.steps
    config = Config.of(oc=2, oh=2, ow=7)
    for share, fetched in ((panel / V4.l2_bytes, True), (panel / V4.l2_bytes - 0.01, False)):
        code = replace(V4.code, fetched_panel=share)
        on = replace(model, machine=replace(V4, code=code))
        assert fetches_weights(on, config) == fetched
    assert not fetches_weights(replace(model, machine=V3), config)


def test_weights_of_a_single_tile_are_prefetched_if_several_pixels_use_them() -> None:
    for problem, oh, ow, fetched in (
        ("mb1ic128ih1iw10oc128kh1kw5", 1, 6, True),
        ("mb1ic512ih3oc512kh3", 1, 1, False),
        ("mb1ic16ih1iw10oc16kh1kw5", 1, 6, False),
    ):
        model = TileModel(Conv2dWorkload.parse(problem), V4)
        config = Config.of(oc=min(4, model.out_blocks), oh=oh, ow=ow)
        assert fetches_weights(model, config) == fetched, problem


def test_inputs_in_l1_and_long_rows_of_taps_are_not_prefetched() -> None:
    for problem, fetched in (
        ("mb1ic128ih1iw10oc128kh1kw5", False),
        ("mb1ic128ih1iw128oc128kh1kw5", True),
        ("mb1ic128ih1iw128oc128kh1kw64pl31pr32", False),
    ):
        assert fetches_input(TileModel(Conv2dWorkload.parse(problem), V4)) == fetched, problem
    # lanes that select their groups read two streams
    grouped = Conv2dWorkload.parse("g3mb1ic480ih56oc120kh1")
    selecting = replace(V4, code=replace(V4.code, selects_lanes=True))
    assert fetches_input(TileModel(grouped, V4))
    assert not fetches_input(TileModel(grouped, selecting))


def test_tiles_of_two_rows_read_weights_less_often_where_border_rows_are_cheap() -> None:
    """On Zen 5 a tile of 2x7 pixels took 0.84 to 0.99 of the time of three blocks by 7."""
    code = replace(V4.code, border_rows=0.25)
    model = TileModel(Conv2dWorkload.parse(DEEP), replace(V4, code=code))
    assert model.best_tile() == (2, 2, 7)


def test_fmas_hide_the_prefetched_share_of_weights() -> None:
    workload = Conv2dWorkload.parse(DEEP)
    model = TileModel(workload, replace(V4, code=replace(V4.code, streamed=0.4)))
    config = Config.of(oc=2, oh=2, ow=7, rows=0, fetch_weight=1)
    fetched, waited = (model.parts(config.replace(fetch_weight=f))["weights"] for f in (1, 0))
    assert fetched == pytest.approx(0.4 * waited)
    # as many FMAs hide no more than their own cycles
    slow = replace(model.machine, rates=replace(V4.rates, memory=V4.rates.memory / 8))
    parts = replace(model, machine=slow).parts(config)
    assert parts["weights"] == pytest.approx(8 * waited - parts["arithmetic"])


def test_fmas_that_wait_for_l2_hide_no_weights_from_memory() -> None:
    """F(3x5) by 4 tiles took 1.4 of the time of 8 tiles, whose weights pass L2 once."""
    machine = resolve_machine("llvm -mcpu=znver5", 1)
    model = WinogradModel(Conv2dWorkload.parse("ic256ih12oc512kh3"), machine)
    config = Config.of(mh=3, mw=5, fused=1, rh=4, rw=2, rt=8, kr=2)
    assert model.call_cycles(config.replace(rt=4)) > 1.05 * model.call_cycles(config)


def test_weights_far_beyond_l2_are_read_in_parts_that_fit() -> None:
    long = "mb1ic1024ih1iw128oc128kh1kw64pl31pr32"
    for problem, kc in ((long, 2), ("mb1ic64ih56oc64kh3ph1", 0), (f"g2{long}", 0), (DEEP, 0)):
        config = default_config(Conv2dWorkload.parse(problem), V4)
        assert config.int("kc") == kc, problem
        assert config.int("fetch_weight") or not kc
    workload = Conv2dWorkload.parse(long)
    parts, whole = (
        make_candidate(workload, V4, "direct", Config.of(oc=2, oh=1, ow=13, rows=0, kc=kc))
        for kc in (2, 0)
    )
    assert parts.cycles < whole.cycles
    assert parts.error < DEFAULT_ERROR_BUDGET < whole.error
    assert parts.workspace_bytes == 4 * 2 * 16 * 128
    for knobs in ({"kc": 3}, {"kc": 2, "rows": 4}):
        with pytest.raises(ConfigError, match="kc="):
            make_candidate(workload, V4, "direct", whole.config.replace(**knobs))


def test_a_memory_budget_leaves_the_whole_reduction() -> None:
    workload = Conv2dWorkload.parse("mb1ic1024ih1iw128oc128kh1kw64pl31pr32")
    assert select(workload, V4).chosen.config.int("kc")
    chosen = select(workload, V4, policy=make_policy(memory_budget=0)).chosen
    assert (chosen.algorithm, chosen.config.int("kc"), chosen.workspace_bytes) == ("direct", 0, 0)


def test_parts_leave_threads_the_groups_of_output_blocks_alone() -> None:
    workload = Conv2dWorkload.parse("mb1ic1024ih1iw128oc128kh1kw64pl31pr32")
    # four groups of two blocks: the third thread would have none in the second pass
    for cores, kc in ((2, 2), (3, 0), (4, 2)):
        assert default_config(workload, V4.with_cores(cores)).int("kc") == kc
    # the rows of one group, which two threads share only without parts
    workload = Conv2dWorkload.parse("mb1ic1024ih14oc32kh3ph1")
    config = Config.of(oc=2, oh=1, ow=7, rows=0, kc=0)
    alone, two = (TileModel(workload, V4.with_cores(cores)) for cores in (1, 2))
    whole, parts = config, config.replace(kc=16)
    assert two.parts(whole)["arithmetic"] == 0.5 * alone.parts(whole)["arithmetic"]
    assert two.parts(parts)["arithmetic"] > 0.9 * alone.parts(parts)["arithmetic"]


def test_images_and_large_parts_read_weights_again() -> None:
    config = Config.of(oc=2, oh=1, ow=13, rows=0, kc=0)
    long = "ic1024ih1iw128oc128kh1kw64pl31pr32"
    one, two = (TileModel(Conv2dWorkload.parse(f"mb{n}{long}"), V4) for n in (1, 2))
    small, large = config.replace(kc=2), config.replace(kc=32)
    assert one.parts(small)["weights"] < one.parts(large)["weights"]
    assert one.parts(small)["weights"] < two.parts(small)["weights"]
