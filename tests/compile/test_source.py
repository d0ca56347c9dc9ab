"""Programs as C text that any compiler accepts, with any names of a model."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compile.toy_program import HOSTILE, WIDTH, facts, objects, operand, toy
from tvmconv.compile.c_text import comment, identifier, literal, whole
from tvmconv.compile.network import CompiledProgram
from tvmconv.compile.source import program_source
from tvmconv.compile.toolchain import SOURCES
from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.x86 import MACHINES
from tvmconv.program.program import Place, Program

STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wtrigraphs", "-Wcomment"]
each_compiler = pytest.mark.parametrize(
    "compiler",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"{name} is missing")
        )
        for name in ("gcc", "clang")
    ],
)


def check(compiler: str, text: str, folder: Path, *more: str) -> None:
    """Compile text as C99 without a warning."""
    source = folder / "text.c"
    source.write_text(text)
    command = [compiler, *STRICT, *more, f"-I{SOURCES}", "-c", source, "-o", folder / "text.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def renamed(names: list[str]) -> Program:
    """A program with these names in each place in turn."""
    program = toy()
    inputs = tuple(TensorInfo(name, (WIDTH,), "float32") for name in names)
    calls = [
        replace(
            program.calls[0],
            record=replace(program.calls[0].record, layer=name, operator=name, workload=name),
            algorithm=name,
        )
        for name in names
    ]
    return replace(program, inputs=inputs, calls=tuple(calls))


@each_compiler
def test_source_compiles_without_warnings(compiler, tmp_path):
    check(compiler, program_source(toy(), facts()), tmp_path)
    check(compiler, program_source(toy(), facts(), "ab" * 32), tmp_path)
    several = replace(toy(), others=(renamed(HOSTILE), toy()))
    check(compiler, program_source(several, facts()), tmp_path)
    # a target with more layers than the first one
    longer = replace(several, calls=several.calls * 2, constants=())
    text = program_source(several, facts(), others=[(longer, facts("other"))])
    check(compiler, text, tmp_path)
    assert [text.count(f"layer_count = {3 * factor},") for factor in (1, 2)] == [4, 2]


@each_compiler
def test_hostile_names_compile_without_warnings(compiler, tmp_path):
    check(compiler, program_source(renamed(HOSTILE), facts("".join(HOSTILE[:7]))), tmp_path)


@each_compiler
def test_a_program_without_anything(compiler, tmp_path):
    empty = replace(
        toy(), inputs=(), outputs=(), calls=(), constants=(), constant_bytes=0, arena_bytes=0
    )
    check(compiler, program_source(empty, facts("")), tmp_path)


def header_of(program, name):
    return CompiledProgram(program, objects(), facts(name), MACHINES["x86-64-v3"]).header()


@each_compiler
def test_header_compiles_as_c_and_cpp(compiler, tmp_path):
    for index, name in enumerate(["resnet18", "3 größe/*", "*/", ""]):
        text = header_of(renamed(HOSTILE), name)
        check(compiler, text + "\nint unused;\n", tmp_path)
        header = tmp_path / f"{index}.hpp"
        header.write_text(text)
        command = [compiler, "-x", "c++", "-Wall", "-Werror", f"-I{SOURCES}", "-fsyntax-only"]
        subprocess.run([*command, header], check=True)


def test_hostile_names_are_kept_byte_by_byte(tmp_path):
    """The literals, printed by a C program."""
    program = "#include <stdio.h>\nint main(void) {\n"
    for name in HOSTILE[:-1]:
        program += f"    fwrite({literal(name)}, 1, sizeof {literal(name)}, stdout);\n"
    (tmp_path / "names.c").write_text(program + "    return 0;\n}\n")
    subprocess.run(["cc", "-std=c99", "-o", tmp_path / "names", tmp_path / "names.c"], check=True)
    printed = subprocess.run([tmp_path / "names"], capture_output=True, check=True).stdout
    assert printed == b"".join(name.encode() + b"\0" for name in HOSTILE[:-1])


@given(st.lists(st.text(max_size=20), max_size=4))
def test_comments_are_one_line_that_ends_once(parts):
    text = comment(*parts)
    inside = text[2:-2]
    assert text.startswith("/*") and text.endswith("*/") and "\n" not in text
    assert not {"*/", "/*", "??"} & {inside[i : i + 2] for i in range(len(inside))}
    assert inside.isprintable()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet18", "resnet18"),
        ("ResNet-50 v1.5", "ResNet_50_v1_5"),
        ("", "model"),
        ("卷积", "model"),
        ("3d", "3d"),
        ("*/ int main", "int_main"),
    ],
)
def test_identifiers(name, expected):
    assert identifier(name) == expected


def test_constants_are_as_wide_as_their_values():
    values = (0, 2147483647, 2147483648, 1 << 40)
    assert [whole(value) for value in values] == ["0", "2147483647", "2147483648ULL",
                                                  "1099511627776ULL"]  # fmt: skip


@each_compiler
def test_offsets_beyond_two_gigabytes(compiler, tmp_path):
    far = 5 << 30
    program = toy()
    operands = (operand(Place.INPUT), operand(Place.CONSTANT, far), operand(Place.ARENA, far + 64))
    calls = (replace(program.calls[0], operands=operands),)
    program = replace(
        program, calls=calls, arena_bytes=far + 128, constant_bytes=far + 64, workspace_bytes=far
    )
    text = program_source(program, facts())
    assert str(far + 64) in text
    main = (
        "int32_t multiply_kernel(void *x, void *scale, void *y) {\n"
        "    return !((uintptr_t)scale == 4096 + 5368709120ULL"
        " && (uintptr_t)y == 8192 + 5368709184ULL && x == (void *)64);\n}\n"
        "const char tvmconv_constants[1] = {0};\n"
        "int main(void) {\n"
        "    const void *inputs[] = {(const void *)64};\n"
        "    tvmconv_frame frame = {.inputs = inputs, .arena = (char *)8192};\n"
        "    frame.constants = (char *)4096;\n"
        "    return run(&frame);\n}\n"
    )
    check(compiler, text + main, tmp_path)
    parts = [tmp_path / "text.o", f"-I{SOURCES}", SOURCES / "runtime.c", "-lpthread", "-ldl"]
    subprocess.run([compiler, *parts, "-o", tmp_path / "text"], check=True)
    assert subprocess.run([tmp_path / "text"], check=False).returncode == 0


def test_one_line_a_layer_says_what_it_is():
    lines = program_source(toy(), facts()).splitlines()
    calls = [line.strip() for line in lines if line.strip().startswith("TVMCONV_CALL")]
    assert calls == [
        "TVMCONV_CALL(0, multiply_kernel(TVMCONV_IN(0, 0), TVMCONV_CONST(0), TVMCONV_MEM(64))); "
        "/* layer multiply direct */",
        "TVMCONV_CALL(1, add_kernel(TVMCONV_MEM(64), TVMCONV_CONST(128), TVMCONV_OUT(0, 0))); "
        "/* add */",
        "TVMCONV_CALL(2, (memcpy(TVMCONV_OUT(1, 0), TVMCONV_MEM(64), 64), 0)); /* copy */",
    ]


def test_a_type_that_c_cannot_name():
    program = replace(toy(), inputs=(TensorInfo("z", (2,), "complex64"),))
    with pytest.raises(ModelError, match="type complex64 of the input or output 'z'"):
        program_source(program, facts())


def test_types_are_numpys():
    for name in ("float16", "int64", "bool", "uint8"):
        program = replace(toy(), inputs=(TensorInfo("z", (3, 5), name),))
        size = 15 * np.dtype(name).itemsize
        assert f"TVMCONV_{name.upper()}, 2, input_shape_0, {size}}}" in program_source(
            program, facts()
        )
