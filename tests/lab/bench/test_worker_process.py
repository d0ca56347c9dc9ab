"""The worker protocol with a library that misbehaves on request."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tvmconv
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.bench.case_files import CaseInfo
from tvmconv.lab.bench.cases import write_layer_case
from tvmconv.lab.bench.rounds import Workers
from tvmconv.lab.bench.worker_process import Implementation, WorkerError, WorkerProcess

ADAPTER = """
from __future__ import annotations
import os, time
from .case import Case, Session, Unsupported, read_reference

held = []

def broken():
    return bool(held)

def version():
    print("chatter that must not reach the protocol")
    if os.environ.get("FAKE_ABSENT"):
        raise ImportError("no module named fake")
    return "4.2"

def prepare(case, threads):
    mode = case.options["mode"]
    if mode == "unsupported":
        raise Unsupported("too odd")
    if mode == "breaks":
        held.append(1)
    if held:
        raise RuntimeError("an illegal address")
    if mode == "raises":
        raise ValueError("two\\nlines")
    reference = read_reference(case.folder)
    calls = []
    def run():
        calls.append(1)
        if len(calls) > 2:
            {"exit": lambda: os._exit(3), "signal": lambda: os.kill(os.getpid(), 11),
             "hang": lambda: time.sleep(60)}.get(mode, lambda: None)()
        if log := case.options.get("log"):
            with open(log, "a") as file:
                file.write(case.options["label"])
    wrong = 1.5 if mode == "wrong" else 1.0
    return Session(run, lambda: {n: v * wrong for n, v in reference.items()}, info="fake kernel")
"""


@pytest.fixture
def adapter(tmp_path: Path) -> str:
    path = tmp_path / "fake.py"
    path.write_text(ADAPTER)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_layer_case(tmp_path, Conv2dWorkload.parse("ic4ih5oc4kh3"))
    return tmp_path


@pytest.fixture
def worker(adapter: str):
    process = WorkerProcess(Implementation("fake", adapter, sys.executable), 1)
    yield process
    process.close()


def prepare(worker: WorkerProcess, folder: Path, mode: str):
    return worker.ask(30, do="prepare", folder=str(folder), options={"mode": mode}, write=None)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for(reached: Callable[[], bool]) -> bool:
    """Whether something comes true within some seconds."""
    for _ in range(500):
        if reached():
            return True
        time.sleep(0.02)
    return False


def test_a_good_library(worker: WorkerProcess, folder: Path):
    assert worker.ask(30, do="hello") == {"version": "4.2"}
    answer = prepare(worker, folder, "good")
    assert answer["error"] < 1e-12
    assert answer["info"] == "fake kernel"
    timed = worker.ask(30, do="time", seconds=0.0, calls=5)
    assert timed["wall_seconds"] >= sum(timed["samples"]) - 1e-6
    assert timed["cpu_seconds"] >= 0
    samples = timed["samples"]
    assert len(samples) == 5
    assert all(sample >= 0 for sample in samples)
    assert worker.ask(30, do="drop") == {}


def test_a_worker_is_stopped_between_requests(worker: WorkerProcess):
    worker.ask(30, do="hello")
    assert worker.process is not None
    pid = worker.process.pid
    assert wait_for(lambda: state(pid) == "T")


@pytest.mark.parametrize(
    ("mode", "key", "text"),
    [("unsupported", "unsupported", "too odd"), ("raises", "failure", "ValueError: two lines")],
)
def test_refusals_are_answers(worker: WorkerProcess, folder: Path, mode, key, text):
    assert prepare(worker, folder, mode) == {key: text}


@pytest.mark.parametrize(("mode", "text"), [("exit", "exit code 3"), ("signal", "signal 11")])
def test_a_crash_is_reported_and_survived(worker: WorkerProcess, folder: Path, mode, text):
    prepare(worker, folder, mode)
    with pytest.raises(WorkerError, match=text):
        worker.ask(30, do="time", seconds=0.0, calls=1)
    assert worker.ask(30, do="hello") == {"version": "4.2"}


def test_a_hang_is_ended(worker: WorkerProcess, folder: Path):
    prepare(worker, folder, "hang")
    assert worker.process is not None
    pid = worker.process.pid
    with pytest.raises(WorkerError, match=r"no answer within 0\.5 s"):
        worker.ask(0.5, do="time", seconds=0.0, calls=1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_missing_interpreter_package_is_absent(worker: WorkerProcess, monkeypatch):
    monkeypatch.setenv("FAKE_ABSENT", "1")
    with Workers([worker.implementation], 1, ()) as field:
        field.hello()
    assert field.absent == {"fake": "no module named fake"}


def test_rounds_are_interleaved_and_failures_recorded(adapter: str, folder: Path):
    log = folder / "order.txt"
    modes = {"a": "good", "b": "good", "c": "wrong", "d": "unsupported", "e": "exit"}
    implementations = [
        Implementation(n, adapter, sys.executable, (("mode", m), ("label", n)))
        for n, m in modes.items()
    ]
    info = CaseInfo("layer", "layer", "ic4ih5oc4kh3", 1000, 2)
    with Workers(implementations, 1, ()) as field:
        field.hello()
        result = field.measure(folder, info, 3, 0.0, {"log": str(log)})
    status = {entry.label: entry.status for entry in result.entries}
    assert status == {"a": "ok", "b": "ok", "c": "wrong", "d": "unsupported", "e": "failed"}
    # prepare makes two calls, a timed turn two more; round two runs backwards, the others forwards
    turns = log.read_text()
    assert turns.startswith("aabbccee")
    assert turns[8:] == "aabb" + "bbaa" + "aabb"
    good = result.entry("a")
    assert good is not None
    assert [len(samples) for samples in good.rounds] == [2, 2, 2]
    assert len(good.foreign) == 3
    assert min(good.foreign) >= 0
    assert good.gflops == pytest.approx(1000 / min(good.samples) * 1e-9)
    assert result.entry("c").error == pytest.approx(0.5)
    assert "exit code 3" in result.entry("e").message
    assert [entry.label for entry in result.ranked(own=False)] in (["a", "b"], ["b", "a"])


def test_a_stopped_worker_ends_with_a_program_that_is_killed(adapter: str) -> None:
    code = f"""
