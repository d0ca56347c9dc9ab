"""``python -m examples.quantise``: INT8 models that compute nearly the same as the FP32 ones."""

from __future__ import annotations

import re
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from examples.networks import NETWORKS
from examples.quantise import Recipe, quantise
from examples.quantise.__main__ import main
from examples.quantise.images import random_images
from tests.networks.compare import onnxruntime_outputs
from tvmconv.core.errors import InputError, ModelError

SHAPE = (3, 64, 64)


@pytest.fixture(scope="module")
def resnet() -> onnx.ModelProto:
    return NETWORKS["resnet18"](image=64, width=0.25)


def _logits(model, images):
    (name,) = (value.name for value in model.graph.input)
    return np.concatenate(
        [next(iter(onnxruntime_outputs(model, {name: x[None]}).values())) for x in images]
    )


def _values(model):
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def _weights_of(model, operator):
    """INT8 weight and its scale of every node of an operator."""
    values = _values(model)
    sources = {node.output[0]: node for node in model.graph.node}
    for node in model.graph.node:
        if node.op_type == operator:
            weight, scale = sources[node.input[1]].input[:2]
            yield values[weight], values[scale]


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(),
        Recipe(form="qoperator"),
        Recipe(activations="s8", weights="s8", per_channel=False),
        Recipe(activations="u8", weights="u8"),
    ],
    ids=str,
)
def test_results_are_near_those_in_float32(resnet, recipe):
    result = quantise(resnet, random_images(SHAPE, 4, seed=0), recipe)
    onnx.checker.check_model(result)
    assert not any(node.op_type == "BatchNormalization" for node in result.graph.node)
    images = random_images(SHAPE, 4, seed=1)
    expected, found = (_logits(model, images) for model in (resnet, result))
    # random networks give all images nearly the same logits, so the differences are compared, too
    for a, b in ((expected, found), (expected - expected.mean(0), found - found.mean(0))):
        assert np.sum(a * b) > 0.9 * np.linalg.norm(a) * np.linalg.norm(b)


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize(("activations", "weights"), [("u8", "u8"), ("u8", "s8"), ("s8", "s8")])
def test_types_and_scales_are_those_asked_for(resnet, activations, weights, per_channel):
    recipe = Recipe(activations=activations, weights=weights, per_channel=per_channel)
    kinds = {"u8": np.dtype(np.uint8), "s8": np.dtype(np.int8)}
    model = quantise(resnet, random_images(SHAPE, 1, seed=0), recipe)
    found = list(_weights_of(model, "Conv"))
    assert len(found) == 20
    for weight, scale in found:
        assert weight.dtype == kinds[weights]
        assert scale.size == (len(weight) if per_channel else 1)
    points = [node.input[2] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert {_values(model)[name].dtype for name in points} == {kinds[activations]}


def _input_scale(path):
    model = onnx.load(path)
    (node,) = (n for n in model.graph.node if n.input[0] == "input")
    assert node.op_type == "QuantizeLinear"
    return float(_values(model)[node.input[1]])


@pytest.fixture
def small(tmp_path):
    """A file with one convolution of images (2, 8, 8) and a symbolic batch."""
    nodes = [helper.make_node("Conv", ["input", "w"], ["y"], pads=[1] * 4)]
    weight = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, 8, 8])],
        [numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "small.onnx"
    # a scale for each channel needs opset 13: the model is converted
    opset = [helper.make_opsetid("", 11)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.mark.parametrize("form", ["folder", "npy", "npz"])
def test_ranges_are_those_of_the_given_images(tmp_path, small, form):
    rng = np.random.default_rng(0)
    images = rng.uniform(-1, 1, (3, 2, 8, 8)).astype(np.float32)
    images[1, 0, 0, 0], images[2, 1, 7, 7] = -3, 5
    given = tmp_path / form
    if form == "folder":
        given.mkdir()
        np.save(given / "a.npy", images[0])
        np.save(given / "b.npy", images[1:])
    elif form == "npy":
        given = given.with_suffix(".npy")
        np.save(given, images.astype(np.float64))
    else:
        given = given.with_suffix(".npz")
        np.savez(given, first=images[:2], second=images[2])
    assert main([str(small), "--images", str(given)]) == 0
    assert _input_scale(tmp_path / "small.int8.onnx") == pytest.approx(8 / 255)
    assert main([str(small), "--images", str(given), "--count", "2"]) == 0
    assert _input_scale(tmp_path / "small.int8.onnx") < 5 / 255


def test_the_percentile_leaves_out_rare_values(tmp_path, small):
    images = np.random.default_rng(0).standard_normal((64, 2, 8, 8))
    images[0, 0, 0, 0] = 25
    np.save(tmp_path / "images.npy", images)
    scales = {}
    for how in ("minmax", "entropy", "percentile"):
        given = ["--images", str(tmp_path / "images.npy"), "--percentile", "99.9"]
        assert main([str(small), *given, "--calibration", how]) == 0
        scales[how] = _input_scale(tmp_path / "small.int8.onnx")
    assert scales["minmax"] == pytest.approx((images.max() - images.min()) / 255)
    # onnxruntime may take less, and so far does not
    assert 4 / 255 < scales["entropy"] < 1.01 * scales["minmax"]
    assert 4 / 255 < scales["percentile"] < 12 / 255


def test_the_same_seed_gives_the_same_file(tmp_path, small):
    contents = []
    for seed in (0, 0, 1):
        assert main([str(small), "--seed", str(seed), "-o", str(tmp_path / "o.onnx")]) == 0
        contents.append((tmp_path / "o.onnx").read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_random_images_have_the_spectrum_of_photographs():
    images = random_images((3, 37, 64), 4, seed=3)
    assert images.shape == (4, 3, 37, 64) and images.dtype == np.float32
    assert images.mean((1, 2, 3)) == pytest.approx(0, abs=1e-5)
    assert images.std((1, 2, 3)) == pytest.approx(1, rel=1e-4)
    near, far = (np.mean(images[..., d:] * images[..., :-d]) for d in (1, 16))
    assert near > 0.6 > 0.4 > far
    assert np.isfinite(random_images((1, 1, 1), 2, seed=0)).all()


def _folder(path):
    path.mkdir()
    return path


def _saved(path, **arrays):
    np.savez(path, **arrays)
    return path


BAD_IMAGES = {
    "missing": (lambda p: p / "nothing.npz", "cannot read .*nothing.npz"),
    "empty folder": (lambda p: _folder(p / "none"), "none has no .npy"),
    "other shape": (lambda p: _saved(p / "x.npz", a=np.zeros((2, 8, 7))), r"x.npz: a has shape"),
    "no image": (lambda p: _saved(p / "x.npz", a=np.zeros((0, 2, 8, 8))), "x.npz holds no image"),
    "NaN": (lambda p: _saved(p / "x.npz", a=np.full((2, 8, 8), np.nan)), "x.npz: a .* not finite"),
    "text": (lambda p: _saved(p / "x.npz", a=np.full((2, 8, 8), "x")), "x.npz: a holds <U1"),
    "not numpy": (lambda p: p / "small.onnx", "cannot read .*small.onnx as .npy"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_bad_images_are_reported(tmp_path, small, case, capsys):
    make, message = BAD_IMAGES[case]
    _assert_refused([str(small), "--images", str(make(tmp_path))], message, tmp_path, capsys)


def _damaged(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return path


def _two_inputs(path):
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1]))
    onnx.save(model, path)
    return path


def _sized(path, *dims):
    model = onnx.load(path)
    value = helper.make_tensor_value_info("input", TensorProto.FLOAT, dims)
    model.graph.input[0].CopyFrom(value)
    onnx.save(model, path)
    return path


def _unknown_operator(path):
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("nobody", 1))
    model.graph.node[0].domain = "nobody"
    onnx.save(model, path)
    return path


BAD_MODELS = {
    "missing": (lambda p: p.with_name("nothing.onnx"), "nothing.onnx is not a file"),
    "damaged": (_damaged, "small.onnx is no valid ONNX model"),
    "two inputs": (_two_inputs, "small.onnx: one input is needed .* input, mask"),
    "symbolic size": (lambda p: _sized(p, 1, 2, "h", 8), r"small.onnx: .*\(1, 2, '\?', 8\)"),
    "unknown operator": (_unknown_operator, "small.onnx: onnxruntime cannot quantise"),
    "large batch": (lambda p: _sized(p, 9, 2, 8, 8), "small.onnx.*2 calibration images"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_models_are_reported(tmp_path, small, case, capsys):
    make, message = BAD_MODELS[case]
    np.save(tmp_path / "two.npy", np.zeros((2, 2, 8, 8)))
    arguments = [str(make(small)), "--images", str(tmp_path / "two.npy")]
    _assert_refused(arguments, message, tmp_path, capsys)


def _assert_refused(arguments, message, folder, capsys):
    output = folder / "out.onnx"
    output.write_text("what stood there")
    files = sorted(folder.rglob("*"))
    assert main([*arguments, "-o", str(output)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
    assert output.read_text() == "what stood there"
    assert sorted(folder.rglob("*")) == files


def test_a_quantized_model_is_refused(small):
    images = random_images((2, 8, 8), 1, seed=0)
    with pytest.raises(ModelError, match="quantised already"):
        quantise(quantise(onnx.load(small), images), images)
    with pytest.raises(ModelError, match="0 calibration images"):
        quantise(onnx.load(small), images[:0])


def test_forms_that_onnxruntime_lacks_are_refused():
    with pytest.raises(InputError, match="u8 weights beside s8"):
        Recipe(activations="s8", weights="u8")


def test_the_model_itself_is_not_overwritten(small, capsys):
    content = small.read_bytes()
    assert main([str(small), "-o", str(small)]) == 1
    assert "name another file" in capsys.readouterr().err
    assert small.read_bytes() == content


def test_a_missing_onnxruntime_is_reported(small, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main([str(small)]) == 1
    assert "pip install 'tvmconv[peers]'" in capsys.readouterr().err
