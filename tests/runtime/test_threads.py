"""Thread counts that are really used, and calls from several threads and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import observe
import programs
import pytest

from tvmconv.model import CompiledModel, load

needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="this process may use one CPU only"
)


def busy_input() -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.standard_normal((programs.BUSY_ROWS, programs.BUSY_LENGTH)).astype("float32")


@pytest.fixture(scope="module")
def busy(busy_files: dict[int, Path]) -> dict[int, CompiledModel]:
    return {count: load(path) for count, path in busy_files.items()}


def in_fresh_process(code: str, *arguments: object) -> str:
    lines = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import numpy as np, observe, programs\nfrom tvmconv.model import load\n"
        "x = np.ones((programs.BUSY_ROWS, programs.BUSY_LENGTH), 'float32')\n" + code
    )
    command = [sys.executable, "-c", lines, *map(str, arguments)]
    own = ("TVM_BIND_THREADS", "TVM_THREAD_POOL_SPIN_COUNT")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@needs_two_cpus
def test_every_module_uses_its_own_count(busy: dict[int, CompiledModel]) -> None:
    x = busy_input()
    expected = programs.BUSY_TIMES * (x.astype(np.float64) ** 2).sum(axis=1)
    for count in (1, 2, 1):
        np.testing.assert_allclose(busy[count].run(x)[0], expected, rtol=1e-2)
        assert observe.threads_used(busy[count].bind([x]), count) == count


@needs_two_cpus
def test_another_calling_thread_uses_the_same_count(busy: dict[int, CompiledModel]) -> None:
    x = busy_input()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: observe.threads_used(busy[2].bind([x]), 2)).result() == 2


@needs_two_cpus
def test_threads_that_were_woken_may_use_every_cpu(busy_files: dict[int, Path]) -> None:
    code = """
import os, time
from pathlib import Path
before = set(os.listdir('/proc/self/task'))
call = load(sys.argv[1]).bind([x])
call()
workers = [int(task) for task in set(os.listdir('/proc/self/task')) - before]
def asleep(task):
    return Path(f'/proc/self/task/{task}/stat').read_text().rpartition(')')[2].split()[0] == 'S'
masks = []
for _ in range(20):
    while not all(map(asleep, workers)):
        time.sleep(0.001)
    call()
    masks += [os.sched_getaffinity(task) == os.sched_getaffinity(0) for task in workers]
print(len(workers), all(masks))
"""
    assert in_fresh_process(code, busy_files[2]) == "1 True"


def test_no_more_threads_than_cpus(busy_files: dict[int, Path]) -> None:
    code = """
import os
cpu = max(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpu})
others = set(os.listdir("/proc/self/task")) - {str(os.getpid())}  # numpy's
model = load(sys.argv[1])
used = observe.threads_used(model.bind([x]))
tasks = [os.sched_getaffinity(int(t)) for t in set(os.listdir("/proc/self/task")) - others]
print(used, all(mask == {cpu} for mask in tasks))
"""
    assert in_fresh_process(code, busy_files[2]) == "1 True"


@needs_two_cpus
def test_affinity_of_the_caller_is_kept(busy_files: dict[int, Path]) -> None:
    code = """
import os
before = os.sched_getaffinity(0)
for path in sys.argv[1:3]:
    model = load(path)
    model.run(x)
print(os.sched_getaffinity(0) == before)
"""
    assert in_fresh_process(code, busy_files[1], busy_files[2]) == "True"


@needs_two_cpus
def test_a_bound_caller_of_our_own_shares_no_cpu_with_a_worker() -> None:
    code = """
import os
os.environ["TVM_BIND_THREADS"] = "1"
from tvmconv.tvm_runtime import threads
from tvmconv.tvm_runtime.environment import set_environment_defaults
set_environment_defaults()
if os.fork() == 0:
    masks = threads.call(2, lambda: [
        os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")
    ])
    allowed = sorted(os.sched_getaffinity(0))
    print({allowed[0]} in masks and {allowed[1]} in masks, flush=True)
    os._exit(0)
os.wait()
"""
    assert in_fresh_process(code) == "True"


@pytest.mark.parametrize("variable", ["TVMCONV_NUM_THREADS", "TVM_NUM_THREADS"])
def test_environment_limits_the_count(busy_files: dict[int, Path], variable: str) -> None:
    code = """
import os
os.environ[sys.argv[2]] = "1"
model = load(sys.argv[1])
print(observe.threads_used(model.bind([x])))
"""
    assert in_fresh_process(code, busy_files[2], variable) == "1"


@needs_two_cpus
def test_after_fork(busy_files: dict[int, Path]) -> None:
    """A forked child has the parent's pool but none of its threads, and would wait forever."""
    code = """
import os, signal
model = load(sys.argv[1])
expected = model.run(x)[0]
child = os.fork()
if child == 0:
    signal.alarm(60)
    same = np.array_equal(model.run(x)[0], expected)
    used = observe.threads_used(model.bind([x]), 2)
    os._exit(0 if same and used == 2 else 10 + used)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), np.array_equal(model.run(x)[0], expected))
"""
    assert in_fresh_process(code, busy_files[2]) == "0 True"


def test_many_threads_call_one_module(dense: CompiledModel) -> None:
    inputs = [programs.dense_inputs(seed) for seed in range(8)]
    expected = [dense.run(values) for values in inputs]
    start = threading.Barrier(8, timeout=60)

    def work(index: int) -> bool:
        start.wait()
        return all(
            np.array_equal(a, b)
            for _ in range(100)
            for a, b in zip(expected[index], dense.run(inputs[index]), strict=True)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_many_threads_call_modules_of_two_counts(busy: dict[int, CompiledModel]) -> None:
    x = busy_input()
    expected = busy[1].run(x)[0]

    def work(index: int) -> bool:
        return all(np.array_equal(expected, busy[1 + (index + i) % 2].run(x)[0]) for i in range(10))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_first_calls_may_come_together(saved: Path) -> None:
    model = load(saved)
    inputs = programs.dense_inputs()
    start = threading.Barrier(8, timeout=60)

    def work(_: int) -> np.ndarray:
        start.wait()
        return model.run(inputs)[0]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert all(np.array_equal(results[0], other) for other in results)


def test_workers_sleep_between_calls(busy: dict[int, CompiledModel]) -> None:
    """Polling for a few microseconds bridges two kernels; more would take a CPU from others."""
    x = busy_input()
    busy[2].run(x)
    time.sleep(0.2)
    before = sum(observe.cpu_seconds().values())
    time.sleep(0.2)
    assert sum(observe.cpu_seconds().values()) - before < 0.05
