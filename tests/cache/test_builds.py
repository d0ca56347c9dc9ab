"""Builds with a cache: the same models as without, sooner."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tvmconv
from tvmconv.cache.entries import KERNEL, LIBRARY, MODEL, entries
from tvmconv.cache.folder import entries_folder
from tvmconv.compile import objects, toolchain
from tvmconv.core.errors import TvmconvError
from tvmconv.model_cache import CachedModel


def network(height: int) -> bytes:
    """A convolution and a dense layer."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    two (float[1,3,{height},8] input, float[16,3,3,3] w, float[10,16] d, float[10] dense_b)
        => (float[1,10] output)
    {{
      stem = Conv <pads = [1, 1, 1, 1]> (input, w)
      mean = GlobalAveragePool (stem)
      flat = Flatten (mean)
      output = Gemm <transB = 1> (flat, d, dense_b)
    }}"""
    model = onnx.parser.parse_model(text)
    model.graph.node[0].name = "stem"
    draw = np.random.default_rng(1)
    for value in list(model.graph.input)[1:]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        weight = draw.standard_normal(shape).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, value.name))
        model.graph.input.remove(value)
    return model.SerializeToString()


MODEL_BYTES = network(9)
IMAGE = np.random.default_rng(0).standard_normal((1, 3, 9, 8)).astype("float32")


def built(**options: Any) -> tvmconv.CompiledModel:
    return tvmconv.build(MODEL_BYTES, threads=1, **options)


def kinds() -> dict[str, int]:
    found = [entry.kind for entry in entries()]
    return {kind: found.count(kind) for kind in set(found)}


def forget(*names: str) -> None:
    folder = Path(entries_folder() or "")
    for path in folder.iterdir():
        if path.name.startswith(names):
            path.unlink()


def refuse(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail(f"{name} was called"))


@pytest.fixture(scope="module")
def plain() -> tvmconv.CompiledModel:
    """The model as built without a cache."""
    return built()


def parts(model: tvmconv.CompiledModel, folder: Path) -> dict[str, bytes]:
    """All that a model can write."""
    folder.mkdir()
    model.save(folder / "inside.so", header=True)
    model.save(folder / "outside.so", weights="external")
    model.keep(folder / "parts")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_cached_models_are_the_same(
    cache: Path, plain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built()
    expected = plain(IMAGE)[0]
    assert np.array_equal(first(IMAGE)[0], expected)
    assert kinds()[MODEL] == 1
    refuse(monkeypatch, objects, "compile_function")
    second = built()
    assert second.manifest.to_json() == first.manifest.to_json() == plain.manifest.to_json()
    assert np.array_equal(second(IMAGE)[0], expected)
    assert str(second.explain()) == str(plain.explain())
    assert parts(second, tmp_path / "second") == parts(plain, tmp_path / "plain")


def test_kernels_of_another_build_are_not_compiled_again(
    cache: Path, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    built()
    forget(MODEL)
    refuse(monkeypatch, objects, "compile_function")
    assert np.array_equal(built()(IMAGE)[0], plain(IMAGE)[0])


def test_a_program_is_linked_once(cache: Path, plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain._runtime_object.cache_clear()
    built()(IMAGE)
    assert kinds()[LIBRARY] == 2
    toolchain._runtime_object.cache_clear()
    refuse(monkeypatch, toolchain.Toolchain, "_run")
    assert np.array_equal(built()(IMAGE)[0], plain(IMAGE)[0])


def test_damaged_entries_are_made_again(cache: Path, plain: Any) -> None:
    for _ in range(2):
        assert np.array_equal(built()(IMAGE)[0], plain(IMAGE)[0])
        for path in cache.iterdir():
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 16
            path.write_bytes(content)


def test_a_warm_build_does_not_import_tvm(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(MODEL_BYTES)
    program = (
        "import sys, numpy, tvmconv; model = tvmconv.build(sys.argv[1]); "
        "model(numpy.zeros((1, 3, 9, 8), 'float32')); print('tvm' in sys.modules)"
    )
    for expected in ("True", "False"):
        command = [sys.executable, "-c", program, str(tmp_path / "model.onnx")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_models_that_warn_are_built_each_time(cache: Path) -> None:
    model = onnx.load_from_string(MODEL_BYTES)
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "dense_b")
    values = np.full(10, np.nan, np.float32)
    bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
    for _ in range(2):
        with pytest.warns(UserWarning, match="NaN in 'dense_b'"):
            tvmconv.build(model, threads=1)
    assert MODEL not in kinds()
    assert kinds()[KERNEL]


def place(
    model: Any = MODEL_BYTES, target: Any = "native", threads: int = 1, **options: Any
) -> Any:
    given = {"overrides": None, "log": "none", "cc": "", **options}
    return CachedModel.of(model, target, threads, **given)


def test_all_arguments_are_part_of_the_key(cache: Path, tmp_path: Path) -> None:
    layers = {"stem": {"algorithm": "direct"}}
    (tmp_path / "overrides.json").write_text(json.dumps(layers))
    found = [
        place(),
        place(network(10)),
        place(target="x86-64-v3"),
        place(threads=2),
        place(shapes={"input": (1, 3, 9, 8)}),
        place(algorithms=("direct",)),
        place(algorithms=["-winograd"]),
        place(error_budget=1e-4),
        place(finite=False),
        place(overrides=layers),
        place(overrides=tmp_path / "overrides.json"),
        place(cc="clang"),
        place(outputs=["stem"]),
    ]
    assert len({each.key for each in found}) == len(found)
    (tmp_path / "overrides.json").write_text(json.dumps({}))
    assert place(overrides=tmp_path / "overrides.json") not in found
    assert place() == found[0]


def test_builds_that_arguments_do_not_determine_have_no_place(cache: Path) -> None:
    assert place(overrides=lambda layer, workload, candidates: None) is None
    assert place(target="cuda:sm_90") is None
    assert place(target=object()) is None
    assert place("no/such/file.onnx") is None
    assert place(log="no/such/log.jsonl") is None
    assert place(3) is None


def test_external_data_are_part_of_the_key(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = onnx.load_from_string(MODEL_BYTES)
    onnx.save(model, path, save_as_external_data=True, location="w", size_threshold=0)
    first = place(path)
    content = bytearray((tmp_path / "w").read_bytes())
    content[100] ^= 1
    (tmp_path / "w").write_bytes(content)
    assert place(path) not in (None, first)
    (tmp_path / "w").unlink()
    assert place(path) is None
    with pytest.raises(TvmconvError, match="cannot open external data"):
        tvmconv.build(path)


def test_without_a_cache_nothing_is_written(
    cache: Path, monkeypatch: pytest.MonkeyPatch, plain: Any
) -> None:
    monkeypatch.setenv("TVMCONV_CACHE", "none")
    assert place() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(built()(IMAGE)[0], plain(IMAGE)[0])
    assert not cache.exists()
