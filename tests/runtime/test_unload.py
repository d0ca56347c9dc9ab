"""Models come and go and leave no memory, files, mappings or threads."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import numpy as np
import programs

from tvmconv.model import load


def resident_bytes() -> int:
    # memory freed by an earlier test, which the allocator keeps, would count as ours
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def test_load_and_unload(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((programs.COLUMNS,) * 2).astype("float32")
    paths = [
        programs.dense_model(weight=weight * (i + 1)).save(tmp_path / f"m{i}.so") for i in range(5)
    ]
    inputs = programs.dense_inputs()
    facts = []
    for round_ in range(50):
        model = load(paths[round_ % 5])
        model.run(inputs)
        bound = model.bind(inputs)
        bound()
        del model
        bound()  # the call keeps what it needs
        del bound
        gc.collect()
        facts.append(
            (
                entries("/proc/self/fd"),
                entries("/proc/self/task"),
                Path("/proc/self/maps").read_text().count("/tvmconv-"),
                resident_bytes(),
            )
        )
    files, tasks, mappings, _ = zip(*facts[9:], strict=True)
    assert max(files) == min(files)
    assert max(mappings) == min(mappings)
    assert max(tasks) == min(tasks)
    assert facts[-1][3] - facts[9][3] < 4 << 20


def test_activation_memory_goes_back(tmp_path: Path) -> None:
    """A model that is gone holds no memory."""
    from tvm import relax

    shape = (32 << 20,)  # 128 MiB

    def make(builder: object, x: object) -> object:
        y = builder.emit(relax.op.add(x, x))
        return relax.op.multiply(builder.emit(relax.op.nn.relu(y)), x)

    path = programs.unary_model(make, shape).save(tmp_path / "large.so")
    gc.collect()
    before = resident_bytes()
    model = load(path)
    value = model.empty_inputs()
    value["x"][:] = 1
    outputs = model.run(value)
    # the plan holds for what the process really got: input and output are the caller's
    assert model.memory.arena_bytes == 2 * 128 << 20
    assert 0 <= resident_bytes() - before - (4 * 128 << 20) < 16 << 20
    assert (outputs[0] == 2).all()
    del outputs, model, value
    gc.collect()
    assert resident_bytes() - before < 32 << 20


def test_outputs_outlive_the_model(saved: Path) -> None:
    from tvm import relax

    model = programs.unary_model(lambda _, x: relax.op.add(x, x), (256, 1024))
    outputs = model.run(np.ones((256, 1024), "float32"))
    array = outputs[0]
    del model, outputs
    gc.collect()
    other = load(saved)
    other.run(programs.dense_inputs())
    assert (array == 2).all()


def test_two_loads_of_one_file(saved: Path) -> None:
    inputs = programs.dense_inputs()
    first, second = load(saved), load(saved)
    expected = first.run(inputs)[0]
    del first
    gc.collect()
    np.testing.assert_array_equal(expected, second.run(inputs)[0])
