"""Folding and merging against onnxruntime on the model as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_runner import make_model, noise, run, run_reference
from tvmconv.frontend import layer_name, read_model, to_relax


def batch_norm(name: str, source: str, target: str, channels: int) -> tuple[Any, dict]:
    random = np.random.default_rng(len(name))
    values = {
        f"{name}.s": random.uniform(0.5, 2, channels),
        f"{name}.b": random.standard_normal(channels),
        f"{name}.m": random.standard_normal(channels),
        f"{name}.v": random.uniform(0.1, 3, channels),
    }
    node = helper.make_node("BatchNormalization", [source, *values], [target], name, epsilon=1e-3)
    return node, {key: value.astype(np.float32) for key, value in values.items()}


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op for node in read_model(model).graph.nodes]


def check(model: onnx.ModelProto, feeds: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    """Both the exported simplified model and the compiled one compute what the model does."""
    wanted = run_reference(model, feeds)
    loaded = read_model(model)
    onnx.checker.check_model(loaded.proto, full_check=True)
    for results in (run_reference(loaded.proto, feeds), run(model, feeds)):
        for want, got in zip(wanted, results, strict=True):
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_batch_norm_and_scale_fold_into_convolution(kind: str, groups: int, bias: bool) -> None:
    channels = 6
    weight = (6, 4 // groups, 3, 3) if kind == "Conv" else (4, 6 // groups, 3, 3)
    norm, constants = batch_norm("bn", "c", "n", channels)
    constants |= {"w": noise(*weight), "k": noise(6, 1, 1, seed=1), "t": noise(1, 6, 1, 1, seed=2)}
    constants["e"] = 1.5 + noise(6, 1, 1, seed=4) ** 2
    inputs = ["x", "w"]
    if bias:
        inputs.append("b")
        constants["b"] = noise(6, seed=3)
    nodes = [
        helper.make_node(kind, inputs, ["c"], "conv.1", group=groups),
        norm,
        helper.make_node("Mul", ["k", "n"], ["p"]),
        helper.make_node("Sub", ["t", "p"], ["r"]),
        helper.make_node("Add", ["r", "k"], ["d"]),
        helper.make_node("Div", ["d", "e"], ["q"]),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    model = make_model(nodes, {"x": (1, 4, 6, 6)}, ["y"], constants)
    assert [kind, "Relu"] == operators(model)
    check(model, {"x": noise(1, 4, 6, 6)})


def test_batch_norm_alone_becomes_one_mul_and_one_add() -> None:
    norm, constants = batch_norm("bn", "x", "n", 3)
    nodes = [
        norm,
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["y"], "conv"),
    ]
    model = make_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], constants | {"w": noise(4, 3, 3, 3)})
    assert operators(model) == ["Mul", "Add", "Relu", "Conv"]
    check(model, {"x": noise(1, 3, 5, 5)})


def test_a_convolution_with_other_readers_keeps_its_weights() -> None:
    norm, constants = batch_norm("bn", "c", "n", 4)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        norm,
        helper.make_node("Add", ["c", "n"], ["y"]),
    ]
    model = make_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], constants | {"w": noise(4, 3, 3, 3)})
    assert operators(model) == ["Conv", "Mul", "Add", "Add"]
    check(model, {"x": noise(1, 3, 5, 5)})


def test_weights_shared_by_two_convolutions() -> None:
    first, a = batch_norm("bn", "c", "n", 3)
    second, b = batch_norm("bn_second", "d", "y", 3)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "one", pads=[1, 1, 1, 1]),
        first,
        helper.make_node("Conv", ["n", "w"], ["d"], "two", pads=[1, 1, 1, 1]),
        second,
    ]
    model = make_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], a | b | {"w": noise(3, 3, 3, 3)})
    assert operators(model) == ["Conv", "Conv"]
    check(model, {"x": noise(1, 3, 5, 5)}, 1e-4)


def test_batch_norm_of_two_dimensions_and_run_time_statistics() -> None:
    norm, constants = batch_norm("bn", "x", "y", 5)
    check(make_model([norm], {"x": (4, 5)}, ["y"], constants), {"x": noise(4, 5)})
    norm, constants = batch_norm("bn", "x", "y", 5)
    inputs = {"x": (2, 5, 3), **dict.fromkeys(constants, (5,))}
    check(make_model([norm], inputs, ["y"]), {"x": noise(2, 5, 3), **constants})


C = {"half": 0.5, "one": 1.0, "root": 2**0.5, "two": 2.0, "three": 3.0}
C |= {"cubic": 0.044715, "scale": (2 / np.pi) ** 0.5, "inverse": 0.5**0.5}
SPELLINGS = {
    "half_last": [("Div", "x root", "a"), ("Erf", "a", "e"), ("Add", "e one", "f"),
                  ("Mul", "x f", "g"), ("Mul", "g half", "y")],
    "half_first": [("Div", "x root", "a"), ("Erf", "a", "e"), ("Add", "e one", "f"),
                   ("Mul", "x half", "g"), ("Mul", "g f", "y")],
    "half_on_factor": [("Div", "x root", "a"), ("Erf", "a", "e"), ("Add", "one e", "f"),
                       ("Mul", "f half", "g"), ("Mul", "x g", "y")],
    "divided_last": [("Mul", "inverse x", "a"), ("Erf", "a", "e"), ("Add", "e one", "f"),
                     ("Mul", "x f", "g"), ("Div", "g two", "y")],
    "of_a_product": [("Mul", "z z", "x"), ("Mul", "x inverse", "a"), ("Erf", "a", "e"),
                     ("Add", "e one", "f"), ("Mul", "x half", "g"), ("Mul", "f g", "y")],
    "tanh_of_products": [("Mul", "x x", "a"), ("Mul", "a x", "b"), ("Mul", "cubic b", "c"),
                         ("Add", "x c", "d"), ("Mul", "d scale", "e"), ("Tanh", "e", "t"),
                         ("Add", "t one", "f"), ("Mul", "x half", "g"), ("Mul", "g f", "y")],
    "tanh_of_power": [("Pow", "x three", "a"), ("Mul", "a cubic", "b"), ("Add", "b x", "c"),
                      ("Mul", "scale c", "d"), ("Tanh", "d", "t"), ("Add", "one t", "f"),
                      ("Mul", "f x", "g"), ("Mul", "half g", "y")],
    "tanh_of_square": [("Mul", "x cubic", "a"), ("Mul", "a x", "b"), ("Add", "one b", "c"),
                       ("Mul", "x scale", "d"), ("Mul", "d c", "e"), ("Tanh", "e", "t"),
                       ("Add", "t one", "f"), ("Mul", "x half", "g"), ("Mul", "g f", "y")],
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_gelu_spelled_out(name: str) -> None:
    nodes = [helper.make_node(op, ins.split(), [out]) for op, ins, out in SPELLINGS[name]]
    constants = {key: np.float32(value) for key, value in C.items()}
    name = nodes[0].input[0] if nodes[0].output[0] == "x" else "x"
    model = make_model(nodes, {name: (1, 3, 4, 5)}, ["y"], constants, opset=13)
    assert operators(model)[-1] == "Gelu" and len(operators(model)) == 1 + (name == "z")
    check(model, {name: 4 * noise(1, 3, 4, 5)})


def test_a_near_miss_stays_as_it_is() -> None:
    constants = {key: np.float32(value) for key, value in C.items()}
    steps = [("Erf", "x", "e"), ("Add", "e one", "f"), ("Mul", "x f", "g"), ("Mul", "g half", "y")]
    nodes = [helper.make_node(op, ins.split(), [out]) for op, ins, out in steps]
    model = make_model(nodes, {"x": (1, 3, 4, 5)}, ["y"], constants, opset=13)
    assert [op for op, _, _ in steps] == operators(model)
    check(model, {"x": 4 * noise(1, 3, 4, 5)})


@pytest.mark.parametrize("name", SPELLINGS)
def test_constants_of_a_gelu(name: str) -> None:
    """The constants of an FP16 model are rounded to FP16; constants of other models may not be."""
    nodes = [helper.make_node(op, ins.split(), [out]) for op, ins, out in SPELLINGS[name]]
    inputs = {"z" if nodes[0].output[0] == "x" else "x": (2, 5)}

    def found(**changed: float) -> bool:
        constants = {key: np.float32(value) for key, value in (C | changed).items()}
        return "Gelu" in operators(make_model(nodes, inputs, ["y"], constants, opset=13))

    assert found(**{key: float(np.float16(value)) for key, value in C.items()})
    read = {word for node in nodes for word in node.input} & set(C) - {"three"}
    changes = {key: C[key] * (1.0001 if key in ("half", "two") else 1.001) for key in read}
    assert not any(found(**{key: value}) for key, value in changes.items())


def test_layer_names_survive() -> None:
    norm, constants = batch_norm("bn", "c", "n", 4)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "/layer1/layer1.0/conv1/Conv"),
        norm,
        helper.make_node("GlobalAveragePool", ["n"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "u"], ["y"], "fc 1000", transB=1, alpha=0.5),
    ]
    constants |= {"w": noise(4, 3, 3, 3), "b": noise(4), "v": noise(7, 4), "u": noise(7)}
    model = make_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], constants)
    names = {}
    for binding in to_relax(read_model(model))["main"].body.blocks[0].bindings:
        if hasattr(binding.value, "op"):
            names[binding.value.op.name] = layer_name(binding.var)
    assert names["relax.nn.conv2d"] == "/layer1/layer1.0/conv1/Conv"
    assert names["relax.matmul"] == "fc 1000"
    assert names["relax.mean"] == "pool"
    check(model, {"x": noise(1, 3, 5, 5)})


def test_the_given_model_is_not_changed() -> None:
    norm, constants = batch_norm("bn", "c", "y", 4)
    conv = helper.make_node("Conv", ["x", "w"], ["c"], "conv")
    model = make_model(
        [conv, norm], {"x": (1, 3, 5, 5)}, ["y"], constants | {"w": noise(4, 3, 3, 3)}
    )
    before = model.SerializeToString()
    to_relax(read_model(model))
    assert before == model.SerializeToString()


def test_path_bytes_and_proto_agree(tmp_path: Any) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], "conv")
    model = make_model([conv], {"x": (1, 3, 5, 5)}, ["y"], {"w": noise(4, 3, 3, 3)})
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    hashes = {read_model(m).sha256 for m in (path, str(path), path.read_bytes(), model)}
    assert len(hashes) == 1
    assert read_model(path).name == "net"
