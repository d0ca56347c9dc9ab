"""The interface for other programs: layout of structs, visible names, refusals, weights."""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import toolchain

from tvmconv.machines import host
from tvmconv.machines.architectures import ARCHITECTURES
from tvmconv.tvm_runtime.threads import available_cpus

BIAS = np.arange(256, dtype=np.float32) / 4


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interface")


@pytest.fixture(scope="session")
def check(folder: Path) -> Path:
    return toolchain.checker(toolchain.compiler(), folder / "check")


@pytest.fixture(scope="session")
def plain(folder: Path) -> Path:
    """A model as the compiler makes it by default."""
    return toolchain.toy(toolchain.compiler(), folder / "plain.so")


def created(check: Path, model: Path, *weights: Path) -> tuple[int, str]:
    """Status and message of a state's creation, in a process of its own."""
    done = toolchain.run(check, model, "create", *weights)
    assert done.returncode == 0, done.stderr
    status, _, message = done.stdout.rstrip("\n").partition(" ")
    return int(status), message


@pytest.mark.skipif(sys.maxsize < 2**32, reason="the list is that of 64-bit systems")
def test_layout_of_structs(folder: Path) -> None:
    program = toolchain.compile_c(toolchain.compiler(), folder / "abi", [toolchain.HERE / "abi.c"])
    assert toolchain.run(program).stdout == (toolchain.HERE / "abi_64bit.txt").read_text()


def test_visible_names_and_needed_libraries(plain: Path) -> None:
    listed = toolchain.run(toolchain.tool("nm"), "-D", "--defined-only", plain).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    functions = {f"__tvm_ffi_{name}" for name in ("main", "profile", "target")}
    assert names == {"tvmconv_model", "tvmconv_model_toy", *functions}
    needed = toolchain.run(toolchain.tool("readelf"), "-d", plain).stdout
    libraries = {
        line.split("[")[1].split(".")[0] for line in needed.splitlines() if "NEEDED" in line
    }
    # the loader of a C library is part of it
    libraries = {name for name in libraries if not name.startswith("ld-")}
    assert libraries <= {"libc", "libm", "libpthread", "libdl"}


