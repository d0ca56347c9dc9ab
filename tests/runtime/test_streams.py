"""Calls from a queue: values, errors, bound streams, forks, and the end of models and processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import programs
import pytest

import tvmconv
from tests.test_several_shapes import WIDTHS, network
from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.model import CompiledModel, load
from tvmconv.runtime import portable
from tvmconv.runtime.binding import State
from tvmconv.runtime.streams import plan_streams

ROOT = Path(__file__).parents[2]
ALLOWED = sorted(os.sched_getaffinity(0))


def stream_threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("tvmconv-stream")}


def in_fresh_process(code: str, path: Path) -> str:
    lines = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import os, signal, numpy as np, programs\nfrom tvmconv.model import load\n"
        "signal.alarm(60)\nmodel = load(sys.argv[1])\nx = programs.dense_inputs()\n" + code
    )
    done = subprocess.run(
        [sys.executable, "-c", lines, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_values_and_errors_are_in_futures(saved: Path) -> None:
    for model in (load(saved), portable.load(saved)):
        inputs = [programs.dense_inputs(seed) for seed in range(20)]
        futures = [model.submit(each) for each in inputs]
        assert all(isinstance(future, Future) for future in futures)
        for each, future in zip(inputs, futures, strict=True):
            assert all(map(np.array_equal, future.result(60), model.run(each)))
        with pytest.raises(InputError, match="missing"):
            model.submit({"x": inputs[0]["x"]}).result(60)
        bad = inputs[0] | {"y": np.zeros(3, "float32")}
        with pytest.raises(InputError, match="'y'"):
            model.submit(bad).result(60)
        assert model.submit(inputs[0]).exception(60) is None


def test_streams_have_a_number_and_an_end(dense: CompiledModel) -> None:
    before = stream_threads()
    start = threading.Barrier(3, timeout=60)
    with dense.streams(3) as streams:
        assert streams.count == 3 and streams.cpus == ()
        together = [streams._threads.submit(start.wait) for _ in range(3)]
        assert sorted(future.result(60) for future in together) == [0, 1, 2]
        assert len(stream_threads() - before) == 3
        waiting = [streams.submit(programs.dense_inputs()) for _ in range(50)]
    assert all(future.done() for future in waiting)
    assert stream_threads() <= before
    with pytest.raises(InputError, match="closed"):
        streams.submit(programs.dense_inputs())
    # a call that found the threads before another thread closed them
    closing = dense.streams(1)
    closing.submit(programs.dense_inputs()).result(60)
    pool = closing._threads._pool
    closing.close()
    closing._threads._pool = pool
    with pytest.raises(InputError, match="closed"):
        closing.submit(programs.dense_inputs())
    for count in (0, 1.5, 1 << 20):
        with pytest.raises(InputError, match="count"):
            dense.streams(count)  # type: ignore[arg-type]
    with dense.streams() as default:
        assert 1 <= default.count <= len(ALLOWED)


def test_plans() -> None:
    """Streams that are bound get the next CPUs, one for each thread."""
    cpus = (8, 9, 10, 11, 12)
    assert plan_streams(None, 2, cpus, True, False).bindings == ((8, 9), (10, 11))
    assert plan_streams(3, 2, cpus, True, False).bindings == ((8, 9), (10, 11), (12, 8))
    assert plan_streams(None, 8, cpus, True, False).bindings == (cpus,)
    assert plan_streams(None, 2, cpus, False, False).count == 2
    assert plan_streams(None, 1, cpus, False, True).count == 1


def test_bound_streams(busy_files: dict[int, Path]) -> None:
    """A stream and the threads of its state run on the stream's CPUs alone."""
    model = load(busy_files[2])
    x = np.ones((programs.BUSY_ROWS, programs.BUSY_LENGTH), "float32")
    expected = model.run(x)[0]
    cpu = ALLOWED[-1]

    def states() -> int:
        return sum(isinstance(each, State) for each in gc.get_objects())

    def tasks() -> set[str]:
        return {task.name for task in Path("/proc/self/task").iterdir()}

    before, made = tasks(), states()
    with model.streams(2, cpus=str(cpu)) as streams:
        assert streams.cpus == ((cpu,), (cpu,))
        for future in [streams.submit(x) for _ in range(4)]:
            assert np.array_equal(future.result(60)[0], expected)
        new = tasks() - before
        assert new and all(os.sched_getaffinity(int(task)) == {cpu} for task in new)
        assert states() > made
    assert os.sched_getaffinity(0) == set(ALLOWED)
    assert states() == made
    for text in ("fast", "", "node:77", "60000", 3):
        with pytest.raises(InputError, match=r"names no CPU.*'performance'"):
            model.streams(cpus=text)  # type: ignore[arg-type]
    with model.streams(cpus="performance") as streams:
        assert {c for cpus in streams.cpus for c in cpus} <= set(ALLOWED)


