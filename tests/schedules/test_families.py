"""A family that is one record builds everything; a file in a family's folder goes before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from tvm import te

import tvmconv
from tests.assembly import assembly
from tests.kernels import check_kernel, executed_on
from tests.small_network import mixed_network, pixel_network, small_network
from tests.strategies import conv2d_workloads
from tests.toy_family import TOY
from tvmconv import schedules
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import families, registry
from tvmconv.kernels.families import schedules_of
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.rules import schedule_function
from tvmconv.machines.gate import lacks
from tvmconv.machines.host import native_machine
from tvmconv.machines.presets import MACHINES
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.records.space import record_machine
from tvmconv.schedules.cpu import direct
from tvmconv.schedules.cpu.rules import RULES

each_toy = pytest.mark.parametrize("machine", [executed_on(TOY)])
# a channel block of two vectors
WIDE = replace(TOY, isa="toy128wide", channel_block=8)
# tails of blocks, rows and tiles; strides, groups, dilation, residual and plain input
PROBLEMS = (
    "mb1ic9ih11iw10oc13kh3ph1+bias+add+relu",
    "mb1ic8ih9iw12oc12kh3sh2ph2+bias",
    "mb1g2ic12ih8iw9oc24kh3ph1+clip(0,6)",
    "mb2ic16ih7iw7oc10kh1+bias+add",
    "mb1ic6ih11iw12oc7kh3dh1ph1+add+sigmoid",
    "mb1ic3ih13iw12oc10kh3sh2ph1:nchw+bias+relu",
    "mb1ic5ih12iw14oc9kh5ph2+bias",
    "mb1g10ic10ih9iw11oc10kh3ph1+bias+add+relu",
    "mb1g6ic6ih9iw8oc6kh5sh2ph2+bias",
    "mb2ic24ih7iw5oc22kh1+bias+add",
)
TAKEN = [
    (name, text)
    for name in registry.names()
    for text in PROBLEMS
    if registry.algorithm(name).unsupported(Conv2dWorkload.parse(text), TOY) is None
]


def test_the_family_has_no_file() -> None:
    folders = [Path(place, TOY.family) for place in schedules.__path__]
    assert folders
    assert not any(folder.exists() for folder in folders)


def test_every_algorithm_has_a_problem() -> None:
    # test_integers and test_tiles have the INT8 algorithms
    assert {name for name, _ in TAKEN} == set(registry.names()) - {"direct_bytes", "direct_tiles"}


def every_second(taken: list[tuple[str, str]]) -> list[Any]:
    """Every second problem of each algorithm; slow runs have all."""
    found: list[Any] = []
    for name in dict.fromkeys(name for name, _ in taken):
        for index, text in enumerate(text for other, text in taken if other == name):
            found.append(pytest.param(name, text, marks=[pytest.mark.slow] * (index % 2)))
    return found


@each_toy
@pytest.mark.parametrize(("name", "text"), every_second(TAKEN))
def test_algorithms(machine: Machine, name: str, text: str) -> None:
    workload = Conv2dWorkload.parse(text)
    two = machine.with_cores(2)
    # some of Winograd's many tiles
    for config in registry.offers(name, workload, two)[::5]:
        registry.check(name, workload, two, config)
        check_kernel(workload, two, name, config)


@pytest.mark.parametrize("machine", [executed_on(WIDE)])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(*each, marks=[pytest.mark.slow] * (index % 2))
        for index, each in enumerate(each for each in TAKEN if each[0] in registry.ALGORITHMS)
    ],
)
def test_a_block_of_two_vectors(machine: Machine, name: str, text: str) -> None:
    workload = Conv2dWorkload.parse(text)
    if registry.algorithm(name).unsupported(workload, machine) is None:
        check_kernel(workload, machine, name)


@pytest.mark.slow
@each_toy
@pytest.mark.parametrize("name", registry.ALGORITHMS)
@settings(max_examples=100)
@given(workload=conv2d_workloads(max_size=24, data_layouts=("NCHWc", "NCHW")))
def test_any_problem(machine: Machine, name: str, workload: Conv2dWorkload) -> None:
    if registry.algorithm(name).unsupported(workload, machine) is None:
        check_kernel(workload, machine, name)


@pytest.mark.parametrize("name", ["direct", "im2col", "im2win", "winograd"])
def test_code_is_short_vectors(name: str) -> None:
    """The machine model's vectors decide, not the instruction set's."""
    workload = Conv2dWorkload.parse("ic32ih14oc32kh3ph1+bias+relu")
    code = assembly(make_kernel(workload, TOY, name))
    assert code.multiply_adds(code.lines) == code.count(r"vfn?madd\w+ps") > 50


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the rules that scheduled an operator since the test began."""
    found: set[str] = set()

    def watch(name: str, module: ModuleType) -> None:
        rule = module.rule

        def watched(func: object, machine: Machine) -> object:
            if (schedule := rule(func, machine)) is not None:
                found.add(name)
            return schedule

        monkeypatch.setattr(module, "rule", watched)

    for name in RULES:
        watch(name, schedules_of(TOY, name))
    return found


