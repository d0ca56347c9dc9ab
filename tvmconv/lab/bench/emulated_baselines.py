"""Calls of baselines counted under emulation, for estimates next to our own code."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvmconv.lab.baselines
from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.lab.baselines import BASELINES, Baseline
from tvmconv.lab.baselines.case import EMULATOR
from tvmconv.lab.bench.emulated_python import EmulatedPython, emulated_cpu
from tvmconv.lab.bench.implementation_run import reason
from tvmconv.lab.bench.plan import BenchPlan
from tvmconv.lab.bench.result import wrong_above
from tvmconv.lab.estimation.cache import digest, recall, remember
from tvmconv.lab.estimation.counting import Section, count
from tvmconv.lab.estimation.tools import counting_emulator
from tvmconv.machines.record import Machine

_PROGRAM = Path(tvmconv.lab.baselines.__file__).with_name("counted.py")
# otherwise the order of dictionaries, and with it the counts, would differ
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
# OpenBLAS reads the CPU's name from a system register, which qemu does not emulate
_CORE_TYPE = "OPENBLAS_CORETYPE"
_OPENBLAS_CORES = {
    "cortex-a53": "CORTEXA53",
    "cortex-a55": "CORTEXA55",
    "cortex-a72": "CORTEXA57",
    "cortex-a76": "NEOVERSEN1",
    "neoverse-n1": "NEOVERSEN1",
    "neoverse-v1": "NEOVERSEN1",
    "neoverse-n2": "NEOVERSEN1",
    "neoverse-v2": "NEOVERSEN1",
    "neoverse-v1+sve": "NEOVERSEV1",
    "neoverse-n2+sve": "NEOVERSEN2",
    "neoverse-v2+sve": "NEOVERSEN2",
    "aarch64+sve": "ARMV8SVE",
    "ftengine": "A64FX",
    "a64fx": "A64FX",
}


@dataclass(frozen=True)
class BaselineCount:
    """The executed code of one call of a baseline.

    ``status``, ``message``, ``version``, ``error`` and ``info`` are as of
    :class:`tvmconv.lab.bench.result.Entry`. ``section`` excludes the Python interpreter; it is None
    where the status is not ``ok``.
    """

    status: str
    message: str = ""
    version: str = ""
    error: float | None = None
    section: Section | None = None
    info: str = ""


class EmulatedBaseline:
    """A library of an interpreter that may have it, as it runs on an emulated CPU."""

    def __init__(self, baseline: Baseline, python: EmulatedPython, machine: Machine) -> None:
        self.baseline, self.python, self.machine = baseline, python, machine
        self.version, self.absent = "", ""
        head, _, _ = self._run(())
        if "version" in head:
            self.version = head["version"]
            if baseline.name == "openblas":
                self.version += f", {_CORE_TYPE}={openblas_core(machine)}"
        else:
            self.absent = reason(head)

    def count(self, folder: Path, quantized: bool = False) -> BaselineCount:
        """One call of a case, counted after a check of its outputs; once for each content.

        Weights were packed before, as for timed calls. Work on plain inputs in each call is
        counted. Outputs of a ``quantized`` model may differ more.
        """
        if self.absent:
            return BaselineCount("absent", self.absent)
        key = self._key(folder)
        if (data := recall("peers", key)) is None:
            head, answers, sections = self._run((folder,))
            answer = answers[0] if answers else head
            spans = head.get("interpreter", [])
            nothing = library_code(sections.get(1, Section()), spans)
            section = library_code(sections.get(2, Section()), spans) - nothing
            data = [answer, section.to_json()]
            if "error" in answer:
                remember("peers", key, data)
        return _counted(data[0], self.version, Section.from_json(data[1]), quantized)

    def _key(self, folder: Path) -> str:
        """A name for everything that decides the executed code."""
        files = [folder / f"{name}.npz" for name in ("inputs", "constants", "reference")]
        files += sorted(_PROGRAM.parent.glob("*.py"))
        # without the path of the ONNX file, which is temporary
        nodes = json.loads((folder / "case.json").read_text())["nodes"]
        seen = [self.baseline.name, self.version, repr(self.machine), str(self.python.path)]
        seen.append(emulated_cpu(self.machine))
        return digest(*seen, json.dumps(nodes), *(file.read_bytes() for file in files))

    def _run(
        self, folders: Sequence[Path]
    ) -> tuple[dict[str, Any], list[dict[str, Any]], dict[int, Section]]:
        """The program's answers on itself and on each case, and the executed code."""
        machine = self.machine
        with tempfile.TemporaryDirectory(prefix="tvmconv-") as name:
            result = Path(name) / "result"
            command: list[str | Path] = [self.python.path, _PROGRAM, self.baseline.module, result]
            with self.python.on(machine) as options:
                emulator_command = [*counting_emulator(machine.triple), *options]
                environment = {
                    **_ENVIRONMENT,
                    _CORE_TYPE: openblas_core(machine),
                    EMULATOR: shlex.join(emulator_command),
                }
                try:
                    sections = count(
                        [*command, *folders],
                        machine.triple,
                        options=options,
                        environment=environment,
                    )
                except ArtifactError as error:
                    # a library that is absent, or that crashed, is a result
                    if not result.exists():
                        raise
                    sections, failure = {}, {"failure": str(error)}
                else:
                    failure = {"failure": "the program ended before its answer"}
            lines = [json.loads(line) for line in result.read_text().splitlines()]
        head, *answers = lines or [failure]
        return head, answers or [failure] * len(folders), sections


def openblas_core(machine: Machine) -> str:
    """The kernels of OpenBLAS for a machine, unless the variable names others."""
    return os.environ.get(_CORE_TYPE) or _OPENBLAS_CORES.get(machine.name, "ARMV8")


def emulated_baselines(plan: BenchPlan, machine: Machine) -> list[EmulatedBaseline]:
    """The baselines that a plan names, under emulation; none of ``all`` without an interpreter.

    Raises :class:`InputError` if a named baseline has no interpreter, or the target is not 64-bit
    Arm.
    """
    everyone = plan.baselines == tuple(BASELINES)
    if not plan.baselines or (everyone and not plan.pythons):
        return []
    if not machine.triple.startswith("aarch64"):
        raise InputError(
            f"estimate of other libraries: target {machine.name}. Expected 64-bit Arm. "
            "Use --baselines none."
        )
    found = []
    for name in plan.baselines:
        path = plan.pythons.get(name) or plan.pythons.get("")
        if path:
            found.append(
                EmulatedBaseline(BASELINES[name], EmulatedPython.find(Path(path)), machine)
            )
        elif not everyone:
            raise InputError(
                f"estimate of {name}: no interpreter. Expected a Python for {machine.triple}. "
                "Name one that has it by --baseline-python (docs/notes/arm-estimated.md)."
            )
    return found


def library_code(section: Section, interpreter: Sequence[Sequence[int]]) -> Section:
    """A section without the code between the interpreter's addresses."""
    return Section(
        Counter(
            {
                (address, code): runs
                for (address, code), runs in section.runs.items()
                if not any(start <= address < end for start, end in interpreter)
            }
        )
    )


def _counted(
    answer: dict[str, Any], version: str, section: Section, quantized: bool
) -> BaselineCount:
    if "error" not in answer:
        status = "unsupported" if "unsupported" in answer else "failed"
        return BaselineCount(status, reason(answer), version)
    error = answer["error"]
    if error is None or not error <= wrong_above(quantized, answer["facts"]):
        return BaselineCount(
            "wrong", f"the outputs differ from the reference by {error}", version, error
        )
    return BaselineCount("ok", "", version, error, section, answer.get("info", ""))
