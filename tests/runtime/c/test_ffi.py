"""Models in TVM's own loader: functions on tensors, errors, threads, TVM's RPC."""

from __future__ import annotations

import gc
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

sys.path.insert(0, str(Path(__file__).parent))

import toolchain


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toolchain.toy(toolchain.compiler(), tmp_path_factory.mktemp("ffi") / "toy.so")


@pytest.fixture
def module(library: Path) -> Any:
    return tvm_ffi.load_module(str(library))


def arrays() -> list[np.ndarray]:
    image = np.random.default_rng(0).random((64, 256), np.float32)
    mask = np.arange(64, dtype=np.uint8) % 3
    return [image, mask, np.zeros(64, np.float32), np.zeros(32, np.float32)]


def tensors(*given: np.ndarray) -> list[Any]:
    return [tvm_ffi.from_dlpack(array) for array in given]


def check(given: list[np.ndarray]) -> None:
    image, mask, scores, half = given
    expected = (2 * image.astype(np.float64) + np.arange(256) / 4).sum(1) * mask
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    np.testing.assert_array_equal(half, scores[32:])


def test_run_and_profile(module: Any) -> None:
    given = arrays()
    module.main(*tensors(*given))
    check(given)
    given[2][...] = 0
    times = np.full(3, -1, np.int64)
    module.profile(*tensors(*given, times))
    check(given)
    assert (times >= 0).all()


def test_tensors_that_do_not_fit(module: Any) -> None:
    image, mask, scores, half = arrays()
    wrong: list[tuple[list[Any], str]] = [
        (tensors(image, mask, scores), "3 arguments given; the model has 2 inputs and 2 outputs"),
        (tensors(image[:32], mask, scores, half), r"image, has shape \(32, 256\); .* \(64, 256\)"),
        (tensors(image, mask[:, None], scores, half), r"mask, has shape \(64, 1\); .* \(64\)"),
        (tensors(image, scores, scores, half), "mask, is not of type uint8"),
        (tensors(np.asfortranarray(image), mask, scores, half), "image, is not dense"),
        (tensors(image, mask, scores, np.zeros(64, np.float32)[::2]), "half, is not dense"),
        ([None, *tensors(mask, scores, half)], "image, is not a tensor"),
    ]
    for given, message in wrong:
        with pytest.raises((TypeError, ValueError), match=message):
            module.main(*given)
    with pytest.raises(TypeError, match="times of its layers"):
        module.profile(*tensors(image, mask, scores, half))
    with pytest.raises(ValueError, match="nanoseconds, is not of type int64"):
        module.profile(*tensors(image, mask, scores, half, np.zeros(3, np.float64)))


def test_part_of_a_tensor(module: Any) -> None:
    given = arrays()
    whole = np.concatenate([given[0][:5], given[0]])
    module.main(*tensors(whole[5:], *given[1:]))
    check(given)


def test_failing_kernel(module: Any) -> None:
    given = arrays()
    given[0][0, 0] = 1e30
    with pytest.raises(RuntimeError, match="layer 0, mul scale, failed: toy_scale returned 7"):
        module.main(*tensors(*given))


def test_each_thread_has_a_state(module: Any) -> None:
    results: list[list[np.ndarray]] = []

    def work() -> None:
        given = arrays()
        for _ in range(50):
            module.main(*tensors(*given))
        results.append(given)

    for _ in range(3):
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 24
    for given in results:
        check(given)


def tasks() -> set[str]:
    return {path.name for path in Path("/proc/self/task").iterdir()}


def new_tasks(before: set[str]) -> set[str]:
    """Threads started since ``before``, once they are there: Python joins its threads before they
    end. For the same reason some of the earlier ones may end meanwhile."""
    end = time.monotonic() + 120
    while tasks() - before and time.monotonic() < end:
        time.sleep(0.01)
    return tasks() - before


def call(module: Any, given: list[np.ndarray]) -> None:
    module.main(*tensors(*given))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_states_end_with_their_thread_and_their_module(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.so"
    copy.write_bytes(library.read_bytes())
    before = tasks()
    module = tvm_ffi.load_module(str(copy), keep_module_alive=False)
    given = arrays()
    thread = threading.Thread(target=call, args=(module, given))
    thread.start()
    thread.join()
    check(given)
    assert not new_tasks(before)
    call(module, given)
    assert len(tasks() - before) <= 1
    del module
    gc.collect()
    assert not new_tasks(before)
    assert str(copy) not in Path("/proc/self/maps").read_text()


def test_over_rpc(library: Path) -> None:
    pytest.importorskip("tornado")
    from tvm import rpc, runtime

    server = rpc.Server(host="127.0.0.1", silent=True)
    try:
        remote = rpc.connect("127.0.0.1", server.port)
        remote.upload(str(library), "toy.so")
        module, device = remote.load_module("toy.so"), remote.cpu()
        given = arrays()
        there = [runtime.tensor(array, device) for array in given]
        module["main"](*there)
        check([tensor.numpy() for tensor in there])
        with pytest.raises(RuntimeError, match="1 arguments given"):
            module["main"](there[0])
    finally:
        server.terminate()