def test_models_of_before(dense: CompiledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    code = dense._ready()._code
    older = type(code._model).from_buffer_copy(code._model)
    older.size = type(older).cpus.offset
    monkeypatch.setattr(code, "_model", older)
    assert code.cpus(None) == tuple(ALLOWED)
    with pytest.raises(ArtifactError, match=r"older than cpus=.*build it again"):
        dense.streams(cpus="0")


def test_a_forked_child_has_streams_of_its_own(saved: Path) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
expected = model.run(x)[0]
futures = [model.submit(x) for _ in range(200)]
streams = model.streams(2)
futures.append(streams.submit(x))
for _ in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        right = all(np.array_equal(f.result()[0], expected)
                    for f in [model.submit(x) for _ in range(20)] + [streams.submit(x)])
        streams.close()
        sys.exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
print(all(np.array_equal(f.result()[0], expected) for f in futures))
"""
    assert in_fresh_process(code, saved) == "True"


def test_a_process_ends_after_its_calls(saved: Path) -> None:
    code = """
for _ in range(50):
    model.submit(x).add_done_callback(lambda future: os.write(1, b'.'))
"""
    assert in_fresh_process(code, saved) == "." * 50


def test_a_model_and_its_streams_are_collected(saved: Path) -> None:
    before = stream_threads()
    model = load(saved)
    inputs = programs.dense_inputs()
    assert model.submit(inputs).result(60)
    last = model.submit(inputs)
    collected = threading.Event()
    weakref.finalize(model, collected.set)
    del model
    last.result(60)
    assert collected.wait(60)
    deadline = time.monotonic() + 60
    while stream_threads() - before and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert stream_threads() <= before


@pytest.mark.slow
def test_many_calls_of_random_shapes() -> None:
    """100,000 calls from 8 threads: every value is right, and memory stays flat."""
    model = tvmconv.build(network(), shapes={"x": [(1, 4, 8, w) for w in WIDTHS[:2]]}, threads=1)
    generator = np.random.default_rng(0)
    inputs = [
        generator.standard_normal(program.inputs[0].shape).astype("float32")
        for program in model.programs
        for _ in range(4)
    ]
    expected = [model.run(x)[0] for x in inputs]

    def resident() -> int:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    with model.streams(4) as streams:

        def work(seed: int, calls: int) -> bool:
            own = np.random.default_rng(seed)
            right = True
            for _ in range(calls // 20):
                chosen = own.integers(len(inputs), size=20)
                futures = [streams.submit(inputs[i]) for i in chosen]
                results = [future.result(60)[0] for future in futures]
                right &= all(map(np.array_equal, results, [expected[i] for i in chosen]))
            return right

        with ThreadPoolExecutor(8) as callers:
            assert all(callers.map(work, range(8), [1000] * 8))
            before = resident()
            assert all(callers.map(work, range(8, 16), [12500] * 8))
    assert resident() - before < 8 << 20
