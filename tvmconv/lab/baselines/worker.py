"""One baseline in one process: ``worker.py ADAPTER [THREADS]``, JSON lines in and out.

Requests and answers::

    {"do": "hello"}                                   {"version": "1.2.3"}
    {"do": "prepare", "folder": F, "options": {...},  {"error": e, "info": s, "first_seconds": t,
     "write": PATH or null, "slot": NAME}              "operations": n or null, "facts": {...},
                                                       "stages": [...], "warms": bool,
                                                       "colds": bool}
    {"do": "time", "seconds": s, "calls": n,          {"samples": [seconds of calls],
     "slot": NAME, "stage": NAME or null,              "wall_seconds": t, "cpu_seconds": t}
     "cache_bytes": n, "warm": bool}
    {"do": "count", "folder": F, "section": n}        {"error": e, "facts": {...}, "info": s}
    {"do": "drop", "slot": NAME}                      {}
    anything that fails                               {"failure": "..."}, {"unsupported": "..."},
                                                      or {"absent": "..."} without the library;
                                                      "broken": true where the adapter says that
                                                      nothing can follow in this process

``write`` stores the outputs as the reference, instead of comparing them.
A process can hold several prepared cases, one a slot. With ``cache_bytes`` everything is evicted
from caches of that size before each call; ``warm`` then restores the activations. With the option
``streams``, so many calls run at the same time, and ``"rate"`` is the number of calls in a second.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGE = "tvmconv_peers"
_PR_SET_PDEATHSIG = 1
_MAX_SAMPLES = 1000
# so many calls are saved, evenly ranked by their times
_KEPT_SAMPLES = 65


def _register_package() -> None:
    """Make this folder a package of a private name, without an installed tvmconv."""
    if _PACKAGE in sys.modules:
        return
    here = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    spec.loader.exec_module(package)


def load_sibling(name: str) -> ModuleType:
    """Import a module of this folder."""
    _register_package()
    return importlib.import_module(f"{_PACKAGE}.{name}")


def load_adapter(name: str) -> ModuleType:
    """Import an adapter of this folder, or a file elsewhere, which may import its helpers."""
    _register_package()
    if name.endswith(".py"):
        spec = importlib.util.spec_from_file_location(f"{_PACKAGE}.{Path(name).stem}", name)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)
        return module
    return load_sibling(name)


class Worker:
    """Answers requests with one adapter."""

    def __init__(self, adapter: ModuleType, threads: int) -> None:
        self.adapter = adapter
        self.threads = threads
        self.sessions: dict[str, Any] = {}
        self.evict: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One answer; an adapter's exception becomes a ``failure``."""
        actions: dict[str, Callable[..., dict[str, Any]]] = {
            "hello": self.hello,
            "prepare": self.prepare,
            "time": self.time,
            "export": self.export,
            "load": self.load,
            "count": self.count,
            "drop": self.drop,
        }
        unsupported = load_sibling("case").Unsupported
        try:
            return actions[request.pop("do")](**request)
        except unsupported as error:
            return {"unsupported": str(error)}
        except ImportError as error:
            return {"absent": str(error)}
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            broken = getattr(self.adapter, "broken", None)
            return {"failure": text[:300], **({"broken": True} if broken and broken() else {})}

    def hello(self) -> dict[str, Any]:
        """The library's version."""
        return {"version": str(self.adapter.version())}

    def prepare(
        self, folder: str, options: dict[str, Any], write: str | None, slot: str = ""
    ) -> dict[str, Any]:
        """Build a case and check its outputs against the reference."""
        self.drop(slot)
        session, facts, error = self._checked(Path(folder), options, write)
        start = time.perf_counter()
        session.run()
        first = time.perf_counter() - start
        self.sessions[slot] = session
        return {
            "error": error,
            "info": session.info,
            "first_seconds": first,
            "operations": session.operations,
            "facts": facts,
            "stages": list(session.stages),
            "warms": session.warm is not None,
            "colds": session.colds,
        }

    def _checked(
        self, path: Path, options: dict[str, Any], write: str | None = None
    ) -> tuple[Any, dict[str, Any], float | None]:
        """A case after its first call, with facts, and the error of its outputs."""
        import numpy as np

        case_module = load_sibling("case")
        session = self.adapter.prepare(case_module.read_case(path, options), self.threads)
        if options.get("streams") and not session.callers:
            raise case_module.Unsupported("this adapter has no calls at the same time")
        growth = load_sibling("loading").Growth() if options.get("memory") else None
        session.run()
        facts = dict(session.facts)
        if growth:
            facts["call_bytes"] = growth.peak()
        outputs = session.outputs()
        error = None
        if write:
            np.savez(write, **outputs)
        elif outputs:
            reference = case_module.read_reference(path)
            error = case_module.relative_error(outputs, reference)
            if (share := case_module.differing(outputs, reference)) is not None:
                facts["differing"] = share
        return session, facts, error

    def count(self, folder: str, section: int) -> dict[str, Any]:
        """Check a case and call it in a section of the counting plugin, see ``counted.py``."""
        session, facts, error = self._checked(Path(folder), {})
        load_sibling("counted").call(session.run, section)
        return {"error": error, "facts": facts, "info": session.info}

    def export(self, folder: str, options: dict[str, Any]) -> dict[str, Any]:
        """Write the file that the library loads."""
        case = load_sibling("case").read_case(Path(folder), options)
        return {"exported": load_sibling("loading").export(self.adapter, case, self.threads)}

    def load(
        self, folder: str, options: dict[str, Any], exported: dict[str, Any]
    ) -> dict[str, Any]:
        """Load such a file, call it once and check its outputs; the first request of a process."""
        case_module = load_sibling("case")
        case = case_module.read_case(Path(folder), options)
        reference = case_module.read_reference(Path(folder))
        loading = load_sibling("loading")
        session, facts = loading.load(self.adapter, case, self.threads, exported)
        return {"facts": facts, "error": case_module.relative_error(session.outputs(), reference)}

    def time(
        self,
        seconds: float,
        calls: int,
        slot: str = "",
        stage: str | None = None,
        cache_bytes: int = 0,
        warm: bool = False,
    ) -> dict[str, Any]:
        """Time single calls for some seconds, and at least ``calls`` of them."""
        if slot not in self.sessions:
            raise RuntimeError("the process ended after this was prepared")
        session = self.sessions[slot]
        if session.callers:
            return self._together(session.callers, seconds, calls)
        run = session.stages[stage] if stage else session.run
        if session.sampler:
            one: Callable[[], float] = partial(_sampled, session.sampler, run, cache_bytes)
        else:
            one = self._cold(run, session.warm if warm else None, cache_bytes)
        clock = time.perf_counter
        samples: list[float] = []
        begin, busy = clock(), time.process_time()
        end = begin + seconds
        while len(samples) < calls or (clock() < end and len(samples) < _MAX_SAMPLES):
            samples.append(round(one(), 9))
        return {
            "samples": _thinned(samples),
            "wall_seconds": clock() - begin,
            "cpu_seconds": time.process_time() - busy,
        }

    def _together(self, callers: Any, seconds: float, calls: int) -> dict[str, Any]:
        """Time calls from several threads."""
        begin, busy = time.perf_counter(), time.process_time()
        samples, rate = load_sibling("together").time_together(callers, seconds, calls)
        return {
            "samples": _thinned(samples),
            "rate": rate,
            "wall_seconds": time.perf_counter() - begin,
            "cpu_seconds": time.process_time() - busy,
        }

    def _cold(self, run: Any, warm: Any, cache_bytes: int) -> Callable[[], float]:
        """One timed call, warm or after an eviction."""
        if cache_bytes:
            cold = load_sibling("cold")
            self.evict = self.evict or cold.Eviction(cache_bytes)
            return lambda: float(cold.cold_call(run, self.evict, warm))
        clock = time.perf_counter

        def one() -> float:
            start = clock()
            run()
            return clock() - start

        return one

    def drop(self, slot: str = "") -> dict[str, Any]:
        """Free a prepared case."""
        self.sessions.pop(slot, None)
        gc.collect()
        return {}


def _sampled(sampler: Any, run: Any, cache_bytes: int) -> float:
    """One sample by the session's own clock."""
    return float(sampler(run, 1, cache_bytes)[0])


def _thinned(samples: list[float]) -> list[float]:
    """All samples, or the minimum, the maximum and evenly ranked samples between them."""
    if len(samples) <= _KEPT_SAMPLES:
        return samples
    ranked, last = sorted(samples), _KEPT_SAMPLES - 1
    return [ranked[round(i * (len(ranked) - 1) / last)] for i in range(_KEPT_SAMPLES)]


def main() -> None:
    """Serve requests until standard input closes."""
    # The protocol keeps the real standard output; text that a library prints goes to stderr.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # The script's folder must not shadow real packages with adapter files.
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    # while it is stopped, it would not see that standard input closed
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    worker: Worker | None = None
    for line in sys.stdin:
        try:
            worker = worker or Worker(load_adapter(sys.argv[1]), threads)
            reply = worker.answer(json.loads(line))
        except ImportError as error:
            reply = {"absent": str(error)}
        channel.write(json.dumps(reply) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
