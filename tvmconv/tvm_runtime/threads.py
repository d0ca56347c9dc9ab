"""How many threads a kernel uses in TVM's runtime, and where they run.

TVM keeps one pool of workers per calling thread. The first use makes the pool, by default with half
the CPUs; the number of workers can only be reduced later. TVM binds each worker to the CPU of its
own number, and overwrites the affinity of the calling thread. tvmconv therefore makes the pool
itself, with the workers that the kernel needs and without binding. Workers inherit the caller's
affinity, so that ``taskset`` and container limits hold, and callers do not share one CPU.

TVM's environment variables keep their meaning:

- ``TVM_NUM_THREADS`` limits the threads.
- ``TVM_BIND_THREADS=1`` binds worker i to the i-th allowed CPU. Threads that tvmconv makes to call
  kernels are bound to the first one.
- ``TVM_THREAD_POOL_SPIN_COUNT`` says how long an idle worker polls before it sleeps.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tvmconv.machines.host import host_cores
from tvmconv.runtime import forks
from tvmconv.tvm_runtime.environment import set_environment_defaults

Result = TypeVar("Result")

# affinity modes of TVM's pool
_ONE_CPU_PER_THREAD = -2
_SHARE_CPUS = -3


class _Caller(threading.local):
    """State of the calling thread's pool."""

    def __init__(self) -> None:
        self.requested = 0
        self.refused = 0
        self.workers = 0
        self.inherited = False
        self.helpers: dict[int, ThreadPoolExecutor] = {}


_caller = _Caller()
_running = forks.native()


def _after_fork() -> None:
    # the child has the pool's memory but not its threads: only a fresh thread gets a live pool
    _caller.__init__()  # type: ignore[misc]
    _caller.inherited = True


os.register_at_fork(after_in_child=_after_fork)


def available_cpus() -> int:
    """CPUs that this process may use: affinity, control-group quota and ``TVM_NUM_THREADS``."""
    limits = [host_cores()]
    if (text := os.environ.get("TVM_NUM_THREADS", "")).isdigit():
        limits.append(int(text))
    return max(1, min(limits))


def activate(threads: int) -> bool:
    """Let parallel kernels that the calling thread starts use ``threads`` threads.

    At most :func:`available_cpus` are used: workers poll, and more of them than CPUs would wait for
    each other. Returns False if this thread's pool, made earlier by someone else, is too small;
    :func:`call` goes through another thread then.
    """
    if _caller.requested == threads:
        return True
    if _caller.refused == threads:
        return False
    from tvmconv.tvm_runtime.engine import global_function

    used = min(threads, available_cpus())
    if _caller.inherited and used > 1:
        _caller.refused = threads
        return False
    cpus = sorted(os.sched_getaffinity(0))
    if _caller.workers == 0:
        # the main thread serves every kernel of a script: let its pool reach all CPUs
        main = threading.current_thread() is threading.main_thread()
        _caller.workers = max(used, len(cpus) if main else 1)
    mode = _ONE_CPU_PER_THREAD if _bound() else _SHARE_CPUS
    names = [str(cpus[i % len(cpus)]) for i in range(max(_caller.workers, used))]
    global_function("runtime.config_threadpool")(mode, used, names)
    _caller.requested = 0
    if global_function("runtime.NumThreads")() != used:
        _caller.refused = threads
        return False
    _caller.requested = threads
    return True


def prepare(threads: int) -> None:
    """Make the calling thread's pool before TVM's compiler can make a smaller one."""
    set_environment_defaults()
    with _running:
        activate(threads)


def call(threads: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """Run ``function`` with ``threads`` threads for its parallel kernels."""
    with _running:
        if activate(threads):
            return function(*arguments)
    helper = _caller.helpers.get(threads)
    if helper is None:
        helper = ThreadPoolExecutor(1, "tvmconv", initializer=_become_caller, initargs=(threads,))
        _caller.helpers[threads] = helper
    return helper.submit(_announced, function, *arguments).result()


def repeated(
    threads: int, function: Callable[..., Result], *arguments: Any
) -> Callable[[], Result]:
    """The same as :func:`call` for measurements: forks do not wait for it.

    Announcing a call to forks takes longer than the smallest kernels do.
    """

    def run() -> Result:
        return function(*arguments) if activate(threads) else call(threads, function, *arguments)

    return run


def _announced(function: Callable[..., Result], *arguments: Any) -> Result:
    with _running:
        return function(*arguments)


def _bound() -> bool:
    return os.environ.get("TVM_BIND_THREADS") == "1"


def _become_caller(threads: int) -> None:
    """Set up a thread that only calls kernels; it does the work of worker 0."""
    first = min(os.sched_getaffinity(0))
    activate(threads)
    if _bound() and threads > 1:
        os.sched_setaffinity(0, {first})
