"""Cycles of stretches: the calls of llvm-mca, and the results."""

from __future__ import annotations

import pytest

from tests.estimating import needs_estimation
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation.assembly import describe
from tvmconv.lab.estimation.cycles import Steady, steady_cycles

ARM = "aarch64-linux-gnu"
TEXTS = {
    # eight sums that depend on nothing but themselves
    **{f"{i}": f"fmla v{i}.4s, v30.4s, v31.s[0]" for i in range(8)},
    "chain": "fmla v9.4s, v9.4s, v9.4s",
    "next": "b.ne #-32",
    "call": "bl #400",
    "sve": "fmla z0.s, p0/m, z1.s, z2.s",
}
KNOWN = {code: describe(text, 4, "aarch64") for code, text in TEXTS.items()}
SUMS = tuple(map(str, range(8)))


@needs_estimation
@pytest.mark.parametrize(("model", "rate"), [("cortex-a57", 1), ("neoverse-n1", 2)])
def test_a_loop_of_sums_keeps_the_units_busy(model, rate):
    loop = (*SUMS, "next")
    assert steady_cycles([loop], KNOWN, model, ARM)[loop].cycles == pytest.approx(8 / rate, abs=0.3)


@needs_estimation
def test_a_chain_takes_its_latency_and_the_pipeline_does_not_count():
    found = steady_cycles([("chain",)], KNOWN, "neoverse-n1", ARM)
    assert found[("chain",)].cycles == 4


@needs_estimation
def test_calls_cost_nothing_outside_of_their_place():
    with_call, without = (*SUMS, "call"), SUMS
    found = steady_cycles([with_call, without], KNOWN, "neoverse-n1", ARM)
    assert found[with_call].cycles == pytest.approx(found[without].cycles, abs=0.5)


@needs_estimation
def test_what_a_model_lacks_is_counted():
    mixed, nothing = (*SUMS, "sve"), ("?", "?")
    found = steady_cycles([mixed, nothing], KNOWN, "cortex-a57", ARM)
    assert found[mixed].unknown == 1
    assert found[mixed].cycles > 7
    assert found[nothing] == Steady(0.0, 2)


@needs_estimation
def test_an_unknown_processor_is_refused():
    with pytest.raises(ArtifactError, match="no-such-core"):
        steady_cycles([SUMS], KNOWN, "no-such-core", ARM)