def _expected(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@each_toy
def test_operators(machine: Machine, taken: set[str]) -> None:
    x = np.random.default_rng(0).standard_normal((1, 10, 12, 11)).astype("float32")
    for model in (mixed_network(), pixel_network()):
        built = tvmconv.build(model, machine.with_cores(2), threads=2, log="none")
        np.testing.assert_allclose(built.run(x)[0], _expected(model, x), atol=1e-6)
    # bytes and other operators along rows have tests of their own
    assert taken == set(RULES) - {"byte_products", "pool", "rows"}


@pytest.mark.parametrize("machine", [executed_on(TOY), executed_on(WIDE)])
def test_network(machine: Machine, tmp_path: Path) -> None:
    model = small_network()
    x = np.random.default_rng(0).standard_normal((1, 3, 21, 20)).astype("float32")
    built = tvmconv.build(model, machine, threads=2)
    actual = built.run(x)[0]
    np.testing.assert_allclose(actual, _expected(model, x), atol=1e-6)
    built.save(tmp_path / "toy.so")
    again = tvmconv.load(tmp_path / "toy.so")
    assert again.machine == built.machine
    np.testing.assert_array_equal(again.run(x)[0], actual)


def test_the_record_alone_makes_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    native = native_machine()
    monkeypatch.setitem(MACHINES, TOY.name, TOY)
    assert resolve_machine("toy", threads=1) == TOY
    assert read_machine(TOY.to_json()) == TOY
    # records of the tuner name an instruction set
    facts = {**TOY.to_json(), "lanes": TOY.lanes, "vector_registers": TOY.vector_registers}
    assert record_machine(facts) == TOY
    # a host that could run it keeps the record with the longer vectors
    assert native_machine() == native


GUEST = replace(TOY, name="guest", family="guest")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where files of the family ``guest`` may be put."""
    monkeypatch.setattr(schedules, "__path__", [*schedules.__path__, str(tmp_path)])
    family = tmp_path / GUEST.family
    family.mkdir()
    (family / "__init__.py").touch()
    yield family
    name = f"{schedules.__name__}.{GUEST.family}"
    for module in [m for m in sys.modules if f"{m}.".startswith(f"{name}.")]:
        del sys.modules[module]
    vars(schedules).pop(GUEST.family, None)
    families._module.cache_clear()


def test_an_algorithm_of_the_family_goes_before(folder: Path) -> None:
    (folder / "direct.py").write_text(
        "from tvmconv.schedules.cpu.direct import DirectSchedule\n"
        "class GuestSchedule(DirectSchedule):\n"
        "    def default_config(self, workload, machine):\n"
        "        return super().default_config(workload, machine).replace(oc=1)\n"
        "SCHEDULE = GuestSchedule()\n"
    )
    workload = Conv2dWorkload.parse(PROBLEMS[0])
    assert registry.schedule("direct", TOY) is direct.SCHEDULE
    assert registry.schedule("direct", GUEST) is not direct.SCHEDULE
    assert registry.schedule("im2col", GUEST) is registry.schedule("im2col", TOY)
    configs = [registry.default_config("direct", workload, machine) for machine in (TOY, GUEST)]
    assert [config.int("oc") == 1 for config in configs] == [False, True]
    if not lacks(GUEST):
        check_kernel(workload, GUEST, "direct")


def test_a_rule_of_the_family_goes_before(folder: Path) -> None:
    (folder / "elementwise.py").write_text(
        "from tvmconv.schedules.cpu import elementwise as shared\n"
        "def rule(func, machine):\n"
        "    schedule = shared.rule(func, machine)\n"
        "    main = schedule.mod['main'].with_attr('scheduled_by', machine.family)\n"
        "    schedule.mod.update_func(schedule.mod.get_global_var('main'), main)\n"
        "    return schedule\n"
    )
    source = te.placeholder((4, 64), name="source")
    doubled = te.compute((4, 64), lambda i, j: source[i, j] * 2.0, name="doubled")
    func = te.create_prim_func([source, doubled])
    assert "scheduled_by" not in schedule_function(func, TOY).attrs
    assert schedule_function(func, GUEST).attrs["scheduled_by"] == "guest"


def test_nothing_is_found_for_no_name() -> None:
    assert registry.schedule("nosuch", TOY) is None
