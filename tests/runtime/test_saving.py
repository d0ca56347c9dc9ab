"""Saving: the same bytes every time, or an error and what was there before."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import programs
import pytest

from tvmconv.artifact import saving
from tvmconv.artifact.manifest import read_manifest
from tvmconv.compile import network
from tvmconv.core import files
from tvmconv.core.errors import ArtifactError
from tvmconv.model import CompiledModel, load


def test_saving_after_running_gives_the_same_bytes(tmp_path: Path) -> None:
    first = programs.dense_model()
    second = programs.dense_model()
    second.run(programs.dense_inputs())
    a, b = first.save(tmp_path / "a.so"), second.save(tmp_path / "b.so")
    assert a.read_bytes() == b.read_bytes()
    np.testing.assert_array_equal(
        second.run(programs.dense_inputs())[0], load(b).run(programs.dense_inputs())[0]
    )


def refuse_linking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network.CompiledProgram, "_linked", lambda *_: pytest.fail("linked"))


def test_save_refuses_before_it_links(
    dense: CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_linking(monkeypatch)
    with pytest.raises(ArtifactError, match=r"must end in \.so"):
        dense.save(tmp_path / "dense.dll")
    with pytest.raises(ArtifactError, match="does not exist; create it first"):
        dense.save(tmp_path / "no" / "dense.so")
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    with pytest.raises(ArtifactError, match="is not writable"):
        dense.save(tmp_path / "dense.so")
    monkeypatch.undo()
    refuse_linking(monkeypatch)
    (tmp_path / "mine.json").write_text('{"precious": 1}')
    with pytest.raises(ArtifactError, match=r"mine\.json exists and is not a tvmconv manifest"):
        dense.save(tmp_path / "mine.so")
    assert json.loads((tmp_path / "mine.json").read_text()) == {"precious": 1}


@pytest.mark.parametrize("step", ["write", "flush", "first rename"])
def test_failed_save_leaves_the_old_pair(
    saved: Path, dense: CompiledModel, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = {p.name: p.read_bytes() for p in saved.parent.iterdir()}
    other = programs.dense_model(weight=programs.WEIGHT * 2)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "write":
        monkeypatch.setattr(saving.files, "write_all", fail)
    elif step == "flush":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ArtifactError, match=r"cannot write .*No space left on device"):
        other.save(saved)
    monkeypatch.undo()
    assert before == {p.name: p.read_bytes() for p in saved.parent.iterdir()}
    load(saved)


def test_interrupted_between_the_renames_is_finished(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, count = os.replace, []

    def once(file: Path, target: Path) -> None:
        count.append(target)
        if len(count) == 2:
            raise KeyboardInterrupt
        replace(file, target)

    monkeypatch.setattr(os, "replace", once)
    with pytest.raises(KeyboardInterrupt):
        programs.dense_model(weight=programs.WEIGHT * 3).save(saved)
    monkeypatch.undo()
    assert sorted(p.name for p in saved.parent.iterdir()) == ["dense.json", "dense.so"]
    assert factor_of(saved) == 3


def test_permissions_follow_the_mask(dense: CompiledModel, tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        path = dense.save(tmp_path / "m.so")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o750
    assert path.with_suffix(".json").stat().st_mode & 0o777 == 0o640


def test_overwritten_while_loaded(saved: Path) -> None:
    """The dynamic linker would take the second file for the first: they have the same name."""
    inputs = programs.dense_inputs()
    old = load(saved)
    programs.dense_model(weight=-programs.WEIGHT).save(saved)
    new = load(saved)
    for model, weight in ((old, programs.WEIGHT), (new, -programs.WEIGHT)):
        expected = programs.dense_reference(inputs, weight)
        np.testing.assert_allclose(model.run(inputs)[0], expected, rtol=2e-5, atol=2e-5)
    old.save(saved.with_name("old.so"))
    assert load(saved.with_name("old.so")).manifest == old.manifest


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a call nor saving does without; both say what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    model = programs.dense_model()
    for use in (lambda: model.run(programs.dense_inputs()), lambda: model.save(tmp_path / "m.so")):
        monkeypatch.delenv("CC", raising=False)
        with pytest.raises(ArtifactError, match=r"no C compiler was found.*apt install gcc.*CC"):
            use()
        monkeypatch.setenv("CC", str(tmp_path / "nonexistent"))
        with pytest.raises(ArtifactError, match="cannot start the C compiler"):
            use()
        monkeypatch.setenv("CC", "/bin/false")
        with pytest.raises(ArtifactError, match="linking with '/bin/false' failed"):
            use()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def tripled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model with other weights."""
    model = programs.dense_model(weight=programs.WEIGHT * 3)
    return model.save(tmp_path_factory.mktemp("tripled") / "tripled.so")


def factor_of(path: Path) -> int:
    """By what the weights of the model saved at ``path`` are multiplied; its values are checked."""
    inputs = programs.dense_inputs()
    actual = load(path).run(inputs)[0]
    for factor in (1, 3):
        expected = programs.dense_reference(inputs, programs.WEIGHT * factor)
        if np.allclose(actual, expected, rtol=2e-5, atol=2e-5):
            return factor
    pytest.fail("neither the old nor the new model")


