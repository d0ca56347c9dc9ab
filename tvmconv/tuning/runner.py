"""Where a candidate's kernels run: in their own process, or on a device of an RPC tracker.

Times are taken as in a network: activations are in the caches, weights come from memory. Repeated
calls with the same weights would keep the weights in the cache, and favor the wrong kernels where
weights are large.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tvmconv.machines.gate import GuardedCode
from tvmconv.machines.record import Machine
from tvmconv.measuring.host import pick_cpus
from tvmconv.tvm_api.types import DeviceTensor, Module

_LEAST_SECONDS = 1e-7
# copies of the weight, in sizes of the last-level cache; small weights cost next to nothing
_EVICTING = 1.5
_MOST_COPIES = 256
# flushing takes longer than calling a small kernel
_MOST_REPEATS = 32
_FLUSH = "cache_flush_cpu_non_first_arg"


def stay(threads: int) -> None:
    """Keep this process on the CPUs of a measurement with so many threads.

    Interleaved kernels must share their CPUs: on a shared host, a neighbor may use the other
    hardware thread of one core only.
    """
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, pick_cpus(threads))


class CandidateRunner(Protocol):
    """Memory, calls and times of one device; kernels go by their number.

    ``shared`` devices may be requested by others, and wait for their turn. ``spill_bytes`` is what
    threads of the kernels spill according to nvcc, 0 on CPUs.
    """

    shared: bool
    spill_bytes: int

    def tensors(self, arrays: Sequence[npt.NDArray[Any]]) -> list[DeviceTensor]:
        """Copies of arrays on the device."""

    def call(self, number: int, tensors: Sequence[DeviceTensor]) -> None:
        """Run a kernel once."""

    def time(
        self, number: int, tensors: Sequence[DeviceTensor], samples: int, seconds: float
    ) -> list[float]:
        """Seconds of one call: ``samples`` of them, each the mean of ``seconds`` or more.

        The second tensor is the packed weight, which every call finds in memory.
        """


def make_runner(
    remote: Mapping[str, Any] | None, modules: Sequence[GuardedCode], machine: Machine
) -> CandidateRunner:
    """This process, or the device that ``remote`` (``host``, ``port``, ``key``) names."""
    if remote:
        return RemoteRunner(remote, modules, machine)
    return LocalRunner(modules, machine.cores, machine.last_cache_bytes)


class LocalRunner:
    """This process; ``cache_bytes`` is the size of its last-level cache."""

    shared, spill_bytes = False, 0

    def __init__(self, modules: Sequence[GuardedCode], threads: int, cache_bytes: int) -> None:
        self._functions = [module["main"] for module in modules]
        self._threads = threads
        self._cache_bytes = cache_bytes
        self._rings: dict[int, _Ring] = {}
        self._counts: dict[tuple[int, float], int] = {}

    def tensors(self, arrays: Sequence[npt.NDArray[Any]]) -> list[DeviceTensor]:
        """See :class:`CandidateRunner`."""
        from tvmconv.tvm_api import runtime

        return [runtime.tensor(np.ascontiguousarray(a)) for a in arrays]

    def call(self, number: int, tensors: Sequence[DeviceTensor]) -> None:
        """See :class:`CandidateRunner`."""
        from tvmconv.tvm_runtime.threads import call

        call(self._threads, self._functions[number], *tensors)

    def time(
        self, number: int, tensors: Sequence[DeviceTensor], samples: int, seconds: float
    ) -> list[float]:
        """See :class:`CandidateRunner`."""
        ring = self._rings.get(number)
        if ring is None or ring.tensors is not tensors:
            ring = self._rings[number] = _Ring(tensors, self._cache_bytes)

        def run() -> None:
            self.call(number, next(ring.arguments))

        # not timed: another process may have filled the caches
        run()
        count = self._counts.get((number, seconds))
        if count is None:
            once = min(_elapsed(run, 1) for _ in range(2))
            count = max(1, round(seconds / max(once, _LEAST_SECONDS)))
            self._counts[number, seconds] = count
        return [_elapsed(run, count) / count for _ in range(samples)]


class _Ring:
    """The arguments of a kernel, with more copies of its weight than a cache holds."""

    def __init__(self, tensors: Sequence[DeviceTensor], cache_bytes: int) -> None:
        from tvmconv.tvm_api import runtime

        self.tensors = tensors
        first, weight, *rest = tensors
        values = weight.numpy()
        count = min(_MOST_COPIES, 1 + int(_EVICTING * cache_bytes) // values.nbytes)
        copies = [weight, *(runtime.tensor(values) for _ in range(count - 1))]
        self.arguments = cycle([(first, copy, *rest) for copy in copies])


class RemoteRunner:
    """A device of TVM's RPC tracker; it is requested for the first tensor.

    This host cannot know the features of the device: a candidate that dies there counts as crashed.
    """

    shared, spill_bytes = True, 0

    def __init__(
        self, remote: Mapping[str, Any], modules: Sequence[GuardedCode], machine: Machine
    ) -> None:
        self._remote = remote
        self._modules = modules
        self._machine = machine
        self._session: Any = None
        self._functions: list[Callable[..., Any]] = []
        self._loaded: list[Module] = []

    def tensors(self, arrays: Sequence[npt.NDArray[Any]]) -> list[DeviceTensor]:
        """See :class:`CandidateRunner`."""
        from tvmconv.tvm_api import runtime

        self._open()
        device = self._session.cpu(0)
        return [runtime.tensor(np.ascontiguousarray(a), device) for a in arrays]

    def call(self, number: int, tensors: Sequence[DeviceTensor]) -> None:
        """See :class:`CandidateRunner`."""
        self._functions[number](*tensors)

    def time(
        self, number: int, tensors: Sequence[DeviceTensor], samples: int, seconds: float
    ) -> list[float]:
        """See :class:`CandidateRunner`; the device's clock, without the network.

        All tensors but the first are flushed from the device's caches before a call.
        """
        device = self._session.cpu(0)
        module = self._loaded[number]

        def evaluate(repeat: int) -> list[float]:
            evaluator = module.time_evaluator(
                "main", device, number=1, repeat=repeat, f_preproc=_FLUSH
            )
            return [float(value) for value in evaluator(*tensors).results]

        (once,) = evaluate(1)
        count = min(_MOST_REPEATS, max(1, round(seconds / max(once, _LEAST_SECONDS))))
        taken = evaluate(count * samples)
        return [sum(taken[i::samples]) / count for i in range(samples)]

    def _open(self) -> None:
        """Request the device and send the kernels as shared objects."""
        if self._session is not None:
            return
        from tvmconv.compile.toolchain import Toolchain

        toolchain = Toolchain.find(triple=self._machine.triple)
        self._session = session_of(self._remote)
        with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
            for number, module in enumerate(self._modules):
                path = Path(folder) / f"candidate{number}.so"
                module.export_library(path, toolchain.share)
                self._session.upload(str(path))
                self._loaded.append(self._session.load_module(path.name))
                self._functions.append(self._loaded[-1]["main"])
        configure = self._session.get_function("runtime.config_threadpool")
        configure(1, self._machine.cores)


def session_of(remote: Mapping[str, Any]) -> Any:
    """A session with a device of a tracker (``host``, ``port``, ``key``, ``session_seconds``)."""
    from tvmconv.tvm_api.runtime import rpc

    tracker = rpc.connect_tracker(remote["host"], int(remote["port"]))
    return tracker.request(remote["key"], session_timeout=float(remote["session_seconds"]))


def _elapsed(call: Callable[[], None], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return time.perf_counter() - start