import sys, time
from tvmconv.lab.bench.worker_process import Implementation, WorkerProcess
worker = WorkerProcess(Implementation("fake", {adapter!r}, sys.executable), 1)
worker.ask(60.0, do="hello")
print(worker.process.pid, flush=True)
time.sleep(600)
"""
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert wait_for(lambda: state(pid) == "T")
    finally:
        program.kill()
        program.wait()
    # where nobody reaps orphans it stays a zombie
    assert wait_for(lambda: not Path(f"/proc/{pid}").exists() or state(pid) == "Z")


def test_a_process_that_a_fault_has_broken_is_left(adapter, folder):
    """A GPU also refuses every later call in the process of a kernel that faulted."""
    info = CaseInfo("layer", "layer", "ic4ih5oc4kh3", 1)
    with Workers([Implementation("fake", adapter, sys.executable)], 1, ()) as field:
        field.hello()
        (first,) = field.measure(folder, info, 1, 0.001, {"mode": "breaks"}).entries
        (second,) = field.measure(folder, info, 1, 0.001, {"mode": "well"}).entries
    assert (first.status, first.message) == ("failed", "RuntimeError: an illegal address")
    assert second.status == "ok"


def test_only_own_adapters_see_the_packages_of_this_interpreter(adapter, monkeypatch):
    """A worker of a source tree that is not installed would not find tvmconv otherwise."""
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    found = {}
    for name in ("own", adapter):
        worker = WorkerProcess(Implementation(name, name, sys.executable), 1)
        try:
            assert "version" in worker.ask(60.0, do="hello")
            assert worker.process is not None
            variables = Path(f"/proc/{worker.process.pid}/environ").read_text().split("\0")
            found[name] = dict(v.split("=", 1) for v in variables if v)["PYTHONPATH"]
        finally:
            worker.close()
    root = str(Path(tvmconv.__file__).parents[1])
    assert found == {"own": f"{root}{os.pathsep}elsewhere", adapter: "elsewhere"}