@pytest.mark.parametrize("there", [True, False], ids=["over a model", "as a new file"])
def test_killed_at_any_step(saved_files: Path, tripled: Path, tmp_path: Path, there: bool) -> None:
    """The next load opens the old or the new model, and it or the next save cleans up."""
    program = Path(__file__).with_name("killed_saves.py")
    old = saved_files if there else tmp_path / "nothing.so"
    result = subprocess.run(
        [sys.executable, str(program), str(old), str(tripled), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    count = int(result.stdout)
    assert count > 20
    found = []
    for step in range(count):
        path = tmp_path / str(step) / "m.so"
        if not path.exists():
            with pytest.raises(ArtifactError, match="does not exist"):
                load(path)
            assert list(path.parent.iterdir()) == []
            found.append(0)
            continue
        if step % 2:
            found.append(factor_of(path))
        else:
            found.append(3 if path.read_bytes() == tripled.read_bytes() else 1)
            load(saved_files).save(path)
            assert factor_of(path) == 1
        assert sorted(p.name for p in path.parent.iterdir()) == ["m.json", "m.so"]
    assert found == sorted(found)
    assert set(found) == ({1, 3} if there else {0, 3})


def test_a_living_saver_is_left_alone(saved: Path, tripled: Path) -> None:
    """Loads and other saves while another save has begun."""
    new = load(tripled)
    record = saved.with_suffix(".json")
    with files.replacing({saved: 0o777, record: 0o666}) as (whole, copy):
        begun = {p.name for p in saved.parent.iterdir()} - {"dense.so", "dense.json"}
        assert len(begun) == 2
        assert factor_of(saved) == 1
        new.save(saved)
        assert factor_of(saved) == 3
        assert begun <= {p.name for p in saved.parent.iterdir()}
        content = tripled.with_suffix(".json").read_bytes()
        new._library.write_to(whole, content)
        files.write_all(copy, content)
    assert factor_of(saved) == 3
    assert sorted(p.name for p in saved.parent.iterdir()) == ["dense.json", "dense.so"]


def test_savers_and_loaders_of_one_name(saved: Path, tripled: Path) -> None:
    models = [load(saved), load(tripled)]

    def save(index: int) -> None:
        for _ in range(15):
            models[index].save(saved)

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(save, index) for index in (0, 1)]
        while not all(future.done() for future in running):
            assert load(saved).manifest in (models[0].manifest, models[1].manifest)
        for future in running:
            future.result()
    assert factor_of(saved) in (1, 3)
    assert sorted(p.name for p in saved.parent.iterdir()) == ["dense.json", "dense.so"]


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """The system refuses to go on in the middle of a write, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_no_room_to_link(tmp_path: Path) -> None:
    model = programs.dense_model()
    refused = pytest.raises(ArtifactError, match=r"cannot link .* in .*TMPDIR")
    with files_limited_to(100), refused:
        model.save(tmp_path / "m.so")
    assert list(tmp_path.iterdir()) == []
    assert factor_of(model.save(tmp_path / "m.so")) == 1


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_no_room_to_save(saved: Path, tripled: Path, share: float) -> None:
    new = load(tripled)
    before = {p.name: p.read_bytes() for p in saved.parent.iterdir()}
    refused = pytest.raises(ArtifactError, match=r"cannot write .*dense\.so: File too large")
    with files_limited_to(int(tripled.stat().st_size * share)), refused:
        new.save(saved)
    assert before == {p.name: p.read_bytes() for p in saved.parent.iterdir()}
    assert factor_of(saved) == 1


@pytest.mark.slow
def test_killed_at_random_moments(saved_files: Path, tripled: Path, tmp_path: Path) -> None:
    program = (
        "import sys, tvmconv\n"
        "models = [tvmconv.load(path) for path in sys.argv[1:3]]\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for model in models: model.save(sys.argv[3])\n"
    )
    random = np.random.default_rng(0)
    path = tmp_path / "m.so"
    for _ in range(100):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(saved_files), str(tripled), str(path)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.uniform(0.01, 0.1))
        process.kill()
        process.communicate()
        assert factor_of(path) in (1, 3)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["m.json", "m.so"]


def test_a_machine_of_the_first_form_is_read(dense: CompiledModel, saved: Path) -> None:
    """It had one number of lanes, no rates, and predictions in seconds."""
    path = saved.with_suffix(".json")
    data = json.loads(path.read_text())
    new = data["target"]
    texts = ("name", "family", "isa", "mcpu", "features", "cores", "fma_units", "fma_latency")
    sizes = ("l1d_bytes", "l2_bytes", "l3_bytes")
    data["target"] = {name: new[name] for name in (*texts, *sizes)}
    data["target"] |= {
        "lanes": new["vector"]["bits"] // 32,
        "vector_registers": new["vector"]["registers"],
    }
    path.write_text(json.dumps(data))
    # nor the ways of the first cache; where features are hidden, its generic CPU has other costs
    read = read_manifest(path).machine
    known = replace(dense.machine, tiles=None, l1d_ways=read.l1d_ways)
    assert replace(read, rates=known.rates, code=known.code) == known
