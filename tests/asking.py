"""Which tests may turn out differently where features of the processor are hidden.

``.ci/run`` runs the tests twice on a processor with AVX-512, the second time with that hidden by
``TVMCONV_HIDE_FEATURES``. A test that never asks for what is hidden does the same both times, code
for a machine that it names itself included. The first run records such tests
(``-p tests.asking --same-with-less=FILE``), and the second leaves them out (``--but=FILE``). With a
space, pytest would look for its settings next to FILE: it does not know the option yet.

Taken to ask, and so run twice, is a test that

- asks for the host's features, by itself or by ``native``;
- shares a file with such a test and with cached functions, which may keep the answer;
- is in a file that asks as it is imported, or that holds ``HOST``;
- runs code that needs something hidden, or asks whether it can run;
- starts a process that does not hide the same features in both runs, except for tools of
  ``_TOOLS`` and tests marked ``any_processor``;
- uses a fixture that did one of these;
- did not pass.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HIDDEN = "avx512"
# programs to which the variable says nothing
_TOOLS = {"as", "c++", "cc", "clang", "g++", "gcc", "git", "ld", "nm", "nvcc", "objdump"}
_TOOLS |= {"nvdisasm", "readelf", "strip", "valgrind"}
_TOOLS |= {"aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64"}
_STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
FEATURES, CODE, PROCESS, WHOLE_FILE = "features", "code", "process", "whole file"
_seen: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("asking")
    group.addoption("--same-with-less", type=Path, help="write what needs no second run here")
    group.addoption("--but", type=Path, help="leave out the tests that are listed here")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--same-with-less") and not config.getoption("lf"):
        _listen()
        config.pluginmanager.register(Recorder(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (path := config.getoption("--but")) is None or not path.exists():
        return
    known = set(json.loads(path.read_text() or "[]"))
    out = [item for item in items if item.nodeid in known]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item.nodeid not in known]


def _listen() -> None:
    """From here on, what asks is noted."""
    from tvmconv.machines import gate, host
    from tvmconv.measuring import host as header

    def noting(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            _seen.add(kind)
            return function(*arguments, **options)

        return noted

    missing = gate._missing

    def lacking(needed: Iterable[str]) -> tuple[str, ...]:
        needed = set(needed)
        with unnoted():
            result = missing(needed)
        if any(name.startswith(HIDDEN) for name in needed):
            _seen.add(CODE)
        return result

    def told() -> frozenset[str]:
        with unnoted():
            return host.host_features()

    gate._missing = lacking
    # a saved bench's statement about its host is compared with nothing
    header.host_features = told
    host._hidden_features = noting(host._hidden_features, FEATURES)
    BaseProcess.start = noting(BaseProcess.start, PROCESS)
    sys.addaudithook(_starting)


@contextmanager
def unnoted() -> Iterator[None]:
    """Questions asked in here change no result of a test."""
    before = set(_seen)
    try:
        yield
    finally:
        _seen.intersection_update(before)


def _starting(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _STARTS or (event == "subprocess.Popen" and _asks(arguments[1], arguments[3])):
        _seen.add(PROCESS)


def _asks(command: Any, environment: Any) -> bool:
    if environment is not None and environment.get("TVMCONV_HIDE_FEATURES") == HIDDEN:
        return False
    words = [command] if isinstance(command, str | bytes | os.PathLike) else [*command, ""]
    return Path(os.fsdecode(words[0])).name not in _TOOLS


class Recorder:
    """Collects what tests asked for in the workers, and writes it where the reports arrive."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.files: set[str] = set()
        self.fixtures: dict[Any, set[str]] = {}
        self.passed: set[str] = set()
        self.asking: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        _seen.clear()
        report = yield
        if isinstance(collector, pytest.Module) and (_seen or _has_host(collector.obj)):
            self.files.add(_file(collector.nodeid))
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = set(_seen)
        _seen.clear()
        try:
            return (yield)
        finally:
            self.fixtures[fixturedef] = set(_seen)
            _seen.update(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        _seen.clear()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        report = yield
        found = set(_seen)
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            found.update(*(self.fixtures.get(each, ()) for each in definitions))
        if item.get_closest_marker("any_processor"):
            found.discard(PROCESS)
        if _file(item.nodeid) in self.files or (FEATURES in found and _has_cache(item.module)):
            found.add(WHOLE_FILE)
        report.user_properties = [*report.user_properties, ("asks", sorted(found))]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        asks = dict(report.user_properties).get("asks", [WHOLE_FILE])
        if asks or not report.passed:
            self.asking.add(report.nodeid)
        if WHOLE_FILE in asks:
            self.files.add(_file(report.nodeid))
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workerinput"):
            return
        same = {n for n in self.passed - self.asking if _file(n) not in self.files}
        self.config.getoption("--same-with-less").write_text(json.dumps(sorted(same)))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _has_host(module: ModuleType) -> bool:
    """Whether a file, or one in the tests that it took a name from, holds ``HOST``."""
    homes = {
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        for value in vars(module).values()
    }
    others = [sys.modules[n] for n in homes if n in sys.modules and str(n).startswith("tests.")]
    return any(hasattr(each, "HOST") for each in (module, *others))


def _has_cache(module: ModuleType) -> bool:
    """Whether a file holds functions that keep what they returned."""
    return any(hasattr(value, "cache_clear") for value in vars(module).values())
