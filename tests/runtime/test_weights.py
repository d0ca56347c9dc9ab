"""Weights in a file of their own: saved with the model, mapped, refused where they do not fit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import programs
import pytest

from tvmconv.artifact import saving
from tvmconv.core import files
from tvmconv.core.errors import ArtifactError, ConfigError, TvmconvError
from tvmconv.model import CompiledModel, load
from tvmconv.runtime import portable

SUFFIXES = [".json", ".so", ".weights"]
LOADERS: dict[str, Callable[..., Any]] = {"tvmconv": load, "runtime": portable.load}
FFI = """
import sys
import numpy as np, tvm_ffi
x, y, hidden, total = (np.load(sys.argv[2])[n] for n in ("x", "y", "hidden", "total"))
module = tvm_ffi.load_module(sys.argv[1])
module.main(*map(tvm_ffi.from_dlpack, (x, y, hidden, total)))
np.save(sys.argv[3], hidden)
"""


@pytest.fixture(scope="session")
def apart_files(dense: CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dense.save(tmp_path_factory.mktemp("apart") / "dense.so", weights="external")


@pytest.fixture
def apart(apart_files: Path, tmp_path: Path) -> Path:
    """A private copy of a model with external weights; the path of its .so."""
    for suffix in SUFFIXES:
        shutil.copy(apart_files.with_suffix(suffix), tmp_path / f"dense{suffix}")
    return tmp_path / "dense.so"


@pytest.fixture(scope="session")
def tripled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = programs.dense_model(weight=programs.WEIGHT * 3)
    return model.save(tmp_path_factory.mktemp("tripled") / "dense.so", weights="external")


def factor_of(path: Path, loader: Callable[..., Any] = load) -> int:
    """By what the weights of a saved model are multiplied; its values are checked."""
    inputs = programs.dense_inputs(3)
    actual = loader(path).run(inputs)["hidden"]
    for factor in (1, 3):
        wanted = programs.dense_reference(inputs, programs.WEIGHT * factor)
        if np.allclose(actual, wanted, rtol=2e-5, atol=2e-5):
            return factor
    pytest.fail("the values are wrong")


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
def test_saved_and_loaded(apart: Path, loader: Callable[..., Any]) -> None:
    assert sorted(p.suffix for p in apart.parent.iterdir()) == SUFFIXES
    constants = programs.WEIGHT.tobytes()
    assert constants not in apart.read_bytes()
    assert constants in apart.with_suffix(".weights").read_bytes()
    assert factor_of(apart, loader) == 1


def test_they_are_mapped_and_not_copied(apart: Path) -> None:
    model = load(apart)
    maps = Path("/proc/self/maps").read_text().splitlines()
    (line,) = [line for line in maps if line.endswith(str(apart.with_suffix(".weights")))]
    assert line.split()[1] == "r--s"
    del model


@pytest.mark.parametrize("before", ["", "import tvmconv\nheld = tvmconv.load(sys.argv[1])"])
def test_tvms_loader_finds_them(apart: Path, tmp_path: Path, before: str) -> None:
    inputs = programs.dense_inputs(3)
    results = {t.name: np.zeros(t.shape, t.dtype) for t in programs.DENSE_OUTPUTS}
    np.savez(tmp_path / "given.npz", **inputs, **results)
    code = FFI.replace("\nx, y", f"\n{before}\nx, y", 1)
    command = [sys.executable, "-c", code, apart, tmp_path / "given.npz", tmp_path / "out.npy"]
    subprocess.run(command, check=True)
    wanted = programs.dense_reference(inputs)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), wanted, rtol=2e-5, atol=2e-5)


def cut(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip(file: Path, other: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-70] ^= 1
    file.write_bytes(content)


def to_folder(file: Path, other: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file, other: file.unlink(), r"dense\.weights is missing.*Copy it together"),
        (lambda file, other: shutil.copy(other, file), r"dense\.weights belongs to another model"),
        (
            lambda file, other: file.write_bytes(b"x" * 500),
            r"dense\.weights is not a file of weights",
        ),
        (lambda file, other: file.write_bytes(b""), r"dense\.weights is not a file of weights"),
        (lambda file, other: os.truncate(file, 63), r"dense\.weights is not a file of weights"),
        (cut, r"dense\.weights has \d+ bytes, expected \d+.*cut short"),
        (flip, r"dense\.weights is damaged.*another hash"),
        (to_folder, r"dense\.weights is not a regular file"),
    ],
    ids=["missing", "another's", "foreign", "empty", "header cut", "cut", "flipped", "folder"],
)
def test_weights_that_do_not_fit_are_an_error(
    apart: Path, tripled: Path, damage: Any, message: str, loader: Callable[..., Any]
) -> None:
    damage(apart.with_suffix(".weights"), tripled.with_suffix(".weights"))
    with pytest.raises(ArtifactError, match=message):
        loader(apart)


def test_without_hashes(apart: Path) -> None:
    flip(apart.with_suffix(".weights"), apart)
    assert load(apart, verify=False).name == portable.load(apart, verify=False).name == "dense"
    cut(apart.with_suffix(".weights"), apart)
    with pytest.raises(ArtifactError, match="cut short"):
        load(apart, verify=False)


def test_a_manifest_that_names_other_weights(apart: Path, tripled: Path, tmp_path: Path) -> None:
    """Code and weights of two models, with a manifest made for the pair."""
    own, other = load(apart), load(tripled)
    own._library.weights = other._library.weights
    path = own.save(tmp_path / "mixed.so")
    with pytest.raises(ArtifactError, match=r"belongs to another model"):
        load(path)


def test_a_loaded_model_keeps_where_they_are(apart: Path, saved_files: Path) -> None:
    again = load(apart).save(apart.with_name("again.so"))
    for suffix in SUFFIXES:
        assert again.with_suffix(suffix).read_bytes() == apart.with_suffix(suffix).read_bytes()
    with pytest.raises(ArtifactError, match="weights of this loaded model are a separate file"):
        load(apart).save(apart, weights="embedded")
    with pytest.raises(ArtifactError, match="weights of this loaded model are part of its"):
        load(saved_files).save(apart.with_name("x.so"), weights="external")
    with pytest.raises(ConfigError, match="'embedded' or 'external'"):
        load(apart).save(apart, weights="outside")  # type: ignore[arg-type]
    assert factor_of(apart) == 1


def test_weights_that_no_model_needs_go(apart: Path, dense: CompiledModel) -> None:
    old = load(apart)
    dense.save(apart)
    assert sorted(p.suffix for p in apart.parent.iterdir()) == SUFFIXES[:2]
    inputs = programs.dense_inputs()
    np.testing.assert_array_equal(old.run(inputs)[0], load(apart).run(inputs)[0])


def test_foreign_files_stay(dense: CompiledModel, tmp_path: Path) -> None:
    for suffix, options in ((".weights", {"weights": "external"}), (".h", {"header": True})):
        mine = tmp_path / f"m{suffix}"
        mine.write_text("mine")
        with pytest.raises(ArtifactError, match=rf"m\{suffix} exists and is not a"):
            dense.save(tmp_path / "m.so", **options)  # type: ignore[arg-type]
        assert mine.read_text() == "mine"
    with pytest.raises(ArtifactError, match="reserved for the interface"):
        dense.save(tmp_path / "tvmconv.so", header=True)
    dense.save(tmp_path / "m.so")
    assert (tmp_path / "m.weights").read_text() == (tmp_path / "m.h").read_text() == "mine"


def test_header(dense: CompiledModel, apart: Path) -> None:
    """A loaded model's header is the built one's, and a C program knows the sizes by it."""
    built = dense.save(apart.with_name("built.so"), header=True, weights="external")
    loaded = load(apart).save(apart, header=True)
    assert built.with_suffix(".h").read_text() == loaded.with_suffix(".h").read_text()
    dense.save(apart, header=True)  # replaces its own
    (apart.parent / "main.c").write_text(
        '#include "dense.h"\n'
        f"int main(void) {{ return DENSE_INPUT_1_BYTES != {24 * 40 * 4}\n"
        "  || tvmconv_model_dense.description->layer_count != DENSE_LAYER_COUNT; }\n"
    )
    command = ["cc", "main.c", "-o", "main", apart, f"-Wl,-rpath,{apart.parent}"]
    subprocess.run(command, cwd=apart.parent, check=True)
    assert subprocess.run([apart.with_name("main")], check=False).returncode == 0


def test_interrupted_between_the_renames(
    apart: Path, tripled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the process is killed there: the new model's files have all arrived, or none."""
    names = [apart, *(apart.with_suffix(s) for s in (".json", ".weights", ".h"))]
    load(apart).save(apart, header=True)
    new = load(tripled)
    for renamed in range(len(names) + 1):
        load(apart).save(apart, header=True)
        before = {p.name: p.read_bytes() for p in names}
        monkeypatch.setattr(files, "_move", lambda moves, n=renamed: _first(moves, n))
        with pytest.raises(KeyboardInterrupt):
            new.save(apart, header=True)
        monkeypatch.undo()
        assert factor_of(apart) == (3 if renamed else 1)
        assert len(list(apart.parent.iterdir())) == len(names) + 1
        if not renamed:
            assert before == {p.name: p.read_bytes() for p in names}
        _restore(apart, before)


