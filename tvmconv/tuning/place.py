"""Where a candidate's kernels run: in their own process, or on a device of an RPC tracker."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

_LEAST_SECONDS = 1e-7


class Place(Protocol):
    """Memory, calls and times of one device; kernels go by their number."""

    def tensors(self, arrays: Sequence[npt.NDArray[Any]]) -> list[Any]:
        """Copies of float32 arrays on the device."""

    def call(self, number: int, tensors: Sequence[Any]) -> None:
        """Run a kernel once."""

    def time(
        self, number: int, tensors: Sequence[Any], samples: int, seconds: float
    ) -> list[float]:
        """Seconds of one call: ``samples`` of them, each the mean of ``seconds`` or more."""


def make_place(remote: Mapping[str, Any] | None, modules: Sequence[Any], threads: int) -> Place:
    """This process, or the device that ``remote`` (``host``, ``port``, ``key``) names."""
    return Remote(remote, modules, threads) if remote else Local(modules, threads)


class Local:
    """This process."""

    def __init__(self, modules: Sequence[Any], threads: int) -> None:
        self._functions = [module["main"] for module in modules]
        self._threads = threads

    def tensors(self, arrays: Sequence[npt.NDArray[Any]]) -> list[Any]:
        """See :class:`Place`."""
        import tvm

        return [tvm.runtime.tensor(np.ascontiguousarray(a, np.float32)) for a in arrays]

    def call(self, number: int, tensors: Sequence[Any]) -> None:
        """See :class:`Place`."""
        from tvmconv.runtime.threads import call

        call(self._threads, self._functions[number], *tensors)

    def time(
        self, number: int, tensors: Sequence[Any], samples: int, seconds: float
    ) -> list[float]:
        """See :class:`Place`."""

        def run() -> None:
            self.call(number, tensors)

        run()
        count = max(1, round(seconds / max(_elapsed(run, 1), _LEAST_SECONDS)))
        return [_elapsed(run, count) / count for _ in range(samples)]


class Remote:
    """A device of TVM's RPC tracker; it is asked for when the first tensor is made."""

    def __init__(self, remote: Mapping[str, Any], modules: Sequence[Any], threads: int) -> None:
        self._remote = remote
        self._modules = modules
        self._threads = threads
        self._session: Any = None
        self._functions: list[Any] = []
        self._loaded: list[Any] = []

    def tensors(self, arrays: Sequence[npt.NDArray[Any]]) -> list[Any]:
        """See :class:`Place`."""
        import tvm

        self._open()
        device = self._session.cpu(0)
        return [tvm.runtime.tensor(np.ascontiguousarray(a, np.float32), device) for a in arrays]

    def call(self, number: int, tensors: Sequence[Any]) -> None:
        """See :class:`Place`."""
        self._functions[number](*tensors)

    def time(
        self, number: int, tensors: Sequence[Any], samples: int, seconds: float
    ) -> list[float]:
        """See :class:`Place`; the device's clock, without the network."""
        device = self._session.cpu(0)
        module = self._loaded[number]
        (once,) = module.time_evaluator("main", device, number=1, repeat=1)(*tensors).results
        count = max(1, round(seconds / max(once, _LEAST_SECONDS)))
        taken = module.time_evaluator("main", device, number=count, repeat=samples)(*tensors)
        return [float(value) for value in taken.results]

    def _open(self) -> None:
        """Request the device and send the kernels as shared objects."""
        if self._session is not None:
            return
        from tvm import rpc

        where = self._remote
        tracker = rpc.connect_tracker(where["host"], int(where["port"]))
        self._session = tracker.request(
            where["key"], session_timeout=float(where["session_seconds"])
        )
        with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
            for number, module in enumerate(self._modules):
                path = Path(folder) / f"candidate{number}.so"
                module.export_library(str(path))
                self._session.upload(str(path))
                self._loaded.append(self._session.load_module(path.name))
                self._functions.append(self._loaded[-1]["main"])
        configure = self._session.get_function("runtime.config_threadpool")
        configure(1, self._threads)


def _elapsed(call: Callable[[], None], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return time.perf_counter() - start
