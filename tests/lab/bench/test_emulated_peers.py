"""Other libraries under emulation: the CPU that they see, and their counted instructions."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.emulating import needs_arm
from tests.estimating import PEER_PYTHON, answers, needs_estimation, needs_peers
from tests.lab.bench.test_worker_process import ADAPTER
from tvmconv.core.errors import InputError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines import BASELINES
from tvmconv.lab.bench.cases import write_layer_case
from tvmconv.lab.bench.emulated_baselines import (
    BaselineCount,
    EmulatedBaseline,
    _counted,
    emulated_baselines,
    library_code,
)
from tvmconv.lab.bench.emulated_python import EmulatedPython, emulated_cpu
from tvmconv.lab.bench.plan import make_plan
from tvmconv.lab.estimation.counting import Section
from tvmconv.machines.targets import resolve_machine

# the start of an ELF file for 64-bit Arm
ARM_PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00"


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A root with an interpreter in it."""
    for name in ("lib/ld-linux-aarch64.so.1", "usr/bin/python3.11", "proc/cpuinfo"):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(ARM_PROGRAM)
    return tmp_path / "root"


def test_interpreter_belongs_to_the_folder_with_its_c_library(system: Path) -> None:
    program = system / "usr" / "bin" / "python3.11"
    assert EmulatedPython.find(program) == EmulatedPython(program, system)


def test_programs_of_other_processors_are_refused(system: Path) -> None:
    with pytest.raises(InputError, match="is not a program for 64-bit Arm"):
        EmulatedPython.find(Path(sys.executable))
    with pytest.raises(InputError, match="cannot read"):
        EmulatedPython.find(system / "python")
    (system / "lib" / "ld-linux-aarch64.so.1").unlink()
    with pytest.raises(InputError, match=r"no folder above .* has lib/ld-linux"):
        EmulatedPython.find(system / "usr" / "bin" / "python3.11")


@needs_arm
def test_libraries_see_the_processor_of_the_target(system: Path) -> None:
    machine = resolve_machine("neoverse-v1")
    with EmulatedPython.find(system / "usr/bin/python3.11").on(machine) as options:
        root = Path(options[options.index("-L") + 1])
        assert (root / "usr" / "bin" / "python3.11").read_bytes() == ARM_PROGRAM
        facts = dict(
            line.split("\t: ")
            for line in (root / "proc" / "cpuinfo").read_text().splitlines()
            if line
        )
        assert facts["CPU implementer"] == "0x41" and facts["CPU part"] == "0xd40"
        assert facts["Features"].split() == list(machine.features)
        caches = root / "sys/devices/system/cpu/cpu0/cache"
        sizes = [int((caches / f"index{i}/size").read_text()[:-2]) * 1024 for i in range(4)]
        assert sizes == [machine.l1d_bytes] * 2 + [machine.l2_bytes, machine.l3_bytes]
    # the files of the libraries' system stay unchanged
    assert (system / "proc" / "cpuinfo").read_bytes() == ARM_PROGRAM
    assert not root.exists()


@needs_arm
def test_qemu_emulates_the_processor_or_one_with_its_features() -> None:
    assert emulated_cpu(resolve_machine("cortex-a53")) == "cortex-a53"
    assert emulated_cpu(resolve_machine("neoverse-v1")) in ("neoverse-v1", "max,sve=off,sme=off")
    unknown = replace(resolve_machine("cortex-a53"), mcpu="cortex-x9")
    assert emulated_cpu(unknown) == "cortex-a72"
    assert emulated_cpu(replace(unknown, features=("asimd", "asimddp"))) == "neoverse-n1"
    # qemu's largest processor has products of matrices in registers, for which libraries have code
    assert emulated_cpu(resolve_machine("ftengine")) == "max,sme=off,sve-default-vector-length=32"


def test_what_the_interpreter_executes_is_left_out() -> None:
    section = Section(Counter({(0x1000, "aa"): 3, (0x2000, "aa"): 5, (0x2FFF, "bb"): 7}))
    assert library_code(section, [[0x1000, 0x2000]]).runs == {(0x2000, "aa"): 5, (0x2FFF, "bb"): 7}
    assert library_code(section, [[0x1000, 0x1001], [0x2000, 0x3000]]).runs == {}


