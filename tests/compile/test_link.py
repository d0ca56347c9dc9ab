"""Shared objects of programs: exported names, mappings and results."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from tests.compile.c_model import CModel, at_offset
from tests.compile.toy_program import HOSTILE, compiled, expected, facts, objects, toy
from tvmconv.compile import toolchain
from tvmconv.compile.network import CompiledProgram
from tvmconv.compile.objects import Objects
from tvmconv.compile.toolchain import SOURCES, Toolchain
from tvmconv.core.errors import ArtifactError
from tvmconv.machines.targets import resolve_machine

IMAGE = np.linspace(-1, 1, 16, dtype=np.float32)[None]


def readelf(library, *options):
    path = f"/proc/self/fd/{library._descriptor}"
    command = ["readelf", "-W", *options, path]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, pass_fds=[library._descriptor]
    ).stdout


@pytest.fixture(scope="module")
def model():
    return compiled()


@pytest.fixture(scope="module")
def file(model):
    return model.file()


def test_complete_file_computes(file):
    opened = CModel.of(file)
    for offset in (0, 4, 60):
        for actual, wanted in zip(
            opened.run(at_offset(IMAGE, offset), offset=offset), expected(IMAGE), strict=True
        ):
            np.testing.assert_array_equal(actual, wanted)
    opened.close()


def test_what_the_model_says_of_itself(file):
    opened = CModel.of(file)
    said = opened.description
    assert (said.name, said.version, said.target) == (b"toy", b"0.0", b"here")
    assert [t.name for t in opened.inputs + opened.outputs] == [b"image", b"scores", b"copy"]
    assert [list(t.shape[: t.rank]) for t in opened.inputs] == [[1, 16]]
    assert [layer.operation for layer in opened.layers] == [b"multiply", b"add", b"copy"]
    assert opened.layers[0].flops == 1 << 40
    assert (said.arena_bytes, said.weight_bytes, said.separate_weights) == (128, 192, 0)
    assert len(opened.profile(IMAGE)) == 3
    opened.close()


def test_the_library_of_this_process_finds_weights_in_memory(model):
    data = model.weights
    opened = CModel.of(model.library(), weights=data.ctypes.data, weight_bytes=data.nbytes)
    for actual, wanted in zip(opened.run(IMAGE), expected(IMAGE), strict=True):
        np.testing.assert_array_equal(actual, wanted)
    opened.close()


def write_weights(linked, path):
    path.write_bytes(b"".join(piece.tobytes() for piece in linked.weights))


def test_weights_in_a_file_of_their_own(model, tmp_path):
    linked = model.linked(separate=True)
    library = linked.library
    write_weights(linked, tmp_path / "model.weights")
    with (tmp_path / "model.so").open("wb") as copy:
        os.sendfile(copy.fileno(), library._descriptor, 0, library.bytes)
    opened = CModel(tmp_path / "model.so")
    np.testing.assert_array_equal(opened.run(IMAGE)[0], expected(IMAGE)[0])
    opened.close()


def test_weights_of_another_model_are_refused(model, tmp_path):
    library = model.linked(separate=True).library
    write_weights(compiled(factor=2).linked(separate=True), tmp_path / "other.weights")
    with pytest.raises(RuntimeError, match="another model"):
        CModel.of(library, weights_path=str(tmp_path / "other.weights").encode())


def test_two_models_in_one_process(file):
    other = compiled("other", factor=3)
    first, second = CModel.of(file), CModel.of(other.file(), symbol="tvmconv_model_other")
    for opened, factor in ((first, 1), (second, 3), (first, 1)):
        np.testing.assert_array_equal(opened.run(IMAGE)[0], expected(IMAGE, factor)[0])
    first.close()
    second.close()


def test_a_program_that_is_linked_with_two_models(file, tmp_path):
    other = compiled("other", factor=3)
    for name, library in (("toy", file), ("other", other.file())):
        with (tmp_path / f"lib{name}.so").open("wb") as copy:
            os.sendfile(copy.fileno(), library._descriptor, 0, library.bytes)
    (tmp_path / "toy.h").write_text(compiled().header())
    (tmp_path / "other.h").write_text(other.header())
    (tmp_path / "main.c").write_text(
        '#include "toy.h"\n#include "other.h"\n'
        "int main(void) {\n"
        "    return tvmconv_model_toy.description->layer_count != TOY_LAYER_COUNT\n"
        "        || tvmconv_model_toy.description->inputs[0].bytes != TOY_INPUT_0_BYTES\n"
        "        || tvmconv_model_other.description->name[0] != 'o';\n}\n"
    )
    program = tmp_path / "main"
    command = ["cc", f"-I{SOURCES}", "-o", program, tmp_path / "main.c", f"-L{tmp_path}"]
    subprocess.run([*command, "-ltoy", "-lother", f"-Wl,-rpath,{tmp_path}"], check=True)
    assert subprocess.run([program], check=False).returncode == 0


def test_nothing_else_is_exported(file):
    exported = {
        line.split()[-1]
        for line in readelf(file, "--dyn-syms").splitlines()
        if re.search(r"GLOBAL|WEAK", line) and " UND " not in line
    }
    assert exported == {
        "tvmconv_model",
        "tvmconv_model_toy",
        "__tvm_ffi_main",
        "__tvm_ffi_profile",
        "__tvm_ffi_target",
    }


def test_needs_only_the_c_library(file):
    needed = re.findall(r"NEEDED.*\[(.*)\]", readelf(file, "-d"))
    assert all(re.match(r"lib(c|m|pthread|dl)\.|ld-", name) for name in needed), needed
    assert "libc.so" in " ".join(needed)


def test_weights_are_mapped_and_not_relocated(file):
    sections = readelf(file, "-S")
    (row,) = re.findall(r"\] \.rodata\s+PROGBITS\s+(\w+) \w+ (\w+) \w+\s+(\w+)", sections)
    start, size = int(row[0], 16), int(row[1], 16)
    assert row[2] == "A"
    places = [int(p, 16) for p in re.findall(r"^(\w{12,16})  ", readelf(file, "-r"), re.M)]
    assert places
    assert not [place for place in places if start <= place < start + size]
    assert "TEXTREL" not in readelf(file, "-d")
    symbols = readelf(file, "-s")
    (constants,) = re.findall(
        r"(\w+)\s+192 OBJECT\s+LOCAL\s+DEFAULT\s+\d+ tvmconv_constants", symbols
    )
    assert int(constants, 16) % 4096 == 0


def test_large_weights_are_linked_and_found(monkeypatch):
    if resolve_machine("native", 1).triple.split("-")[0] != "x86_64":
        pytest.skip("other processors have no such section")
    monkeypatch.setattr("tvmconv.compile.link._LARGE", 1)
    made = compiled().file()
    assert ".lrodata" in readelf(made, "-S")
    np.testing.assert_array_equal(CModel.of(made).run(IMAGE)[0], expected(IMAGE)[0])


def test_hostile_names_come_back():
    for name in HOSTILE:
        program = toy(names=[name, name, name, name])
        machine = resolve_machine("native", 1)
        built = CompiledProgram(program, objects(), facts(name), machine)
        data = built.weights
        opened = CModel.of(built.library(), weights=data.ctypes.data, weight_bytes=data.nbytes)
        encoded = name.encode()
        assert opened.description.name == encoded
        assert opened.layers[0].name == opened.layers[0].operation == encoded
        assert opened.inputs[0].name == encoded
        opened.close()


def test_kept_parts_link_to_the_same_model(model, tmp_path):
    model.keep(tmp_path / "parts")
    subprocess.run(["sh", "build.sh"], cwd=tmp_path / "parts", check=True)
    opened = CModel(tmp_path / "parts/model.so", "tvmconv_model_toy")
    np.testing.assert_array_equal(opened.run(IMAGE)[0], expected(IMAGE)[0])
    opened.close()
    kept = {path.name for path in (tmp_path / "parts").iterdir()}
    assert {"model.c", "toy.h", "tvmconv.h", "kernels", "constants.bin"} <= kept


@pytest.mark.skipif(not shutil.which("clang"), reason="clang is missing")
def test_clang_with_options_links_too():
    machine = resolve_machine("native", 1)
    made = CompiledProgram(toy(), objects(), facts(), machine, cc="clang -fno-plt").file()
    np.testing.assert_array_equal(CModel.of(made).run(IMAGE)[0], expected(IMAGE)[0])


def test_a_kernel_that_calls_what_nobody_has(tmp_path):
    (tmp_path / "k.c").write_text("int TVMFuncCall(void); int kernel(void) {return TVMFuncCall();}")
    command = ["cc", "-fPIC", "-c", tmp_path / "k.c", "-o", tmp_path / "k.o"]
    subprocess.run(command, check=True)
    code = {**objects().code, "other": (tmp_path / "k.o").read_bytes()}
    program = toy()
    record = replace(program.calls[0].record, kernel="kernel")
    program = replace(program, calls=(replace(program.calls[0], record=record),))
    machine = resolve_machine("native", 1)
    with pytest.raises(ArtifactError, match="TVMFuncCall"):
        CompiledProgram(program, Objects(code, {}), facts(), machine).library()


def test_no_compiler(monkeypatch):
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: None)
    with pytest.raises(ArtifactError, match="no C compiler was found"):
        compiled().library()


def test_a_compiler_that_does_not_start(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    with pytest.raises(ArtifactError, match="cannot start the C compiler 'no-such-compiler'"):
        compiled().library()


def test_no_room_to_link(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(ArtifactError, match="TMPDIR"):
        compiled().library()


def test_the_runtime_is_compiled_once(monkeypatch):
    chosen = Toolchain.find("cc -DONCE")
    first = chosen.runtime_object()
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("compiled again"))
    assert Toolchain.find("cc -DONCE").runtime_object() is first
