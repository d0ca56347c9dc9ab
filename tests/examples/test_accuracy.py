"""``python -m examples.accuracy``: rounded and exact convolution of a trained network."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from examples.accuracy import __main__ as command
from examples.accuracy import checkpoint, integers, rounded
from examples.accuracy.dataset import CALIBRATION, CLASSES, TEST, TRAINING, dataset
from examples.accuracy.network import evaluate, read_layers
from examples.networks.resnet import resnet18_cifar
from tests.networks.compare import onnxruntime_outputs
from tvmconv.core.errors import ModelError


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return checkpoint.read_checkpoint()


@pytest.fixture(scope="module")
def layers(model):
    return read_layers(model)


@pytest.fixture(scope="module")
def images():
    return dataset(TEST, 60)


@pytest.fixture(scope="module")
def calibration():
    return dataset(CALIBRATION, 20)[0]


def _onnxruntime(model, images):
    return np.concatenate(
        [next(iter(onnxruntime_outputs(model, {"input": x[None]}).values())) for x in images]
    )


def test_sets_are_seeded_balanced_and_apart():
    first, labels = dataset(TEST, 20)
    assert first.shape == (20, 3, 32, 32) and first.dtype == np.float32
    assert np.bincount(labels).tolist() == [2] * len(CLASSES)
    np.testing.assert_array_equal(first, dataset(TEST, 20)[0])
    np.testing.assert_array_equal(first[:7], dataset(TEST, 7)[0])
    others = [dataset(part, 20)[0] for part in (TRAINING, CALIBRATION)] + [dataset(TEST, 20, 1)[0]]
    assert not any(np.array_equal(a, b) for other in others for a in first for b in other)


def test_the_checkpoint_is_a_small_file_of_the_network(model):
    assert checkpoint.CHECKPOINT.stat().st_size < 3e6
    fresh = resnet18_cifar(width=checkpoint.WIDTH / 64, classes=len(CLASSES))
    for a, b in zip(fresh.graph.initializer, model.graph.initializer, strict=True):
        assert (a.name, a.dims) == (b.name, b.dims)
    assert fresh.graph.node == model.graph.node


def test_another_checkpoint_is_refused(tmp_path, monkeypatch, capsys):
    path = tmp_path / "other.onnx"
    monkeypatch.setattr(checkpoint, "CHECKPOINT", path)
    with pytest.raises(ModelError, match=r"other\.onnx is missing; python -m"):
        checkpoint.read_checkpoint()
    path.write_bytes(b"x")
    assert command.main(["--images", "10"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "other.onnx has SHA-256 2d711642b726b044" in line


@pytest.mark.parametrize("tile", [0, 2, 4, 6])
def test_float_logits_are_onnxruntimes(model, layers, images, tile):
    some = images[0][:4]
    expected = _onnxruntime(model, some)
    found = evaluate(layers, some, rounded.Rounded(layers, tile))
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_rounded_intermediates_spare_small_tiles_alone(layers, images, calibration):
    rounded_to_8 = {}
    for tile in (0, 2, 4):
        ranges = rounded.observe(layers, tile, calibration)
        arithmetic = rounded.Rounded(layers, tile, 8, ranges)
        logits = evaluate(layers, images[0], arithmetic)
        rounded_to_8[tile] = np.mean(logits.argmax(1) == images[1])
    assert rounded_to_8[0] > 0.8 and rounded_to_8[2] > 0.8
    assert rounded_to_8[4] < 0.5


def test_exact_algorithms_give_the_same_logits(layers, images, calibration):
    shares = command.integer_shares(layers, *images, calibration)
    assert list(shares) == ["direct", "F(2x2, 3x3)", "F(4x4, 3x3)"]
    assert len(set(shares.values())) == 1 and shares["direct"] > 80


def test_a_different_logit_is_noticed(layers, images, calibration, monkeypatch):
    exact = integers.winograd
    monkeypatch.setattr(integers, "winograd", lambda *arguments: exact(*arguments) + 1000)
    with pytest.raises(AssertionError, match=r"F\(2x2, 3x3\) differs"):
        command.integer_shares(layers, images[0][:2], images[1][:2], calibration[:2])


def _reference(x, weight, zero_point):
    """By ONNX's own ConvInteger."""
    node = onnx.helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], pads=[1] * 4)
    values = [
        onnx.helper.make_tensor_value_info(name, kind, None)
        for name, kind in (("x", 2), ("w", 3), ("zero", 2), ("y", 6))
    ]
    graph = onnx.helper.make_graph([node], "g", values[:3], values[3:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    feeds = {"x": x, "w": weight, "zero": np.uint8(zero_point)}
    return ReferenceEvaluator(model).run(None, feeds)[0]


def _without_zero_point(y, weight, zero_point):
    return y - zero_point * weight.sum((1, 2, 3), dtype=np.int64)[:, None, None]


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("zero_point", [0, 131, 255])
@pytest.mark.parametrize("size", [(1, 1), (4, 8), (7, 5)])
def test_winograd_in_integers_is_exact(m, zero_point, size):
    rng = np.random.default_rng([m, zero_point, *size])
    x = rng.choice(np.array([0, 1, 254, 255, 77], np.uint8), (2, 5, *size))
    weight = rng.choice(np.array([-128, -127, 127, 3], np.int8), (3, 5, 3, 3))
    found = _without_zero_point(integers.winograd(x, weight, m, zero_point), weight, zero_point)
    np.testing.assert_array_equal(found, _reference(x, weight, zero_point))


def test_the_bound_is_reached_and_kept():
    """114 channels of -128 are the most that F(4x4) takes; sums before the shift overflow."""
    x = np.full((1, 115, 3, 3), 255, np.uint8)
    weight = np.full((1, 115, 3, 3), -128, np.int8)
    found = integers.winograd(x[:, :114], weight[:, :114], 4, 0)
    assert found[0, 0, 1, 1] == -255 * 128 * 9 * 114
    with pytest.raises(OverflowError, match=r"may reach 33782400, 2\^25"):
        integers.winograd(x, weight, 4, 0)
    assert integers.winograd(x, weight, 2, 0)[0, 0, 1, 1] == -255 * 128 * 9 * 115


def test_the_command_prints_a_table(capsys):
    arguments = ["--images", "10", "--calibration", "4", "--parts", "integers"]
    assert command.main([*arguments, "--through", "onnxruntime"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| F(")]
    assert [row.split("|")[3].strip() for row in rows] == ["those of direct"] * 2


def test_training_writes_what_torch_computes(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    from examples.accuracy import train

    monkeypatch.setattr(train, "WATCHED", 20)
    monkeypatch.setattr(train, "BATCH", 8)
    before = train.ResNet18(checkpoint.WIDTH)
    trained = train.train(epochs=1, images=24, seed=3).eval()
    assert not torch.equal(before.bn1.running_var, trained.bn1.running_var)
    path = tmp_path / "new.onnx"
    monkeypatch.setattr(train, "train", lambda *options: trained)
    train.main(["-o", str(path), "--threads", str(torch.get_num_threads())])
    assert checkpoint.sha256(path) in capsys.readouterr().out
    images, _ = dataset(TEST, 3)
    with torch.no_grad():
        expected = trained(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(_onnxruntime(onnx.load(path), images), expected, atol=1e-4)


def test_counts_below_one_are_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(["--images", "0"])
    assert stopped.value.code == 2
    assert "'0' is no number above 0" in capsys.readouterr().err
