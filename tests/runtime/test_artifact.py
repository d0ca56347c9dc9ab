"""Saved models: written files, refusals, and that nothing partial is left."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import programs
import pytest

import tvmconv
from tvmconv.artifact import manifest
from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.machines import gate
from tvmconv.machines.x86 import MACHINES
from tvmconv.model import CompiledModel, load
from tvmconv.runtime import library

FRESH = """
import json, sys
import numpy as np
import tvmconv
model = tvmconv.load(sys.argv[1])
data = np.load(sys.argv[2])
outputs = model.run(data["x"], data["y"])
np.savez(sys.argv[3], **dict(outputs))
str(model.explain())
mapped = open("/proc/self/maps").read()
print(json.dumps({
    "modules": [m for m in sys.modules if m.split(".")[0] in ("tvm", "tvm_ffi", "onnx")],
    "libraries": [line for line in mapped.splitlines() if "libtvm" in line],
    "calls": len(model.calls),
}))
"""


def edit(path: Path, **changes: object) -> None:
    data = json.loads(path.read_text())
    data.update(changes)
    path.write_text(json.dumps(data))


def test_fresh_process_runs_and_explains_it_without_tvm(saved: Path, tmp_path: Path) -> None:
    inputs = programs.dense_inputs(8)
    np.savez(tmp_path / "in.npz", **inputs)
    command = [sys.executable, "-c", FRESH, str(saved), "in.npz", "out.npz"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    facts = json.loads(result.stdout)
    assert facts["modules"] == []
    assert facts["libraries"] == []
    assert facts["calls"] == 4
    assert result.stderr == ""
    outputs = np.load(tmp_path / "out.npz")
    expected = programs.dense_reference(inputs)
    np.testing.assert_allclose(outputs["hidden"], expected, rtol=2e-5, atol=2e-5)


def test_compiler_works_after_load(saved: Path) -> None:
    code = (
        "import sys, numpy as np; sys.path.insert(0, sys.argv[2])\n"
        "import programs, tvmconv\n"
        "loaded = tvmconv.load(sys.argv[1]); inputs = programs.dense_inputs()\n"
        "before = loaded.run(inputs)['hidden']\n"
        "built = programs.dense_model()\n"
        "assert np.array_equal(before, built.run(inputs)['hidden'])\n"
        "assert np.array_equal(before, loaded.run(inputs)['hidden'])\n"
    )
    command = [sys.executable, "-c", code, str(saved), str(Path(__file__).parent)]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        (b'{"a": 1}', b'{"a": 1}'),
        (zlib.compress(b'{"a": 1}'), b'{"a": 1}'),
        (zlib.compress(b'{"a": 1}')[:-1], b""),
        (b"neither", b""),
        (zlib.compress(bytes(library.MAX_MANIFEST_BYTES + 1), 1), b""),
    ],
    ids=["plain", "compressed", "cut", "neither", "too-large"],
)
def test_manifests_after_a_library(packed: bytes, text: bytes, tmp_path: Path) -> None:
    end = library._END.pack(hashlib.sha256(packed).digest(), len(packed), library._MARK)
    (tmp_path / "model.so").write_bytes(b"code" + packed + end)
    opened = library.Library.open(tmp_path / "model.so")
    assert opened.manifest == text
    assert opened.bytes == (4 if text else 4 + len(packed) + len(end))


def test_round_trip_keeps_everything(dense: CompiledModel, saved: Path) -> None:
    loaded = load(saved)
    size = loaded.manifest.library_bytes
    code = saved.read_bytes()[:size]
    embedded = zlib.decompressobj().decompress(saved.read_bytes()[size:])
    assert embedded == saved.with_suffix(".json").read_bytes()
    filled = dense.manifest.with_library(hashlib.sha256(code).hexdigest(), size)
    assert filled.to_json() == loaded.manifest.to_json()
    assert dense.calls == loaded.calls
    assert loaded.load_seconds > 0
    again = loaded.save(saved.with_name("again.so"))
    assert again.read_bytes() == saved.read_bytes()
    assert again.with_suffix(".json").read_text() == saved.with_suffix(".json").read_text()


def test_names_in_the_error_of_a_flipped_byte(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 1
    saved.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"dense\.so is not the file that .*dense\.json desc"):
        load(saved)


@pytest.mark.parametrize("place", ["manifest", "end"])
def test_flipped_byte_after_the_code(saved: Path, place: str) -> None:
    content = bytearray(saved.read_bytes())
    content[load_size(saved) + 100 if place == "manifest" else -1] ^= 1
    saved.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"dense\.so is not the file that .*dense\.json desc"):
        load(saved)


def test_edited_manifest(saved: Path) -> None:
    edit(saved.with_suffix(".json"), reorders=5)
    with pytest.raises(ArtifactError, match=r"dense\.json is not the manifest that .*dense\.so"):
        load(saved)


def test_manifest_in_another_spelling(saved: Path) -> None:
    record = saved.with_suffix(".json")
    record.write_bytes(json.dumps(json.loads(record.read_text())).encode().replace(b", ", b",\r\n"))
    assert load(saved).name == "dense"


@pytest.mark.parametrize("version", [1, 2])
def test_what_older_versions_saved(saved: Path, version: int) -> None:
    edit(saved.with_suffix(".json"), format_version=version)
    saved.write_bytes(saved.read_bytes()[: load_size(saved)])
    with pytest.raises(ArtifactError, match=rf"format version {version}\. .*Build the model again"):
        load(saved)


def load_size(saved: Path) -> int:
    return int(json.loads(saved.with_suffix(".json").read_text())["library"]["bytes"])


def test_unverified(saved: Path) -> None:
    """A flipped byte of the constants is found by the hash alone, another size without."""
    size = load_size(saved)
    content = bytearray(saved.read_bytes())
    at = content.index(programs.WEIGHT.tobytes()[:64])
    content[at] ^= 1
    saved.write_bytes(content)
    assert load(saved, verify=False).name == "dense"
    with pytest.raises(ArtifactError, match="sha256"):
        load(saved)
    saved.write_bytes(content[: size - 1] + content[size:])
    with pytest.raises(ArtifactError, match=f"{size - 1} bytes, expected {size} bytes"):
        load(saved, verify=False)


@pytest.mark.parametrize("suffix", [".so", ".json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file(saved: Path, suffix: str, kind: str) -> None:
    file = saved.with_suffix(suffix)
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    with pytest.raises(ArtifactError, match=rf"dense{suffix} is not a regular file"):
        load(saved)


def test_truncated_library(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match="damaged, replaced"):
        load(saved)


@pytest.mark.parametrize("keep", [0, 1, 100, 1500])
def test_truncated_manifest(saved: Path, keep: int) -> None:
    record = saved.with_suffix(".json")
    record.write_bytes(record.read_bytes()[:keep])
    with pytest.raises(ArtifactError, match=r"dense\.json is not valid JSON.*Save the model again"):
        load(saved)


def test_binary_manifest(saved: Path) -> None:
    saved.with_suffix(".json").write_bytes(b"\xff\xfe\x00garbage")
    with pytest.raises(ArtifactError, match="not valid JSON"):
        load(saved)


@pytest.mark.parametrize("text", ["[]", "{}", "3", '{"format": "other"}'])
def test_foreign_json(saved: Path, text: str) -> None:
    saved.with_suffix(".json").write_text(text)
    with pytest.raises(ArtifactError, match="is not a tvmconv manifest"):
        load(saved)


def test_format_version(saved: Path) -> None:
    edit(saved.with_suffix(".json"), format_version=99)
    with pytest.raises(ArtifactError, match=r"format version 99. Expected 3 or 4 for this tvmconv"):
        load(saved)


@pytest.mark.parametrize(
    "decisions",
    [[1], [{}], [{"layer": "a"}], [{"layer": 1, "workload": "ic8ih4oc8kh1", "rejected": []}]],
    ids=repr,
)
def test_decisions_are_read_for_reports(saved: Path, decisions: list[object]) -> None:
    edit(saved.with_suffix(".json"), decisions=decisions)
    record = manifest.read_manifest(saved.with_suffix(".json"))
    model = CompiledModel(record, library.Library.open(saved))
    model.run(programs.dense_inputs(8))
    assert len(record.decisions) == 1
    for use in (model.explain, lambda: model.decisions, lambda: model.save(saved)):
        with pytest.raises(
            ArtifactError, match=r"decisions .* are damaged .* Build the model again"
        ):
            use()


@pytest.mark.parametrize(
    "name", ["target", "inputs", "library", "memory", "versions", "calls", "unscheduled"]
)
@pytest.mark.parametrize("value", [None, 3, [1], {"a": 1}], ids=repr)
def test_malformed_fields(saved: Path, name: str, value: object) -> None:
    edit(saved.with_suffix(".json"), **{name: value})
    with pytest.raises(ArtifactError):
        load(saved)


def test_missing_feature(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "host_features", lambda: frozenset({"sse2"}))
    monkeypatch.setattr(library, "Code", lambda _: pytest.fail("code was mapped"))
    with pytest.raises(ArtifactError, match=r"dense\.so was built for .* needs .*avx2.*x86-64-v3"):
        load(saved)


def test_built_for_another_processor_saves_but_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = programs.compile_program(
        programs.dense_program(),
        programs.DENSE_INPUTS,
        programs.DENSE_OUTPUTS,
        machine=MACHINES["x86-64-v3"],
    )
    monkeypatch.setattr(gate, "host_features", lambda: frozenset({"avx", "fma"}))
    with pytest.raises(ArtifactError, match=r"needs .*avx2"):
        model.run(programs.dense_inputs())
    path = model.save(tmp_path / "other.so")
    monkeypatch.undo()
    expected = programs.dense_reference(programs.dense_inputs())
    actual = load(path).run(programs.dense_inputs())["hidden"]
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_moved_with_and_without_its_readable_copy(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    moved = folder / "renamed.so"
    shutil.move(saved, moved)
    assert load(moved).name == "dense"
    shutil.move(saved.with_suffix(".json"), moved.with_suffix(".json"))
    assert load(moved).name == "dense"
    with pytest.raises(ArtifactError, match=r"dense\.so does not exist"):
        load(saved)
    moved.with_suffix(".json").unlink()
    os.truncate(moved, moved.stat().st_size - 1)
    with pytest.raises(ArtifactError, match=r"renamed\.so holds no manifest.*cut short"):
        load(moved)


def test_wrong_arguments_of_load(saved: Path) -> None:
    with pytest.raises(ArtifactError, match=r"Expected a saved \.so"):
        load(saved.with_suffix(".onnx"))
    with pytest.raises(InputError, match="threads=0 must be a whole number"):
        load(saved, threads=0)
    assert load(saved, threads=2).threads == 2


def test_removed_after_load(saved: Path, tmp_path: Path) -> None:
    model = load(saved)
    saved.unlink()
    again = load(model.save(tmp_path / "again.so"))
    inputs = programs.dense_inputs()
    np.testing.assert_array_equal(model.run(inputs)[0], again.run(inputs)[0])


def test_public_names() -> None:
    assert tvmconv.load is load
    assert tvmconv.CompiledModel is CompiledModel


_HOSTILE = {
    "nesting": b"[" * 100_000,
    "a huge integer": b'{"format": "tvmconv-module", "format_version": ' + b"9" * 5000 + b"}",
    "infinity": b'{"format": "tvmconv-module", "threads": 1e999}',
    "half a character": b'{"format": "tvmconv-module", "threads": "\\ud800"}',
}


@pytest.mark.parametrize("text", _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_json(saved: Path, text: bytes) -> None:
    saved.with_suffix(".json").write_bytes(text)
    with pytest.raises(ArtifactError, match="not valid JSON"):
        manifest.read_manifest(saved.with_suffix(".json"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("threads", value) for value in (0, -5, 2.5, "2", True, None, 1 << 40)),
        *(("inputs", [{"name": "x", "shape": shape, "dtype": "float32"}]) for shape in (
            [-1], [2.5], ["2"], [1 << 50], 5)),
        *(("outputs", [{"name": name, "shape": [1], "dtype": dtype}]) for name, dtype in (
            ("x", "float33"), ("x", 5), (None, "float32"), ("x", "O"))),
        *(("memory", {"arena_bytes": value}) for value in ("1", None, 0.5)),
        ("versions", 5),
    ],
)  # fmt: skip
def test_fields_out_of_range(saved: Path, field: str, value: object) -> None:
    record = saved.with_suffix(".json")
    edit(record, **{field: value})
    with pytest.raises(ArtifactError):
        manifest.read_manifest(record)
