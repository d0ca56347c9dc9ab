"""Built models that travel without their weights, and get them from another ONNX file's."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.emulated_gpu import EmulatedGpu, bare, needs_emulator
from tests.small_network import small_network
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.bench.gpu.onnx_structure import structure_and_weights
from tvmconv.lab.bench.gpu.recipes import Piece, Recipe
from tvmconv.machines.cuda import MACHINES

WEIGHTED = ("Conv", "Gemm", "MatMul")


def other_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network with other values of what convolutions and products multiply by and add."""
    weighted = {
        name for node in model.graph.node if node.op_type in WEIGHTED for name in node.input[1:]
    }
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.nbytes > 1024 or (tensor.name in weighted and value.size > 1):
            changed = np.roll(value, 1, 0) * np.float32(0.9)
            tensor.CopyFrom(numpy_helper.from_array(changed, tensor.name))
    return model


@needs_emulator
def test_a_kept_model_takes_the_weights_of_the_file_that_it_is_run_for(tmp_path):
    gpu = EmulatedGpu(tmp_path / "gpu")
    path, kit = tmp_path / "net.onnx", tmp_path / "kit"
    onnx.save(small_network(1), path)
    words = (
        "bench",
        "run",
        path,
        "--target",
        "cuda:sm_90",
        "--kernels",
        kit,
        "--baselines",
        "none",
        "--json",
    )
    done = gpu.tvmconv(*words, "--compile-only")
    assert done.returncode == 0, done.stderr
    # once more, without a driver
    again = gpu.tvmconv(*words, "--compile-only", LD_LIBRARY_PATH="")
    assert again.returncode == 0, again.stderr
    weights = structure_and_weights(path)[1]
    large = sum(array.nbytes for array in weights.values())
    (recipe,) = kit.glob("*.recipe")
    assert not list(kit.glob("*.weights"))
    read = Recipe.read(recipe)
    assert len(read.kept) < 2048 < large <= read.size
    onnx.save(other_weights(small_network(1)), path)
    timed = ("--rounds", "1", "--seconds", "0.001", "--samples", "1")
    done = gpu.tvmconv(*words, *timed, **bare(gpu, tmp_path))
    assert done.returncode == 0, done.stderr
    rows = {row["contender"]: row for row in json.loads(done.stdout)["measurements"]}
    assert rows["tvmconv"]["status"] == "ok", done.stdout
    assert rows["tvmconv"]["error"] < 1e-5


def test_structure_is_all_but_the_values_of_weights(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(small_network(1), path)
    found, weights = structure_and_weights(path)
    # a bias of few channels is a weight; the bounds of a clip are none
    assert {array.nbytes > 1024 for array in weights.values()} == {True, False}
    assert "six" not in weights
    onnx.save(other_weights(small_network(1)), path)
    assert structure_and_weights(path)[0] == found
    changed = small_network(1)
    (six,) = [t for t in changed.graph.initializer if t.name == "six"]
    six.CopyFrom(numpy_helper.from_array(np.array(5, "float32"), "six"))
    onnx.save(changed, path)
    assert structure_and_weights(path)[0] != found
    onnx.save(small_network(2), path)
    assert structure_and_weights(path)[0] != found


def test_last_bits_of_a_bias_make_no_other_model(tmp_path):
    """As numpy's sums on another processor do; a bias of zeros may be left out, so it counts."""
    path = tmp_path / "net.onnx"
    onnx.save(small_network(1), path)
    found, weights = structure_and_weights(path)
    small = [name for name, array in weights.items() if array.nbytes <= 1024]
    assert small
    for change, same in ((lambda v: np.nextafter(v, np.float32(9)), True), (np.zeros_like, False)):
        model = small_network(1)
        for tensor in model.graph.initializer:
            if tensor.name in small:
                value = change(numpy_helper.to_array(tensor))
                tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
        onnx.save(model, path)
        assert (structure_and_weights(path)[0] == found) is same


def test_a_recipe_names_what_it_misses(tmp_path):
    machine = MACHINES["cuda:sm_90"]
    pieces = (Piece(0, 8, "plain", "w"), Piece(64, 4, "kept"))
    recipe = Recipe("00" * 32, 68, pieces, b"abcd")
    recipe.write(tmp_path / "net.recipe")
    read = Recipe.read(tmp_path / "net.recipe")
    assert read == recipe
    content = read.file({"w": np.array([1, 2], "f4")}, machine)
    assert content[-68:-60].view("f4").tolist() == [1, 2]
    assert bytes(content[-4:]) == b"abcd"
    with pytest.raises(ArtifactError, match="another w than the built one"):
        read.file({}, machine)
    with pytest.raises(ArtifactError, match="w makes 12 bytes of constants, not 8"):
        read.file({"w": np.zeros(3, "f4")}, machine)
    (tmp_path / "net.recipe").write_bytes(b"{}")
    with pytest.raises(ArtifactError, match="holds no recipe of weights"):
        Recipe.read(tmp_path / "net.recipe")