def test_both_names_are_the_same_functions(plain: Path) -> None:
    library = ctypes.CDLL(str(plain))
    size = (ctypes.c_uint32 * 2).in_dll(library, "tvmconv_model")[1]
    words = ctypes.c_size_t * (size // ctypes.sizeof(ctypes.c_size_t))
    usual, own = (
        list(words.in_dll(library, name)) for name in ("tvmconv_model", "tvmconv_model_toy")
    )
    assert usual == own and all(own)


@pytest.mark.skipif(
    host.host_features() == frozenset(), reason="the system lists no processor features"
)
def test_features_are_those_of_the_system(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(host.HIDE_VARIABLE, raising=False)
    program = toolchain.compile_c(
        toolchain.compiler(),
        folder / "features",
        [
            toolchain.HERE / "print_features.c",
            toolchain.HERE / "model.c",
            toolchain.HERE / "kernels.c",
        ],
    )
    asked = [flag for each in ARCHITECTURES.values() for flag in each.features.values()]
    asked += ["sse", "sse2", "imaginary"]
    found = toolchain.run(program, *asked).stdout.split()
    assert set(found) == set(asked) & host.host_features()


def test_missing_features_are_named(folder: Path, check: Path) -> None:
    model = toolchain.toy(
        toolchain.compiler(), folder / "wide.so", "-O0", '-DTOY_FEATURES="wishes","dreams"'
    )
    status, message = created(check, model)
    assert status == 2
    assert "lacks wishes, dreams" in message
    assert "built for toy-machine" in message
    assert "--target native" in message


def test_length_of_vectors(folder: Path, check: Path) -> None:
    bits = "-DTOY_VECTOR_BITS=65536"
    model = toolchain.toy(toolchain.compiler(), folder / "scalable.so", "-O0", bits)
    status, message = created(check, model)
    assert status == 2
    assert "vectors of 65536 bits" in message


def test_no_memory(folder: Path, check: Path) -> None:
    for images, options in ((1, ()), (8, ("-DTOY_BATCHED",))):
        flags = ("-O0", "-DTOY_ARENA=UINT64_C(1)<<60", *options)
        model = toolchain.toy(toolchain.compiler(), folder / f"huge{images}.so", *flags)
        status, message = created(check, model)
        text = r"the system gave no memory for (\d+) bytes of activations and workspace"
        found = re.fullmatch(text, message)
        assert status == 3 and found is not None
        # the arenas of all images of a state, and huge pages at both ends
        assert 0 <= int(found[1]) - images * (1 << 60) < 1 << 24


def weights_file(
    magic: bytes = b"tvmconv\1", data: bytes = BIAS.tobytes(), of: bytes = BIAS.tobytes()
) -> bytes:
    header = struct.pack("=8sQ32s16x", magic, BIAS.nbytes, hashlib.sha256(of).digest())
    return header + data


@pytest.fixture(scope="session")
def separate(folder: Path) -> Path:
    digest = hashlib.sha256(BIAS.tobytes()).hexdigest()
    return toolchain.toy(toolchain.compiler(), folder / "separate.so", f'-DTOY_SEPARATE="{digest}"')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is too short"),
        (b"tvmconv", "is too short"),
        (weights_file(b"another!"), "is not a file of weights"),
        (weights_file(of=b"other"), "belongs to another model"),
        (weights_file()[:-1], "is incomplete"),
        (weights_file() + b"x", "is incomplete"),
        (weights_file(), ""),
    ],
)
def test_weights(separate: Path, check: Path, tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "some.weights"
    file.write_bytes(content)
    status, found = created(check, separate, file)
    assert status == (4 if message else 0)
    assert message in found
    assert not message or str(file) in found


def test_weights_that_are_no_file(separate: Path, check: Path, tmp_path: Path) -> None:
    status, message = created(check, separate, tmp_path)
    assert status == 4
    assert str(tmp_path) in message
    status, message = created(check, separate, tmp_path / "none")
    assert status == 4
    assert "No such file" in message


def test_weights_next_to_the_model(separate: Path, check: Path) -> None:
    beside = separate.with_suffix(".weights")
    beside.unlink(missing_ok=True)
    status, message = created(check, separate)
    assert status == 4
    assert str(beside) in message
    beside.write_bytes(weights_file())
    assert created(check, separate) == (0, "")


class Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("threads", ctypes.c_int32),
        ("parallel_for", ctypes.c_void_p),
        ("parallel_context", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("weight_bytes", ctypes.c_uint64),
        ("weights_path", ctypes.c_char_p),
    )


class Model(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("description", ctypes.c_void_p),
        ("create", ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_size_t)),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)),
        ("profile", ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)),
        ("message", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("destroy", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


def test_weights_in_memory(separate: Path) -> None:
    model = Model.in_dll(ctypes.CDLL(str(separate)), "tvmconv_model")
    content = weights_file()
    room = np.zeros(len(content) + 128, np.uint8)
    first = -room.ctypes.data % 64
    room[first:][: len(content)] = np.frombuffer(content, np.uint8)
    message = ctypes.create_string_buffer(256)
    state = ctypes.c_void_p()

    def create(start: int, size: int) -> int:
        options = Options(
            ctypes.sizeof(Options), 1, None, None, room.ctypes.data + start, size, None
        )
        return model.create(ctypes.byref(options), ctypes.byref(state), message, len(message))

    assert create(first + 4, len(content)) == 1
    assert b"aligned" in message.value
    assert create(first, len(content) - 4) == 4
    assert b"incomplete" in message.value
    assert create(first, len(content)) == 0

    image = np.random.default_rng(0).random((64, 256), np.float32)
    mask = np.arange(64, dtype=np.uint8) % 3
    scores, half = np.zeros(64, np.float32), np.zeros(32, np.float32)
    inputs = (ctypes.c_void_p * 2)(image.ctypes.data, mask.ctypes.data)
    outputs = (ctypes.c_void_p * 2)(scores.ctypes.data, half.ctypes.data)
    assert model.run(state, inputs, outputs) == 0
    model.destroy(state)
    expected = (2 * image.astype(np.float64) + BIAS).sum(1) * mask
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    np.testing.assert_array_equal(half, scores[32:])


@pytest.mark.parametrize(("variable", "threads"), [("1", 1), ("2", 2), ("999", 2), ("", 2)])
def test_environment_limits_threads(plain: Path, check: Path, variable: str, threads: int) -> None:
    done = toolchain.run(check, plain, "print_threads", TVMCONV_NUM_THREADS=variable)
    assert done.stdout.split() == [str(min(threads, available_cpus()))] * 2


@pytest.mark.parametrize("variable", ["some", "0", "-3", "2x"])
def test_environment_without_a_number_of_threads(plain: Path, check: Path, variable: str) -> None:
    done = toolchain.run(check, plain, "print_threads", TVMCONV_NUM_THREADS=variable)
    assert done.returncode != 0
    assert "TVMCONV_NUM_THREADS" in done.stdout + done.stderr
