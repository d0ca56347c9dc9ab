"""Networks whose layers round operands: built, saved, named, and run by the emulated driver."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.compile.test_cuda import Built, needs_emulator, needs_nvcc
from tests.small_network import small_network
from tvmconv.cli.opening import open_model
from tvmconv.core.errors import ConfigError
from tvmconv.frontend import read_model, to_relax
from tvmconv.frontend.canonical import layer_name
from tvmconv.graph.layout import plan_layouts
from tvmconv.graph.prelude import prepare
from tvmconv.graph.read import read_function
from tvmconv.machines.cuda import MACHINES as GPUS
from tvmconv.machines.presets import MACHINES
from tvmconv.selection.policy import check_precision, make_policy

ALGORITHM = "implicit_gemm_mma"


@pytest.fixture(scope="module")
def halves(tmp_path_factory) -> Built:
    folder = tmp_path_factory.mktemp("precision") / "halves"
    # selection would choose few algorithms for layers so small
    asked = {"algorithm": ALGORITHM, "knobs": {"precision": "fp16"}}
    overrides = {"stem": asked, "projection": asked}
    return Built(folder, small_network(2), precision="fp16", overrides=overrides)


@needs_nvcc
@needs_emulator
class TestHalves:
    def test_results_are_as_near_as_rounded_operands_allow(self, halves):
        inputs = halves.inputs()
        (result,) = halves.run(inputs)
        (right,) = halves.expected(inputs)
        error = np.abs(result - right).max() / np.abs(right).max()
        # some layers of 2 ** -11 each; a sum that is exactly float32 would be a fault, too
        assert 1e-5 < error < 5e-3

    def test_the_saved_model_names_the_precision_of_each_layer(self, halves):
        model = open_model(halves.path, "native", None, None, here=False)
        assert model.manifest.policy["precision"] == "fp16"
        found = {d.layer: d for d in model.decisions}
        for layer in ("stem", "projection"):
            assert found[layer].precision == "fp16"
            assert 1e-5 < found[layer].rounding_error < 1e-3
            assert found[layer].chosen.error == pytest.approx(2.7e-4, rel=0.1)
        assert found["depthwise"].precision == "float32"
        assert found["depthwise"].rounding_error is None
        report = model.explain()
        assert report.facts["precision"] == "fp16"
        assert report.facts["precisions"]["fp16"] >= 2
        (layers,) = (table for table in report.tables if table.name == "layers")
        assert {row["layer"]: row["precision"] for row in layers.rows}["depthwise"] == "float32"
        assert "fp16" in str(report)

    def test_weights_are_fp16(self, halves):
        (projection,) = (d for d in halves.model.decisions if d.layer == "projection")
        # 32 channels of 32
        assert projection.chosen.packed_weight_bytes == 2 * 32 * 32

    def test_no_kernel_spills(self, halves):
        for call in halves.model.calls:
            for launch in call.launches:
                assert launch.spill_bytes == 0 or ALGORITHM not in launch.kernel


def dense_network() -> onnx.ModelProto:
    """Fully connected layers of 2 x 9 rows with every epilogue, and one of 2 rows."""
    generator = np.random.default_rng(1)
    constants = {
        name: numpy_helper.from_array(generator.standard_normal(shape).astype("float32"), name)
        for name, shape in {"up": (24, 40), "b": (40,), "down": (40, 24), "out": (24, 5)}.items()
    }
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "up"], ["u"], "up"),
        node("Add", ["u", "b"], ["ub"], "up_bias"),
        node("Relu", ["ub"], ["r"], "up_relu"),
        node("MatMul", ["r", "down"], ["d"], "down"),
        node("Add", ["d", "x"], ["s"], "residual"),
        node("ReduceMean", ["s"], ["m"], "mean", axes=[1], keepdims=1),
        node("MatMul", ["m", "out"], ["y"], "head"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "dense",
        [value("x", TensorProto.FLOAT, [2, 9, 24])],
        [value("y", TensorProto.FLOAT, [2, 1, 5])],
        list(constants.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


@needs_nvcc
@needs_emulator
def test_fully_connected_layers_of_any_rank_are_on_tensor_cores(tmp_path):
    asked = {"algorithm": ALGORITHM, "knobs": {"precision": "tf32"}}
    overrides = {"down": asked}
    built = Built(tmp_path / "dense", dense_network(), precision="tf32", overrides=overrides)
    found = {d.layer: d for d in built.model.decisions}
    # with two rows there is a sum for each result
    assert set(found) == {"up", "down"}
    assert found["down"].precision == "tf32" and 1e-5 < found["down"].rounding_error < 1e-3
    assert [step.kind for step in found["up"].workload.epilogue] == ["bias", "relu"]
    assert [step.kind for step in found["down"].workload.epilogue] == ["add"]
    inputs = built.inputs()
    np.savez(built.path.parent / "in.npz", **inputs)
    built.check_python(
        "import numpy as np, tvmconv\n"
        "np.savez('out.npz', *tvmconv.load(path).run(dict(np.load('in.npz'))))"
    )
    (result,) = np.load(built.path.parent / "out.npz").values()
    (right,) = built.expected(inputs)
    error = np.abs(result - right).max() / np.abs(right).max()
    assert 1e-6 < error < 2e-3


@pytest.mark.parametrize("machine", [MACHINES["x86-64-v3"], GPUS["cuda:sm_80"]], ids=str)
def test_only_targets_that_have_a_precision_take_it(machine):
    check_precision(make_policy(), machine)
    policy = make_policy(precision="tf32")
    if machine.kind == "cuda":
        check_precision(policy, machine)
        return
    with pytest.raises(ConfigError, match=r"precision='tf32' requires a CUDA target"):
        check_precision(policy, machine)


def test_a_processor_is_refused_before_anything_is_built():
    with pytest.raises(ConfigError, match="got x86-64-v3\\. Leave it out, or build"):
        tvmconv.build(small_network(), "x86-64-v3", precision="fp16")


@pytest.mark.parametrize("value", ["half", "", 16, None, ["tf32"]])
def test_an_unknown_precision_is_an_error(value):
    with pytest.raises(ConfigError, match="is unknown; use float32, tf32, fp16"):
        make_policy(precision=value)


def with_large_weights():
    model = small_network()
    (weight,) = (t for t in model.graph.initializer if t.name == "projection_w")
    weight.CopyFrom(numpy_helper.from_array(np.full((32, 32, 1, 1), 7e4, "float32"), weight.name))
    return model


def test_an_override_to_fp16_that_does_not_hold_a_weight_names_its_layer():
    asked = {"projection": {"algorithm": ALGORITHM, "knobs": {"precision": "fp16"}}}
    said = (
        r"layer 'projection': .* a weight of 7e\+04 would be infinite, as fp16 ends at 65504: ask"
    )
    with pytest.raises(ConfigError, match=said):
        tvmconv.build(with_large_weights(), "cuda:sm_90", overrides=asked)


@pytest.mark.parametrize(
    ("precision", "asked"), [("fp16", {}), ("float32", {"algorithm": ALGORITHM})]
)
def test_a_layer_whose_weights_fp16_does_not_hold_stays_float32(precision, asked):
    overrides = {"projection": asked} if asked else None
    policy = make_policy(precision=precision, overrides=overrides)
    machine = GPUS["cuda:sm_90"]
    graph = read_function(to_relax(read_model(with_large_weights()))["main"], layer_name)
    prepare(graph, machine)
    decisions = plan_layouts(graph, machine, policy=policy).decisions.values()
    (found,) = (d for d in decisions if d.layer == "projection")
    if asked:
        # the variant that holds fragments, of an algorithm with both variants
        assert found.precision == "tf32"
        return
    assert found.precision == "float32"
    assert "; not fp16: a weight of 7e+04 would be infinite, as fp16 ends at 65504" in found.reason
    refused = [each for each in found.rejected if each.algorithm == ALGORITHM]
    assert refused and all(each.cause == "range" for each in refused)
