"""Saving: the same bytes every time, or an error and what was there before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import programs
import pytest

from tvmconv.errors import ArtifactError
from tvmconv.runtime import artifact, files, link
from tvmconv.runtime.module import CompiledModel, load


def test_saving_after_running_gives_the_same_bytes(tmp_path: Path) -> None:
    """Running enters empty memory scopes into the executable; they must not be saved."""
    first = programs.dense_model()
    second = programs.dense_model()
    second.run(programs.dense_inputs())
    a, b = first.save(tmp_path / "a.so"), second.save(tmp_path / "b.so")
    assert a.read_bytes() == b.read_bytes()
    np.testing.assert_array_equal(
        second.run(programs.dense_inputs())[0], load(b).run(programs.dense_inputs())[0]
    )


def test_save_refuses_before_it_links(
    dense: CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link.BuiltLibrary, "file", lambda _: pytest.fail("linked"))
    with pytest.raises(ArtifactError, match=r"must end in \.so"):
        dense.save(tmp_path / "dense.dll")
    with pytest.raises(ArtifactError, match="does not exist; create it first"):
        dense.save(tmp_path / "no" / "dense.so")
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    with pytest.raises(ArtifactError, match="is not writable"):
        dense.save(tmp_path / "dense.so")
    monkeypatch.undo()
    monkeypatch.setattr(link.BuiltLibrary, "file", lambda _: pytest.fail("linked"))
    (tmp_path / "mine.json").write_text('{"precious": 1}')
    with pytest.raises(ArtifactError, match=r"mine\.json exists and is no tvmconv manifest"):
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
        monkeypatch.setattr(artifact.files, "write_all", fail)
    elif step == "flush":
        monkeypatch.setattr(files, "_flush", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ArtifactError, match=r"cannot write .*No space left on device"):
        other.save(saved)
    monkeypatch.undo()
    assert before == {p.name: p.read_bytes() for p in saved.parent.iterdir()}
    load(saved)


def test_killed_between_the_renames_is_noticed(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, count = Path.replace, []

    def once(self: Path, target: Path) -> Path:
        count.append(target)
        if len(count) == 2:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", once)
    with pytest.raises(KeyboardInterrupt):
        programs.dense_model(weight=programs.WEIGHT * 3).save(saved)
    monkeypatch.undo()
    assert sorted(p.name for p in saved.parent.iterdir()) == ["dense.json", "dense.so"]
    with pytest.raises(ArtifactError, match="saving was interrupted"):
        load(saved)


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


def test_no_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without g++ the model still runs; saving says what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    model = programs.dense_model()
    inputs = programs.dense_inputs()
    expected = programs.dense_reference(inputs)
    np.testing.assert_allclose(model.run(inputs)[0], expected, rtol=2e-5, atol=2e-5)
    with pytest.raises(ArtifactError, match=r"needs a C\+\+ compiler.*apt install g\+\+.*CXX"):
        model.save(tmp_path / "m.so")
    monkeypatch.setenv("CXX", str(tmp_path / "nonexistent"))
    with pytest.raises(ArtifactError, match="cannot start the linker"):
        model.save(tmp_path / "m.so")
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(ArtifactError, match="linking with '/bin/false' failed"):
        model.save(tmp_path / "m.so")
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_of_the_first_form_is_read(dense: CompiledModel, saved: Path) -> None:
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
    assert load(saved).machine == dense.machine
