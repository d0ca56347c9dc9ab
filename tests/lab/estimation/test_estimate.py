"""Estimates of kernels and models, against figures that are known otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tvmconv
from tests.emulating import needs_arm
from tests.estimating import needs_estimation
from tests.small_network import small_network
from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.core.errors import ArtifactError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.lab.estimation import estimate as estimates
from tvmconv.lab.estimation.blocks import Stretch
from tvmconv.lab.estimation.cores import Core, core_of
from tvmconv.lab.estimation.counting import parse
from tvmconv.lab.estimation.cycles import Steady
from tvmconv.lab.estimation.estimate import Cost, estimate_model, most, section_costs
from tvmconv.lab.estimation.kernels import estimate_kernels, run_kernels
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.presets import MACHINES as ALL
from tvmconv.machines.sve import MACHINES as SCALABLE
from tvmconv.machines.targets import resolve_machine
from tvmconv.tuning.candidate import SeededOperands

N1, A72, A55 = (MACHINES[name] for name in ("neoverse-n1", "cortex-a72", "cortex-a55"))
V3 = ALL["x86-64-v3"]
PLAIN = Conv2dWorkload.parse("mb1ic16ih9iw14oc24kh1")


def test_costs_add_up():
    one, two = Cost(1.5, 10, 4, 1), Cost(2.5, 20, 5)
    assert one + two == Cost(4.0, 30, 9, 1)


def test_cores():
    assert core_of(A72).model == "cortex-a57"
    assert core_of(MACHINES["cortex-a76"]).model == "neoverse-n1"
    assert core_of(MACHINES["neoverse-v2"]).model == "neoverse-v2"
    for scalable in ("aarch64+sve", "ftengine", "neoverse-v1+sve"):
        assert core_of(SCALABLE[scalable]).model == "neoverse-v1"
    assert core_of(replace(N1, name="other", mcpu="cortex-x2")).model == "cortex-x2"
    assert core_of(A72).seconds(1.5e9) == pytest.approx(1)
    assert "1.50 GHz (Raspberry Pi 4)" in core_of(A72).clock_text
    assert "assumed" in core_of(replace(N1, name="other")).clock_text
    assert all(core_of(machine).model for machine in MACHINES.values())


@pytest.mark.parametrize(
    ("machine", "mcpu", "model"),
    [
        # a record of the host has its own name, and LLVM's of the processor
        (A72, "cortex-a76", "neoverse-n1"),
        (A72, "generic", "cortex-a57"),
        (A72, "neoverse-v2", "neoverse-v2"),
        (V3, "znver4", "znver4"),
        (V3, "x86-64-v3", "haswell"),
    ],
)
def test_hosts_are_known_by_their_processor(machine, mcpu, model):
    assert core_of(replace(machine, name="native", mcpu=mcpu)).model == model


@pytest.mark.parametrize(
    ("name", "products"), [("neoverse-n1", 32), ("cortex-a72", 8), ("x86-64-v3", 2 * 1.6 * 8)]
)
def test_the_peak_of_bytes_is_that_of_their_products(name: str, products: float):
    core = core_of(resolve_machine(name, 1))
    types = DataTypes("int8", "int8", "int32", "int32")
    assert core.peak_of(types) * core.lanes == pytest.approx(products)
    assert core.peak_of(FLOAT32) == core.peak


def test_the_peak_is_that_of_the_longer_vectors():
    peaks = {"ftengine": 4, "neoverse-v1+sve": 4, "neoverse-n2+sve": 2, "a64fx": 2}
    for name, peak in peaks.items():
        assert core_of(SCALABLE[name]).peak == peak
    # NEON code of the same core is held to its own
    assert core_of(SCALABLE["ftengine"]).multiply_adds == 2


def test_nearly_all_is_simulated():
    heavy, light = Stretch(("a",) * 10, 10**6), Stretch(("b",), 3)
    assert most([light, heavy]) == [heavy]
    assert most([light]) == [light]
    assert most([]) == []


def test_no_more_multiply_adds_than_the_core_has(monkeypatch):
    """A model that starts two a cycle, of a core that starts one."""
    section = parse(["section 1", "block 0 1000 20cc224e.20dc226e", "runs 0 100"])[1]
    # a product without a sum occupies a multiplier, too
    known = {
        "20cc224e": estimates.Instruction("fmla", 4, multiply_add=True),
        "20dc226e": estimates.Instruction("fmul", 4, multiply=True),
    }
    monkeypatch.setattr(estimates, "disassembled", lambda *_: known)
    monkeypatch.setattr(estimates, "_steady", lambda *_: {tuple(known): Steady(1.0)})
    for rate, cycles in ((1, 200), (2, 100), (4, 100)):
        core = Core("some", "model", rate)
        assert section_costs([section], core, "aarch64-linux-gnu") == [Cost(cycles, 200, 100)]


@needs_arm
@needs_estimation
def test_loads_keep_multiply_adds_of_ordered_cores_from_starting(monkeypatch):
    section = parse(["section 1", "block 0 1000 20cc224e.20cc225e", "runs 0 100"])[1]
    known = {
        "20cc224e": estimates.Instruction("fmla", 4, multiply_add=True),
        "20cc225e": estimates.Instruction("ldp", 4, wide_loads=2, narrow_loads=1),
    }
    monkeypatch.setattr(estimates, "disassembled", lambda *_: known)
    monkeypatch.setattr(estimates, "_steady", lambda *_: {tuple(known): Steady(1.5)})
    for loads, cycles in (((0.0, 0.0), 150), ((2.0, 0.0), 500), ((2.0, 1.0), 600)):
        core = Core("some", "model", 1, wide_load=loads[0], narrow_load=loads[1])
        assert section_costs([section], core, "aarch64-linux-gnu") == [Cost(cycles, 200, 100)]
    assert (core_of(A55).wide_load, core_of(A55).narrow_load) == (2, 0)
    assert core_of(MACHINES["cortex-a53"]).narrow_load == 1
    assert core_of(A72).wide_load == 0


@needs_arm
@needs_estimation
def test_multiply_adds_of_a_kernel_are_those_of_its_layer():
    kernel = make_kernel(PLAIN, N1.with_cores(1), "direct")
    found = estimate_kernels([kernel, kernel])
    one, two = (layer.cost for layer in found.layers)
    # nothing is padded: each FMA is executed once, and twice is the same as once
    assert one.multiply_adds == PLAIN.macs // 4
    assert (two.multiply_adds, two.unknown) == (one.multiply_adds, 0)
    assert two.cycles == pytest.approx(one.cycles, rel=0.02)
    assert found.total.instructions == one.instructions + two.instructions
    # two a cycle, and half as fast at the worst
    assert one.multiply_adds / 2 <= one.cycles < one.multiply_adds
    assert "estimate, not a measurement" in estimates.described_method(found.core)
    assert "neoverse-n1" in estimates.described_method(found.core)
    # the same code on cores with one FMA a cycle
    for machine in (A72, A55):
        assert estimate_kernels([kernel], machine).total.cycles >= one.multiply_adds


@needs_arm
@needs_estimation
def test_kernels_compute_while_they_are_counted():
    workload = Conv2dWorkload.parse("mb1ic9ih6iw7oc10kh3ph1+bias+add+relu")
    machine = A72.with_cores(1)
    operands = SeededOperands(str(workload), machine.lanes)
    kernels = [make_kernel(workload, machine, name) for name in ("direct", "winograd")]
    found, outputs = run_kernels(kernels, [operands.arrays(kernel) for kernel in kernels])
    assert [layer.call.kernel for layer in found.layers] == ["kernel0", "kernel1"]
    for kernel, output in zip(kernels, outputs, strict=True):
        assert operands.judged(kernel, output)["status"] == "correct"
        assert operands.judged(kernel, np.zeros_like(output))["status"] == "wrong"
    alone = estimate_kernels(kernels[:1]).layers[0].cost
    assert found.layers[0].cost.instructions == pytest.approx(alone.instructions, rel=0.01)


@needs_arm
@needs_estimation
def test_every_call_of_a_model_has_an_estimate(tmp_path):
    model = tvmconv.build(small_network(), "cortex-a72", threads=1, log="none")
    path = model.save(tmp_path / "small.so")
    found = estimate_model(path)
    assert [layer.call for layer in found.layers] == list(model.calls)
    assert all(layer.cost.cycles > 0 for layer in found.layers)
    convolutions = [layer for layer in found.layers if layer.call.workload]
    assert len(convolutions) == len(model.decisions)
    for layer in convolutions:
        assert layer.cost.multiply_adds > 0
    # the same code is a little faster where two FMAs start in a cycle
    assert estimate_model(path, N1).total.cycles < found.total.cycles
    with pytest.raises(ArtifactError):
        estimate_model(path, replace(N1, name="other", mcpu="no-such-core"))
