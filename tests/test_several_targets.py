"""One model for several CPUs: selection, files, other interfaces and reports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.cli.verbs import data_of, invoke
from tests.compile.c_model import CModel
from tests.emulating import needs_arm, run_model
from tests.frontend.onnx_runner import run_reference
from tvmconv.artifact import host_target
from tvmconv.artifact.manifest import Manifest
from tvmconv.cli.values import parse_targets
from tvmconv.core.errors import ArtifactError, TargetError
from tvmconv.machines.gate import lacks
from tvmconv.machines.several import resolve_devices
from tvmconv.machines.targets import resolve_machine
from tvmconv.runtime import portable
from tvmconv.runtime.library import C_SOURCES

NAMES = ["x86-64-v3", "x86-64-v4", "sapphirerapids"]
ORDER = NAMES[::-1]
IMAGE = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)

_CPP = """
#include <cstdio>
#include "tvmconv.hpp"
int main(int, char **arguments) {
    tvmconv::Model model(arguments[1]);
    try {
        tvmconv::State state(model);
        std::vector<float> x(108, 1.0f), y(state.program().outputs[0].bytes / 4);
        std::size_t layers = state.profile({tvmconv::input(x)}, {tvmconv::output(y)}).size();
        std::printf("%s %d", state.program().target, int(layers));
        return layers > std::size_t(model.description().layer_count);
    } catch (const tvmconv::Error &error) {
        std::printf("%d %s", int(error.status()), error.what());
        return 0;
    }
}
"""


def network() -> onnx.ModelProto:
    """A convolution and a product."""
    draw = np.random.default_rng(3)
    weights = {
        "w1": draw.standard_normal((32, 3, 3, 3)).astype(np.float32),
        "w2": draw.standard_normal((32, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("ReduceMean", ["a"], ["b"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["b", "w2"], ["y"], "classes"),
    ]
    graph = helper.make_graph(
        nodes,
        "fleet",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def able() -> list[str]:
    """The targets that this CPU runs, the preferred one first."""
    names = [name for name in ORDER if not lacks(resolve_machine(name))]
    if not names:
        pytest.skip("needs an x86-64 CPU with AVX2")
    return names


def unable() -> str:
    lacking = [name for name in ORDER if lacks(resolve_machine(name))]
    return lacking[0] if lacking else pytest.skip("needs a CPU without AMX")


@pytest.fixture(scope="module")
def model() -> tvmconv.CompiledModel:
    return tvmconv.build(network(), NAMES, threads=1, shapes={"width": 6})


@pytest.fixture(scope="module")
def saved(model: tvmconv.CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("saved") / "fleet.so")


def check(outputs: Any, image: np.ndarray = IMAGE) -> None:
    (wanted,) = run_reference(network(), {"x": image})
    np.testing.assert_allclose(np.asarray(outputs[0]), wanted, rtol=1e-5, atol=1e-5)


def names_of(*targets: Any) -> list[str]:
    return [machine.name for machine in resolve_devices(list(targets))]


def test_more_features_come_first_and_then_the_later_in_the_list() -> None:
    assert names_of(*NAMES) == names_of(*ORDER) == ORDER
    assert names_of("x86-64-v3", "haswell", "znver3") == ["znver3", "haswell", "x86-64-v3"]
    # neither has all features of the other
    assert names_of("x86-64-v4", "znver3") == ["znver3", "x86-64-v4"]
    assert names_of("znver3", "x86-64-v4") == ["x86-64-v4", "znver3"]
    assert names_of("aarch64", "aarch64+sve") == ["aarch64+sve", "aarch64"]
    assert parse_targets("x86-64-v3, x86-64-v4") == ["x86-64-v3", "x86-64-v4"]
    for one in ("native", "cuda:sm_80,sm_90", "llvm -mcpu=haswell -mattr=+avx2,+fma"):
        assert parse_targets(one) == one


@pytest.mark.parametrize("target", ["cuda", ["cuda"]], ids=repr)
def test_the_number_of_a_gpu(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvmconv.machines.targets.native_gpu", lambda index: f"GPU {index}")
    assert resolve_devices(target, None, 1) == ("GPU 1",)


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        ([], "empty"),
        (["x86-64-v3", "cuda:sm_90"], r"GPU cuda:sm_90.*Expected CPUs only"),
        (["x86-64-v3", "aarch64"], r"x86-64-v3 \(x86_64-.*aarch64 \(aarch64-.*Expected one"),
        (["x86-64-v3", "x86-64-v3"], "x86-64-v3 twice"),
        (["x86-64-v3", "pentium"], "AVX2"),
    ],
)
def test_lists_that_are_refused(targets: list[str], problem: str) -> None:
    with pytest.raises(TargetError, match=problem):
        tvmconv.build(network(), targets)


def test_each_target_is_right(
    model: tvmconv.CompiledModel, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model.machine.name == able()[0]
    check(model.run(IMAGE))
    for name in able():
        monkeypatch.setenv("TVMCONV_TARGET", name)
        loaded, light = tvmconv.load(saved), portable.load(saved)
        assert loaded.machine.name == name and name in repr(light)
        for each in (loaded, light):
            check(each.run(IMAGE))
            assert len(each.profile(IMAGE, repeat=1)) == len(each.calls)
        monkeypatch.delenv("TVMCONV_TARGET")
        # the state of a call keeps the target of its model
        check(loaded.run(IMAGE))
        direct = CModel(saved, target=name.encode())
        check(direct.run(IMAGE))
        direct.close()
    assert tvmconv.load(saved).machine.name == able()[0]


def test_hidden_features(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    able()
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "gfni, avx512")
    for each in (tvmconv.load(saved), portable.load(saved)):
        assert "x86-64-v3" in repr(each)
        check(each.run(IMAGE))
    assert "x86-64-v3" in portable.load(saved).explain()
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "avx2")
    with pytest.raises(ArtifactError, match=r"sapphirerapids requires .*; x86-64-v3 requires avx2"):
        tvmconv.load(saved)
    with pytest.raises(ArtifactError, match=r"none of the model's targets: sapph.* lacks .*avx2"):
        portable.load(saved).run(IMAGE)


def test_the_widest_target_that_fits(
    model: tvmconv.CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for record in model.manifest.targets:
        features = frozenset(record.required_features)
        monkeypatch.setattr(host_target, "host_features", lambda features=features: features)
        assert host_target.for_host(model.manifest, "it").machine.name == record.name
        assert model.manifest.targets[host_target.select(model.manifest.targets)] is record


def test_names_that_cannot_be_selected(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    able()
    monkeypatch.setenv("TVMCONV_TARGET", "skylake")
    for load in (tvmconv.load, portable.load):
        with pytest.raises(ArtifactError, match=r"skylake.*Expected.* x86-64-v4, x86-64-v3"):
            load(saved).run(IMAGE)
    monkeypatch.setenv("TVMCONV_TARGET", unable())
    for load in (tvmconv.load, portable.load):
        with pytest.raises(ArtifactError, match=r"TVMCONV_TARGET .*(avx512|amx)"):
            load(saved).run(IMAGE)


def test_weights_are_shared_where_layouts_agree(model: tvmconv.CompiledModel) -> None:
    alone = tvmconv.build(network(), "x86-64-v4", threads=1, shapes={"width": 6})
    own = {each.name: each.own_constant_bytes for each in model.manifest.targets}
    assert own["sapphirerapids"] == own["x86-64-v4"] == 0 < own["x86-64-v3"]
    # places begin at multiples of 64 bytes
    added = model.memory.constant_bytes - alone.memory.constant_bytes
    assert 0 < added <= own["x86-64-v3"] + 64 * len(model.calls)
    assert [each.machine.name for each in model.targets] == ORDER
    assert [each.machine.name for each in alone.targets] == ["x86-64-v4"]
    kernels = [{call.kernel for call in each.calls} for each in model.targets]
    assert not set.intersection(*kernels)


def test_files(
    model: tvmconv.CompiledModel, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = saved.with_suffix(".json").read_text()
    data = json.loads(text)
    assert data["format_version"] == 4
    assert Manifest.from_json(data).to_json() == data
    twice = {**data, "other_targets": data["other_targets"][:1] * 2}
    with pytest.raises(ValueError, match="one name"):
        Manifest.from_json(twice)
    # whichever target runs, the saved model has all
    monkeypatch.setenv("TVMCONV_TARGET", "x86-64-v3")
    again = tvmconv.load(saved).save(tmp_path / "again.so")
    assert again.with_suffix(".json").read_text() == text
    apart = model.save(tmp_path / "apart.so", weights="external", header=True)
    check(tvmconv.load(apart).run(IMAGE))
    check(portable.load(apart).run(IMAGE))
    layers = max(len(each.calls) for each in model.targets)
    assert f"#define FLEET_LAYER_COUNT {layers}\n" in apart.with_suffix(".h").read_text()


def test_several_shapes_and_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMCONV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TVMCONV_CACHE_SIZE", "1GiB")
    widths = {"width": [6, 9]}
    first = tvmconv.build(network(), NAMES[:2], threads=1, shapes=widths)
    monkeypatch.setattr("tvmconv.building.resolve_devices", lambda *_: pytest.fail("built again"))
    second = tvmconv.build(network(), NAMES[:2], threads=1, shapes=widths)
    assert second.manifest.to_json() == first.manifest.to_json()
    first.save(tmp_path / "first.so")
    second.save(tmp_path / "second.so")
    monkeypatch.setenv("TVMCONV_TARGET", "x86-64-v3")
    wide = np.resize(IMAGE, (1, 3, 6, 9))
    for each in (second, tvmconv.load(tmp_path / "first.so"), portable.load(tmp_path / "first.so")):
        check(each.run(IMAGE))
        check(each.run(wide), wide)
        assert len(each.profile(wide, repeat=1)) == len(each.programs[1].calls)
    assert (tmp_path / "first.so").read_bytes() == (tmp_path / "second.so").read_bytes()


def test_description_of_all_targets(model: tvmconv.CompiledModel, saved: Path) -> None:
    able()
    loaded = CModel(saved)
    about = loaded.description
    assert about.target.decode() == ", ".join(ORDER)
    assert about.features.decode().split() == sorted(
        set.intersection(*(set(each.required_features) for each in model.manifest.targets))
    )
    assert about.layer_count == max(len(each.calls) for each in model.targets)
    assert about.arena_bytes == max(each.memory.arena_bytes for each in model.targets)
    loaded.close()


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_cpp(model: tvmconv.CompiledModel, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "use.cc").write_text(_CPP)
    command = ["g++", "-std=c++11", "-Wall", "-Werror", f"-I{C_SOURCES}", tmp_path / "use.cc"]
    subprocess.run([*command, "-o", tmp_path / "use", "-ldl"], check=True)

    def said(**variables: str) -> str:
        command = [tmp_path / "use", saved]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    layers = {each.machine.name: len(each.calls) for each in model.targets}
    wide, narrow = able()[0], "x86-64-v3"
    assert said() == f"{wide} {layers[wide]}"
    assert said(TVMCONV_TARGET=narrow) == f"{narrow} {layers[narrow]}"
    assert said(TVMCONV_HIDE_FEATURES="avx512") == f"{narrow} {layers[narrow]}"
    assert said(TVMCONV_TARGET="skylake").startswith("1 the environment variable TVMCONV_TARGET")
    assert said(TVMCONV_TARGET=unable()).startswith("2 the environment variable TVMCONV_TARGET")
    assert said(TVMCONV_HIDE_FEATURES="avx2").startswith("2 this processor runs none of")


def test_tvm_s_loader_knows_the_target(
    model: tvmconv.CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    able()
    monkeypatch.setenv("TVMCONV_TARGET", "x86-64-v3")
    path = model.save(tmp_path / "loader.so")
    module = tvm_ffi.load_module(str(path))
    assert module["target"]() == ORDER.index("x86-64-v3")
    y, times = np.empty((1, 5), np.float32), np.zeros(len(model.targets[-1].calls), np.int64)
    module["main"](*map(tvm_ffi.from_dlpack, (IMAGE, y)))
    check([y])
    module["profile"](*map(tvm_ffi.from_dlpack, (IMAGE, y, times)))
    assert times.sum() > 0


def test_commands(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = data_of("explain", saved)["targets"]
    assert [row["target"] for row in rows] == ORDER
    assert [row["target"] for row in rows if row["runs_here"]] == able()[:1]
    shown = data_of("explain", saved, "--target", "x86-64-v3")
    assert shown["target"] == "x86-64-v3" and len(shown["targets"]) == 3
    assert "ic3ih6" in invoke("explain", saved, "--target", unable(), "--layer", "first").stdout
    refused = invoke("explain", saved, "--target", "skylake")
    assert "sapphirerapids, x86-64-v4, x86-64-v3" in refused.output
    title = f"fleet: 1 convolution and 1 fully connected layer, {able()[0]}"
    assert title in invoke("explain", saved).stdout
    onnx.save(network(), tmp_path / "fleet.onnx")
    command = ["compile", tmp_path / "fleet.onnx", "-o", tmp_path / "fleet.so", "--threads", 1]
    command += ["--dim", "width=6"]
    assert "for 2 targets" in invoke(*command, "--target", "x86-64-v3,x86-64-v4").stdout
    monkeypatch.setenv("TVMCONV_TARGET", "x86-64-v3")
    assert "x86-64-v3" in invoke("run", tmp_path / "fleet.so", "--repeat", 1).stdout
    assert data_of("profile", tmp_path / "fleet.so", "--repeat", 1)["target"] == "x86-64-v3"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_bundle(model: tvmconv.CompiledModel, tmp_path: Path) -> None:
    able()
    model.bundle(tmp_path / "bundle", "fleet")
    readme = (tmp_path / "bundle/README.md").read_text()
    assert all(f"For {name} (" in readme for name in ORDER)
    environment = {**os.environ, "TVMCONV_TARGET": "x86-64-v3"}
    script = ["sh", tmp_path / "bundle/run.sh", "-r", "1"]
    done = subprocess.run(script, env=environment, check=True, capture_output=True, text=True)
    assert "of the code for x86-64-v3" in done.stdout


@needs_arm
def test_neon_and_sve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["aarch64", "aarch64+sve"]
    model = tvmconv.build(network(), names, threads=1, shapes={"width": 6})
    for cpu in ("cortex-a72", "max"):
        check(run_model(model, tmp_path, IMAGE, options=["-cpu", cpu]))
    monkeypatch.setenv("TVMCONV_TARGET", "aarch64+sve")
    check(run_model(model, tmp_path, IMAGE, options=["-cpu", "max"]))
    with pytest.raises(ArtifactError, match=r"TVMCONV_TARGET is aarch64.sve.* lacks .*sve"):
        run_model(model, tmp_path, IMAGE, options=["-cpu", "cortex-a72"])