def _first(moves: list[tuple[Path, Path]], count: int) -> None:
    model = len(moves) > 1  # not the interface that its header includes
    for file, path in moves[:count] if model else moves:
        if file.exists():
            file.replace(path)
    if model:
        raise KeyboardInterrupt


def _restore(path: Path, content: dict[str, bytes]) -> None:
    for name, data in content.items():
        path.with_name(name).write_bytes(data)


def test_savers_and_loaders_of_one_name(apart: Path, tripled: Path) -> None:
    models = [load(apart), load(tripled)]

    def save(model: CompiledModel) -> None:
        for _ in range(8):
            model.save(apart)

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(save, model) for model in models]
        while not all(future.done() for future in running):
            assert factor_of(apart) in (1, 3)
        for future in running:
            future.result()
    assert sorted(p.suffix for p in apart.parent.iterdir()) == SUFFIXES


def test_a_model_that_was_saved_again_after_another(
    apart: Path, tripled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = load(apart), load(tripled)
    real, turns = saving.map_weights, list[int]()

    def late(*arguments: Any) -> Any:
        turns.append(1)
        if len(turns) > 1:
            return real(*arguments)
        other.save(apart)
        try:
            return real(*arguments)
        finally:
            first.save(apart)

    monkeypatch.setattr(saving, "map_weights", late)
    assert factor_of(apart) == 1
    assert len(turns) == 2


def test_compilers_that_are_none() -> None:
    from tvmconv.compile.toolchain import Toolchain

    for cc in ("'gcc", " ", 5):
        with pytest.raises(TvmconvError, match="is not a command"):
            Toolchain.find(cc)  # type: ignore[arg-type]
