"""Ctrl-C: an exception at the next sound moment, and a process as good as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvmconv
from tests.small_network import small_network
from tvmconv.compile import relax_pipeline as pipeline
from tvmconv.core.interrupts import Stopped, checkpoint, uninterrupted

pytestmark = pytest.mark.any_processor
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def signal_is_heard() -> Iterator[None]:
    """Here and in processes started from here, though a shell ignores it for background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def in_fresh_process(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# fresh processes import TVM again; what follows the first interrupted build costs little
@pytest.mark.parametrize(
    "moments",
    [(0.05, 0.02, 0.1, 0.2, 0.3, 0.5), (0.7, 0.05, 0.15, 0.25, 0.4, 0.6)],
    ids=["first imports", "imports of TVM"],
)
def test_builds_interrupted_at_any_moment(moments: tuple[float, ...]) -> None:
    places = in_fresh_process("tests/interrupted.py", *moments)
    assert len(places.split(",")) == len(moments)


# fifty processes that import TVM
@pytest.mark.timeout(3000)
@pytest.mark.slow
def test_builds_interrupted_at_200_moments() -> None:
    random = np.random.default_rng(0)
    seen: set[str] = set()
    for _ in range(50):
        moments = [random.uniform(0, 4), *random.uniform(0, 1, 3)]
        seen |= set(in_fresh_process("tests/interrupted.py", *moments).split(","))
    assert seen >= {"import", "choose algorithms", "schedule kernels", "generate code"}


@pytest.mark.parametrize("first", ["import tvm, tvmconv", "import tvmconv, tvm"])
def test_provers_leave_the_signal_alone(first: str) -> None:
    """Z3 would set a handler in C for the time of a proof; Python's comes back with other flags."""
    program = f"""
{first}
import ctypes, os, signal, subprocess
from tvm import ir, tirx
from tvm.sym import Analyzer, ProofStrength

def prove(milliseconds):
    '''x^3 + y^3 != z^3: Z3 does not find out, and goes on until its time is over.'''
    analyzer = Analyzer()
    analyzer.set_z3_rlimit(0)
    analyzer.set_z3_timeout_ms(milliseconds)
    x, y, z = (tirx.Var(name, 'int32') for name in 'xyz')
    for var in (x, y, z):
        analyzer.bind(var, ir.Range(1, 20000))
    fermat = tirx.NE(x * x * x + y * y * y, z * z * z)
    assert not analyzer.can_prove(fermat, ProofStrength.SYMBOLIC_BOUND)

def disposition():
    state = ctypes.create_string_buffer(1024)
    assert ctypes.CDLL(None).sigaction(signal.SIGINT, None, state) == 0
    # struct sigaction: the handler, 128 bytes of which the kernel sets 8, the flags
    return state.raw[:16], state.raw[136:140]

before = disposition()
prove(50)
print('same' if disposition() == before else 'another', end=' ')
sender = subprocess.Popen(['sh', '-c', f'sleep 0.1; kill -INT {{os.getpid()}}'])
try:
    while sender.poll() is None:
        prove(300)
    print('lost')
except KeyboardInterrupt:
    print('heard')
sender.wait()
"""
    assert in_fresh_process("-c", program) == "same heard"


def test_imports_of_users_are_whole() -> None:
    """The signal comes while a module of TVM runs its code, again and again."""
    program = """
import os, signal, sys
import tvmconv

class Pest:
    '''Interrupts every import of a package's modules before it begins.'''
    names = set()
    def find_spec(self, name, path, target=None):
        if name.startswith(('tvm.', 'tvm_ffi.')) and name not in self.names:
            self.names.add(name)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(1, Pest())
stopped = 0
for _ in range(500):
    try:
        import tvm
        from tvm import relax
        break
    except KeyboardInterrupt:
        stopped += 1
assert stopped and len(Pest.names) > 100, (stopped, len(Pest.names))
assert tvm.tirx.const(1, 'int32').value == 1
print(relax.const(2.0).ty.dtype)
"""
    assert in_fresh_process("-c", program) == "float32"


def test_a_module_that_is_only_looked_up_has_its_loader() -> None:
    program = """
import sys
import tvmconv
from importlib.resources import files
from importlib.util import find_spec

name = "tvmconv.__main__"
assert name not in sys.modules
print("main" in find_spec(name).loader.get_source(name))
print(files("tvmconv.measuring.suites").joinpath("dnn12.txt").is_file())
"""
    assert in_fresh_process("-c", program) == "True\nTrue"


def test_the_signal_waits_for_the_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted():
            interrupt()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_the_signal_goes_before_an_error_that_it_caused() -> None:
    """The linker, a child of this process, gets the same Ctrl-C and fails."""
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        interrupt()
        raise ValueError


def test_checkpoints_end_the_work_with_an_ordinary_exception() -> None:
    seen: list[type[BaseException]] = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        checkpoint()
        interrupt()
        try:
            checkpoint()
        except Stopped as error:
            seen.append(type(error))
            raise RuntimeError("what TVM makes of it") from error
    assert seen == [Stopped]
    checkpoint()


def test_stopped_inside_a_pass_of_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception comes from a callback and passes through TVM's C++ code."""
    model = small_network().SerializeToString()
    schedule = pipeline.schedule_module

    def interrupted(*arguments: Any) -> Any:
        interrupt()
        return schedule(*arguments)

    monkeypatch.setattr(pipeline, "schedule_module", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tvmconv.build(model, threads=1)
    monkeypatch.undo()
    value = np.ones((1, 3, 21, 20), "float32")
    assert tvmconv.build(model, threads=1).run(value)[0].sum() == pytest.approx(1)


@pytest.fixture
def own_handler() -> Iterator[list[int]]:
    calls: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: calls.append(number))
    yield calls
    signal.signal(signal.SIGINT, before)


def test_handlers_that_return_let_the_work_go_on(own_handler: list[int]) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with uninterrupted():
        interrupt()
        assert own_handler == []
        checkpoint()
        assert own_handler == [signal.SIGINT]
        interrupt()
    assert own_handler == [signal.SIGINT] * 2
    assert signal.getsignal(signal.SIGINT) is handler


def test_handlers_set_meanwhile_stay(own_handler: list[int]) -> None:
    def later(number: int, frame: object) -> None:
        own_handler.append(-number)

    with uninterrupted():
        signal.signal(signal.SIGINT, later)
    assert signal.getsignal(signal.SIGINT) is later
    interrupt()
    assert own_handler == [-signal.SIGINT]


@pytest.mark.parametrize("disposition", [signal.SIG_IGN, signal.SIG_DFL])
def test_signals_without_a_handler_are_left_alone(disposition: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, disposition)
    try:
        with uninterrupted():
            assert signal.getsignal(signal.SIGINT) is disposition
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_change_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [before]


def test_finders_of_the_old_form_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        """As pygal's."""

        def find_module(self, name: str, path: Any = None) -> None:
            """Nothing is found here."""

    monkeypatch.setattr(sys, "meta_path", [sys.meta_path[0], Old(), *sys.meta_path[1:]])
    assert find_spec("tvmconv.not_there") is None
