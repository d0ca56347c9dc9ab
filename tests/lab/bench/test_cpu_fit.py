"""Fitting the constants of CPU cost models: to times that other constants make."""

from __future__ import annotations

import pytest

from tests.kernels import V4
from tvmconv.core.errors import InputError
from tvmconv.costs.constant import constants_of, replaced
from tvmconv.costs.cpu import constants
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench import cpu_fit
from tvmconv.lab.bench.cpu_fit import Timed, fit, fit_report, mean_error, mean_loss
from tvmconv.lab.bench.descent import descend
from tvmconv.measuring.suites import load

REAL = {"TILE_CYCLES": 90.0, "PRODUCT_COST": 1.5, "TRANSFORM_COST": 2.4}
# a clock of 3 GHz, which a fit need not know
HERTZ = 3e9


def rows(suite: str) -> list[Timed]:
    """Candidates of two layers, with the times that other constants predict."""
    found = []
    for layer in load(suite)[4:6]:
        configs = [("winograd", c) for c in registry.offers("winograd", layer.workload, V4)[:4]]
        direct = registry.default_config("direct", layer.workload, V4)
        configs += [("direct", direct.replace(oc=1, oh=1, ow=width)) for width in (2, 4, 7, 14)]
        for name, config in configs:
            kernel = Kernel(layer.workload, V4, name, config)
            with replaced(constants, REAL):
                seconds = kernel.predicted_cycles / HERTZ
            found.append(Timed(suite, layer.name, kernel, seconds))
    return found


@pytest.fixture(scope="module")
def known() -> list[Timed]:
    return [*rows("resnet18"), *rows("vgg16")]


def test_times_of_other_constants_are_found_again(known: list[Timed]):
    values = fit(known)
    assert mean_error(known, values) < 0.5 * mean_error(known, {})
    assert mean_loss(known, values) < 0.01
    # the values hold for the context of a fit alone
    assert constants.TRANSFORM_COST == 1.40625


def test_the_report_predicts_suites_that_a_fit_did_not_see(
    known: list[Timed], monkeypatch: pytest.MonkeyPatch
):
    # one model alone, for speed
    monkeypatch.setattr(cpu_fit, "MODELS", ("microkernel",))
    report = fit_report(known, V4)
    tables = {table.name: table.rows for table in report.tables}
    assert {row["suite"] for row in tables["losses"]} == {"resnet18", "vgg16"}
    for row in tables["errors"]:
        assert row["after"] <= row["before"] + 1e-9
        assert row["unseen"] is not None
    assert {row["name"] for row in tables["constants"]} > {"TILE_CYCLES"}


def test_too_few_candidates_are_an_error(known: list[Timed]):
    with pytest.raises(
        InputError, match=r"fit of microkernel, winograd: 3 measured.*Add --suite NAME\."
    ):
        fit([row for row in known if row.kernel.algorithm == "direct"][:3])


def test_the_tables_name_the_command_of_constants_that_are_fitted():
    commands = {c.fit.model: c.fit.command for c in constants_of(constants).values()}
    assert {m for m, text in commands.items() if "--fit" in text} == set(cpu_fit.MODELS)


def test_descent_stays_where_it_may():
    found = descend(
        {"a": 1.0, "b": 1.0},
        lambda v: abs(v["a"] - 3) + abs(v["b"] - 0.5),
        lambda name, value: value <= 2.0,
    )
    assert found["a"] <= 2.0
    assert found["a"] == pytest.approx(2.0, rel=0.05)
    assert found["b"] == pytest.approx(0.5, rel=0.05)
