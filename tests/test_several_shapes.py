"""One model for several shapes of its inputs: values, files, other interfaces and reports."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.cli.verbs import data_of, invoke
from tests.compile.c_model import CModel
from tests.frontend.onnx_runner import run_reference
from tvmconv.core.errors import ConfigError, InputError, ModelError
from tvmconv.machines.x86 import MACHINES
from tvmconv.runtime import portable
from tvmconv.runtime.library import C_SOURCES
from tvmconv.tuning.session import collect

WIDTHS = (12, 24, 32)
SHAPES = [(1, 4, 8, width) for width in WIDTHS]

_CPP = """
#include <cstdio>
#include "tvmconv.hpp"
int main(int, char **arguments) {
    tvmconv::Model model(arguments[1]);
    tvmconv::State first(model);
    int64_t width = std::stoll(arguments[2]);
    try {
        first.set_shapes({{1, 4, 8, 13}});
        return 1;
    } catch (const tvmconv::Error &error) {
        if (error.status() != TVMCONV_INVALID) return 2;
    }
    first.set_shapes({{1, 4, 8, width}});
    tvmconv::State state(std::move(first));
    std::vector<float> x(4 * 8 * width), y(state.program().outputs[0].bytes / 4);
    std::FILE *file = std::fopen(arguments[3], "rb");
    if (std::fread(x.data(), 4, x.size(), file) != x.size()) return 3;
    std::fclose(file);
    state.run({tvmconv::input(x)}, {tvmconv::output(y)});
    if (state.shape(0)[1] != width) return 4;
    if (state.profile({tvmconv::input(x)}, {tvmconv::output(y)}).empty()) return 5;
    return std::fwrite(y.data(), 4, y.size(), stdout) != y.size();
}
"""


def network() -> onnx.ModelProto:
    """Two convolutions, an If, and a product."""
    draw = np.random.default_rng(3)
    weights = {
        "w1": draw.standard_normal((16, 4, 3, 3)).astype(np.float32),
        "w2": draw.standard_normal((16, 16, 3, 3)).astype(np.float32) / 8,
        "w3": draw.standard_normal((16, 10)).astype(np.float32),
        "zero": np.zeros((), np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2"], ["c"], "second", pads=[1, 1, 1, 1]),
        node("ReduceSum", ["c"], ["total"], keepdims=0),
        node("Greater", ["total", "zero"], ["is_positive"]),
        node(
            "If",
            ["is_positive"],
            ["branch"],
            "choice",
            then_branch=_branch("Relu"),
            else_branch=_branch("Neg"),
        ),
        node("ReduceMean", ["branch"], ["d"], axes=[2], keepdims=0),
        node("Transpose", ["d"], ["e"], perm=[0, 2, 1]),
        node("MatMul", ["e", "w3"], ["y"], "letters"),
    ]
    graph = helper.make_graph(
        nodes,
        "widths",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _branch(operator: str) -> onnx.GraphProto:
    nodes = [helper.make_node(operator, ["c"], ["result"])]
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, None)
    return helper.make_graph(nodes, operator, [], [result])


def image(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> tvmconv.CompiledModel:
    return tvmconv.build(network(), shapes={"x": SHAPES}, threads=2)


@pytest.fixture(scope="module")
def saved(model: tvmconv.CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("saved") / "widths.so")


def check(run: object, shape: tuple[int, ...]) -> None:
    x = image(shape)
    (wanted,) = run_reference(network(), {"x": x})
    got = np.asarray(run({"x": x})[0])  # type: ignore[operator]
    assert got.shape == wanted.shape == (1, shape[-1], 10)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[2], SHAPES[0], SHAPES[1]])
def test_the_shape_of_the_input_selects_the_program(
    model: tvmconv.CompiledModel, saved: Path, shape: tuple[int, ...]
) -> None:
    for each in (model, tvmconv.load(saved), portable.load(saved)):
        check(each.run, shape)
        bound = each.bind({"x": image(shape)})
        check(lambda _, bound=bound: bound.outputs(), shape)
        y = np.empty((1, shape[-1], 10), np.float32)
        check(lambda x, each=each, y=y: each.run_into(x, [y]), shape)


def test_threads_call_different_shapes(saved: Path) -> None:
    loaded = tvmconv.load(saved, threads=1)
    wanted = {shape: loaded.run(image(shape))[0] for shape in SHAPES}

    def call(index: int) -> bool:
        shape = SHAPES[index % len(SHAPES)]
        return bool(np.array_equal(loaded.run(image(shape))[0], wanted[shape]))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(200)))


def test_another_shape_is_an_error_that_lists_those_of_the_model(saved: Path) -> None:
    for each in (tvmconv.load(saved), portable.load(saved)):
        with pytest.raises(InputError, match=r"1, 4, 8, 13.*1, 4, 8, 12.*24.*32"):
            each.run(image((1, 4, 8, 13)))
    with pytest.raises(InputError, match="type float64"):
        tvmconv.load(saved).run(np.zeros(SHAPES[0]))


def test_programs_describe_each_shape_and_share_weights(
    model: tvmconv.CompiledModel, saved: Path
) -> None:
    loaded = tvmconv.load(saved)
    for each in (model, loaded, portable.load(saved)):
        assert [program.inputs[0].shape for program in each.programs] == SHAPES
        assert [program.outputs[0].shape for program in each.programs] == [
            (1, width, 10) for width in WIDTHS
        ]
        assert each.inputs == each.programs[0].inputs
        assert [len(each.profile({"x": image(shape)}, repeat=1)) for shape in SHAPES] == [
            len(program.calls) for program in each.programs
        ]
    assert loaded.manifest.programs[2].decisions == model.programs[2].decisions
    alone = tvmconv.build(network(), shapes={"x": SHAPES[-1]}, threads=2)
    own = sum(program.memory.own_constant_bytes for program in model.programs)
    assert model.memory.constant_bytes <= alone.memory.constant_bytes + own
    assert model.memory.arena_bytes == max(p.memory.arena_bytes for p in model.programs)
    kernels = [{call.kernel for call in program.calls} for program in model.programs]
    assert all(decision.kernel in kernels[1] for decision in model.programs[1].decisions)
    # the comparison with zero does not depend on the width
    assert set.intersection(*kernels) - {""}


def test_external_weights_and_fresh_process(model: tvmconv.CompiledModel, tmp_path: Path) -> None:
    path = model.save(tmp_path / "apart.so", weights="external")
    check(tvmconv.load(path).run, SHAPES[1])
    code = (
        "import sys, numpy as np; from tvmconv.runtime.portable import load;"
        "x = np.load(sys.argv[2]); np.save(sys.argv[3], load(sys.argv[1]).run({'x': x})[0])"
    )

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        np.save(tmp_path / "x.npy", inputs["x"])
        files = [path, tmp_path / "x.npy", tmp_path / "y.npy"]
        subprocess.run([sys.executable, "-c", code, *files], check=True)
        return [np.load(tmp_path / "y.npy")]

    check(run, SHAPES[2])


def test_c_interface(saved: Path) -> None:
    loaded = CModel(saved)
    assert len(loaded.programs) == len(WIDTHS)
    for shape in SHAPES[::-1]:
        loaded.set_shapes(shape)
        check(lambda inputs: loaded.run(inputs["x"]), shape)
        assert len(loaded.profile(image(shape))) == len(loaded.layers)
    with pytest.raises(RuntimeError) as refused:
        loaded.set_shapes((1, 4, 8, 13))
    assert str(refused.value) == (
        "the model was not built for the input x (1, 4, 8, 13). Expected x (1, 4, 8, 12); or "
        "x (1, 4, 8, 24); or x (1, 4, 8, 32)."
    )
    # the state keeps its program
    check(lambda inputs: loaded.run(inputs["x"]), SHAPES[0])
    loaded.close()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_bundle_selects_by_the_size_of_the_file(
    model: tvmconv.CompiledModel, tmp_path: Path
) -> None:
    model.bundle(tmp_path / "bundle", "widths")
    header = (tmp_path / "bundle/widths.h").read_text()
    assert "#define WIDTHS_PROGRAM_COUNT 3" in header
    assert "#define WIDTHS_PROGRAM_2_INPUT_0_SHAPE {1, 4, 8, 32}" in header

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        inputs["x"].tofile(tmp_path / "x.bin")
        script = ["sh", tmp_path / "bundle/run.sh", "-o", tmp_path, "-r", "1", tmp_path / "x.bin"]
        subprocess.run(script, check=True)
        return [np.fromfile(tmp_path / "0.out", np.float32).reshape(1, -1, 10)]

    check(run, SHAPES[1])


def test_commands(saved: Path, tmp_path: Path) -> None:
    said = invoke("explain", saved).stdout
    assert "3 input shapes" in said
    assert all(f"1x4x8x{width}" in said for width in WIDTHS)
    data = data_of("explain", saved)
    assert [row["shapes"] for row in data["shapes"]] == [f"1x4x8x{width}" for width in WIDTHS]
    assert [len(program["layers"]) for program in data["programs"]] == [3, 3, 3]
    one = invoke("explain", saved, "--shape", "x:1x4x8x24", "--layer", "second")
    assert "ih8iw24" in one.stdout
    np.save(tmp_path / "x.npy", image(SHAPES[1]))
    given = invoke("run", saved, "--input", f"x={tmp_path / 'x.npy'}", "--repeat", 1)
    assert given.exit_code == 0 and "24" in given.stdout
    assert invoke("profile", saved, "--shape", "x:1x4x8x32", "--repeat", 1).exit_code == 0
    refused = invoke("run", saved, "--shape", "x:1x4x8x13")
    assert "1x4x8x12; 1x4x8x24; 1x4x8x32" in refused.output


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        ({"x": [(1, 4, 8, 12), (1, 4, 8, 12)]}, "twice"),
        ({"x": [(1, 4, 8, 12), (1, 4, 8, 0)]}, "positive"),
        ({"x": [(1, 4, 8, 12), (1, 4, 8)]}, "rank"),
    ],
)
def test_lists_that_are_refused(shapes: dict[str, object], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        tvmconv.build(network(), shapes=shapes, threads=1)  # type: ignore[arg-type]


def test_gpus_serve_one_shape() -> None:
    with pytest.raises(ConfigError, match=r"3 shapes for .*Expected one"):
        tvmconv.build(network(), "cuda:sm_90", shapes={"width": list(WIDTHS)})


def test_tvm_s_loader_selects_by_the_shapes_of_tensors(
    model: tvmconv.CompiledModel, tmp_path: Path
) -> None:
    # a process opens one library of a name
    path = model.save(tmp_path / "loader.so")
    main = tvm_ffi.load_module(str(path))["main"]

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        y = np.empty((1, inputs["x"].shape[-1], 10), np.float32)
        main(*map(tvm_ffi.from_dlpack, (inputs["x"], y)))
        return [y]

    for shape in (*SHAPES, SHAPES[0]):
        check(run, shape)
    with pytest.raises(ValueError, match=r"not built for the input x \(1, 4, 8, 13\)"):
        run({"x": image((1, 4, 8, 13))})


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_cpp(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "use.cc").write_text(_CPP)
    command = ["g++", "-std=c++11", "-Wall", "-Werror", f"-I{C_SOURCES}", tmp_path / "use.cc"]
    subprocess.run([*command, "-o", tmp_path / "use", "-ldl"], check=True)

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        inputs["x"].tofile(tmp_path / "x.bin")
        width = str(inputs["x"].shape[-1])
        done = subprocess.run(
            [tmp_path / "use", saved, width, tmp_path / "x.bin"], check=True, capture_output=True
        )
        return [np.frombuffer(done.stdout, np.float32).reshape(1, -1, 10)]

    check(run, SHAPES[2])
    check(run, SHAPES[0])


def test_sizes_that_depend_on_the_data() -> None:
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["places"])],
        "places",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("places", TensorProto.INT64, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    places = tvmconv.build(proto, shapes={"rows": [5, 2]}, threads=1)
    assert [program.outputs[0].shape for program in places.programs] == [(2, 20), (2, 8)]
    for rows in (2, 5, 2):
        x = np.zeros((rows, 4), np.float32)
        x[rows - 1, 1:3] = 1
        np.testing.assert_array_equal(places.run(x)[0], np.nonzero(x))


def test_check_and_tune_go_through_all_shapes(tmp_path: Path) -> None:
    path = tmp_path / "widths.onnx"
    onnx.save(network(), path)
    tasks = collect(MACHINES["x86-64-v3"], [path], shapes={"x": SHAPES[:2]})
    sizes = {(task.workload.in_channels, task.workload.in_width) for task in tasks}
    # the fully connected layer is the same for all shapes
    assert sizes == {(4, 12), (16, 12), (4, 24), (16, 24), (16, 1)}
    assert invoke("check", path, "--shape", "x:1x4x8x12,24").exit_code == 0
    assert invoke("check", path, "--shape", "x:1x4,5x8x12,24").exit_code == 1