def test_named_libraries_need_an_interpreter_of_the_target(system: Path) -> None:
    machine = resolve_machine("cortex-a72")
    plan = make_plan(layers=["ic4ih5oc4kh3"], baselines="ncnn", target="cortex-a72")
    with pytest.raises(InputError, match=r"ncnn: no interpreter.*--baseline-python"):
        emulated_baselines(plan, machine)
    assert emulated_baselines(replace(plan, baselines=tuple(BASELINES)), machine) == []
    assert emulated_baselines(replace(plan, baselines=()), machine) == []
    with pytest.raises(InputError, match=r"x86-64-v3\. Expected 64-bit Arm"):
        emulated_baselines(plan, resolve_machine("x86-64-v3"))
    with pytest.raises(InputError, match="is not a program for 64-bit Arm"):
        emulated_baselines(replace(plan, pythons={"": sys.executable}), machine)


def test_cases_are_checked_before_they_are_counted(tmp_path: Path) -> None:
    adapter, case = tmp_path / "fake.py", tmp_path / "case"
    case.mkdir()
    write_layer_case(case, Conv2dWorkload.parse("ic4ih5oc4kh3"))
    mode = 'case.options.get("mode", "wrong")'
    adapter.write_text(ADAPTER.replace('case.options["mode"]', mode))
    head, first, second = answers(adapter, [case, tmp_path], tmp_path / "result")
    assert head["version"] == "4.2"
    # addresses of the interpreter that runs it, or of its library
    assert head["interpreter"]
    assert all(start < end for start, end in head["interpreter"])
    assert first["error"] == pytest.approx(0.5) and first["facts"] == {}
    assert "FileNotFoundError" in str(second["failure"])


@pytest.mark.parametrize(
    ("error", "quantized", "facts", "status"),
    [
        (1e-3, False, {}, "ok"),
        (0.05, False, {}, "wrong"),
        (0.05, True, {}, "ok"),
        (0.05, False, {"differing": 0.3}, "ok"),
        (0.5, True, {"differing": 0.3}, "wrong"),
        (float("nan"), True, {}, "wrong"),
    ],
)
def test_8_bits_may_differ_by_more(error: float, quantized: bool, facts: Any, status: str) -> None:
    answer = {"error": error, "facts": facts}
    assert _counted(answer, "1.0", Section(), quantized).status == status


def test_absent_library_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = tmp_path / "fake.py"
    adapter.write_text(ADAPTER)
    monkeypatch.setenv("FAKE_ABSENT", "1")
    (head,) = answers(adapter, [tmp_path], tmp_path / "result")
    assert head["absent"] == "no module named fake"


@pytest.mark.slow
@needs_estimation
@needs_peers
def test_ncnn_executes_the_multiply_adds_of_a_layer(tmp_path: Path) -> None:
    machine = resolve_machine("cortex-a72")
    write_layer_case(tmp_path, Conv2dWorkload.parse("ic256ih14oc256kh1"))
    python = EmulatedPython.find(Path(PEER_PYTHON))
    found = EmulatedBaseline(BASELINES["ncnn"], python, machine).count(tmp_path)
    assert found.status == "ok" and found.error is not None and found.error < 1e-5
    assert found.section is not None
    # a vector FMA for four products, and at most half as many other instructions
    assert 1.0 < found.section.instructions / (196 * 256 * 256 / 4) < 1.5
    absent = EmulatedBaseline(BASELINES["openvino"], python, machine).count(tmp_path)
    assert absent == BaselineCount("absent", "No module named 'openvino'")


@pytest.mark.slow
@needs_estimation
@needs_peers
def test_openblas_executes_the_product_of_im2col(tmp_path: Path) -> None:
    machine = resolve_machine("ftengine")
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1+bias+relu")
    write_layer_case(tmp_path, workload)
    baseline = EmulatedBaseline(
        BASELINES["openblas"], EmulatedPython.find(Path(PEER_PYTHON)), machine
    )
    assert "openblas" in baseline.version and baseline.version.endswith("OPENBLAS_CORETYPE=A64FX")
    found = baseline.count(tmp_path)
    assert found.status == "ok" and found.error is not None and found.error < 1e-5
    assert found.section is not None
    # FMAs of 256 bits, nearly as many others, and a copy of the image for each kernel element
    assert 1.0 < found.section.instructions / (workload.flops / 2 / 8) < 3.0
