"""Cases where fuzzing has no reference, and that there are no more of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_runner import make_model, noise, run_reference
from tests.fuzz.compared import Measure, _difference, agrees, compare
from tests.fuzz.disputed import UNDEFINED, disputes, reference, skips_input
from tests.fuzz.runner import Wrong
from tests.fuzz.runtimes import by_node, by_onnxruntime, known_values, nudged_feeds


def test_the_fixed_normalization_agrees_with_onnxruntime() -> None:
    x = noise(3, 4)
    for attributes in ({"p": 1}, {"p": 2, "axis": 0}, {}):
        node = helper.make_node("LpNormalization", ["x"], ["y"], **attributes)
        model = make_model([node], {"x": x.shape}, ["y"])
        corrected = reference(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(corrected, run_reference(model, {"x": x})[0], 1e-5)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_the_fixed_local_response_agrees_with_onnxruntime(size: int) -> None:
    x = noise(2, 5, 3, 4)
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.3)
    model = make_model([node], {"x": x.shape}, ["y"])
    corrected = reference(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(corrected, run_reference(model, {"x": x})[0], 1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_fixed_pooling_agrees_with_onnxruntime(stride: int) -> None:
    x = noise(1, 2, 5, 6)

    def pool(*pads: int) -> onnx.ModelProto:
        node = helper.make_node(
            "MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[stride] * 2, pads=pads
        )
        return make_model([node], {"x": x.shape}, ["y"])

    for pads in ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 0), (2, 0, 1, 2)):
        corrected = reference(pool(*pads)).run(None, {"x": x})[0]
        np.testing.assert_array_equal(corrected, run_reference(pool(*pads), {"x": x})[0])
    with pytest.raises(ValueError, match="in the padding"):
        reference(pool(0, 0, 4, 0)).run(None, {"x": x})


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_the_fixed_softmax_of_old_operator_sets_agrees_with_onnxruntime(operator: str) -> None:
    x = noise(2, 3, 4)
    for opset, attributes in ((9, {}), (12, {"axis": 2}), (12, {"axis": 0}), (13, {"axis": 1})):
        node = helper.make_node(operator, ["x"], ["y"], **attributes)
        model = make_model([node], {"x": x.shape}, ["y"], opset=opset)
        corrected = reference(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(corrected, run_reference(model, {"x": x})[0], 1e-5)


def test_the_fixed_maximum_of_rows_agrees_with_onnxruntime() -> None:
    model = make_model([helper.make_node("GlobalMaxPool", ["x"], ["y"])], {"x": (2, 3, 4)}, ["y"])
    x = noise(2, 3, 4)
    corrected = reference(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(corrected, run_reference(model, {"x": x})[0])


@pytest.mark.parametrize("operator", ["ArgMax", "ReduceMin"])
def test_ranks_of_nan(operator: str) -> None:
    nodes = [helper.make_node("Acos", ["x"], ["a"]), helper.make_node(operator, ["a"], ["y"])]
    # onnx.reference has no node of this kind
    scale = {"scale": np.float32(0.5), "zero": np.uint8(3)}
    quantised = [helper.make_node("QuantizeLinear", ["x", *scale], ["q"]),
                 helper.make_node("QLinearSigmoid", ["q", *scale, *scale], ["z"],
                                  domain="com.microsoft")]  # fmt: skip
    model = make_model([*quantised, *nodes], {"x": (4,)}, ["y", "z"], scale)
    finite, beyond = np.array([0, 1, 0.5, 1], np.float32), np.array([0, 2, 0.5, 1], np.float32)
    assert disputes(model, known_values(model, {"x": beyond}))
    assert not disputes(model, known_values(model, {"x": finite}))
    del model.graph.node[-1]
    assert not disputes(model, known_values(model, {"x": beyond}))


def test_states_beyond_all_numbers() -> None:
    node = helper.make_node("RNN", ["x", "w", "r"], ["", "y"], hidden_size=1, activations=["Relu"])
    weights = {"w": np.ones((1, 1, 1), np.float32), "r": np.full((1, 1, 1), 1e30, np.float32)}
    model = make_model([node], {"x": (4, 1, 1)}, ["y"], weights)
    assert disputes(model, known_values(model, {"x": np.ones((4, 1, 1), np.float32)}))
    assert not disputes(model, known_values(model, {"x": np.zeros((4, 1, 1), np.float32)}))


def test_the_truth_of_rounding_errors() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.BOOL)
    model = make_model([node], {"x": (3,)}, ["y"])
    assert disputes(model, {"x": np.float32([1, 1e-9, 0])})
    assert not disputes(model, {"x": np.float32([1, 1e-3, 0])})


@pytest.mark.parametrize(("stride", "skips"), [(6, True), (4, True), (3, False), (1, False)])
def test_negative_automatic_padding(stride: int, skips: bool) -> None:
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[stride, 2], auto_pad="SAME_UPPER"
    )
    assert skips_input(make_model([node], {"x": (1, 1, 5, 5)}, ["y"])) == skips


def _sample(place: float) -> onnx.ModelProto:
    grid = np.zeros((1, 2, 2, 2), np.float32)
    grid[0, 0, 0, 0] = place
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], padding_mode="reflection")
    return make_model([node], {"x": (1, 1, 3, 2)}, ["y"], {"grid": grid}, opset=22)


@pytest.mark.parametrize("place", [np.inf, np.nan])
def test_the_reference_says_so_where_a_cast_is_undefined(place: float) -> None:
    with np.errstate(all="ignore"), pytest.raises((OverflowError, ValueError)) as caught:
        reference(_sample(place)).run(None, {"x": noise(1, 1, 3, 2)})
    assert str(caught.value) in UNDEFINED


def test_what_is_defined_is_still_compared() -> None:
    assert compare(_sample(0.25).SerializeToString(), lambda stage: None)


def test_nudges_reach_every_floating_point_type() -> None:
    for dtype in ("float16", "float32", "float64"):
        x = noise(1000).astype(dtype)
        moved = nudged_feeds({"x": x})["x"]
        assert moved.dtype == dtype
        assert (moved != x).mean() > 0.2
        np.testing.assert_allclose(moved, x, 5 * max(1e-6, float(np.finfo(dtype).eps)))


def test_integers_are_exact_where_there_is_nothing_else() -> None:
    exact = Measure(tolerance=1e-3, of_largest=1e-3, rounds=False, exact=True)
    theirs = np.array([1, 2, 3]) + 2**60
    mine = theirs + np.array([0, 0, 1])
    assert not _difference([theirs], [theirs], [[theirs]], exact)
    assert "1 of 3" in _difference([mine], [theirs], [[theirs]], exact)
    assert not _difference([mine], [theirs], [[theirs]], replace(exact, exact=False))


def test_what_is_not_finite_is_compared() -> None:
    nan, inf = float("nan"), float("inf")
    measure = Measure(tolerance=1e-3, of_largest=1e-3, rounds=False, exact=False)
    theirs = np.array([nan, inf, -inf, 1.0])
    assert not _difference([theirs], [theirs], [[theirs]], measure)
    for at, value in ((0, 1.0), (1, -inf), (1, 5.0), (2, nan), (3, nan), (3, inf)):
        mine = theirs.copy()
        mine[at] = value
        assert "1 of 4" in _difference([mine], [theirs], [[theirs]], measure)
    # results that become finite by rounding the inputs prove nothing
    assert not _difference([np.zeros(4)], [theirs], [[np.zeros(4)]], replace(measure, rounds=True))


def test_a_node_that_onnxruntime_lacks_is_computed_by_the_reference() -> None:
    """It has no Where of booleans; onnx's reference has no epsilon in BatchNormalization 9."""
    nodes = [
        helper.make_node("Not", ["no"], ["yes"]),
        helper.make_node("Where", ["yes", "yes", "no"], ["chosen"]),
        helper.make_node("Cast", ["chosen"], ["one"], to=1),
        helper.make_node("Mul", ["x", "one"], ["z"]),
        helper.make_node("BatchNormalization", ["z", "s", "b", "m", "v"], ["y"], epsilon=0.5),
    ]
    constants = {name: np.full(3, 0.5, np.float32) for name in "sbmv"}
    model = make_model(nodes, {"x": (2, 3)}, ["y"], {"no": np.zeros(3, bool), **constants}, opset=9)
    assert compare(model.SerializeToString(), lambda stage: None)


def test_integers_between_others_are_rounded_as_onnx_does() -> None:
    """After a node that onnx.reference does not have; onnxruntime truncates fractions."""
    scale, zero = {"scale": np.float32(1)}, {"zero": np.uint8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("QLinearLeakyRelu", ["q", *(["scale", "zero"] * 2)], ["z"],
                         domain="com.microsoft", alpha=0.5),
        helper.make_node("Resize", ["z", "", "sizes"], ["r"], mode="linear"),
        helper.make_node("Cast", ["r"], ["y"], to=1),
    ]  # fmt: skip
    constants = {**scale, **zero, "sizes": np.float32([1, 1, 1, 4])}
    model = make_model(nodes, {"x": (1, 1, 1, 9)}, ["y"], constants)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    x = np.float32([9, 3, 8, 2, 0, 7, 1, 6, 5]).reshape(1, 1, 1, 9)
    rounded, cut = (f(model.SerializeToString(), {"x": x})[0] for f in (by_node, by_onnxruntime))
    assert (rounded > cut).any()
    assert (rounded >= cut).all()


def test_nodes_of_functions_have_the_fixed_references() -> None:
    """onnx's evaluator of a function has its own operators."""
    x = noise(1, 2, 3, 4, 5)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    pool = helper.make_node("GlobalMaxPool", ["a"], ["b"])
    function = helper.make_function("local", "pool", ["a"], ["b"], [pool], imports[:1])
    model = make_model([helper.make_node("pool", ["x"], ["y"], domain="local")], {"x": x.shape},
                       ["y"])  # fmt: skip
    model.opset_import.append(imports[1])
    model.functions.append(function)
    (y,) = reference(model).run(None, {"x": x})
    np.testing.assert_array_equal(y, x.max(axis=(2, 3, 4), keepdims=True))


def test_the_fixed_scores_are_not_capped() -> None:
    node = helper.make_node("Attention", ["q", "k", "k"], ["y", "", "", "s"], softcap=0.5)
    model = make_model([node], {"q": (1, 1, 2, 4), "k": (1, 1, 3, 4)}, ["y", "s"], opset=24)
    q, k = noise(1, 1, 2, 4), noise(1, 1, 3, 4, seed=1)
    raw = reference(model).run(["s"], {"q": q, "k": k})[0]
    np.testing.assert_allclose(raw, q @ k.swapaxes(2, 3) / 2, 1e-5)
    capped = helper.make_node("Attention", ["q", "k", "k"], ["y", "", "", "s"], softcap=0.5,
                              qk_matmul_output_mode=1)  # fmt: skip
    model = make_model([capped], {"q": (1, 1, 2, 4), "k": (1, 1, 3, 4)}, ["y", "s"], opset=24)
    found = reference(model).run(["s"], {"q": q, "k": k})[0]
    np.testing.assert_allclose(found, np.tanh(raw / 0.5) * 0.5, 1e-5)


@pytest.mark.parametrize("operator", ["QLinearMatMul", "QLinearConv"])
def test_the_fixed_products_round_before_the_zero_point(operator: str) -> None:
    """-6.5 and 6.5 become -6 and 6."""
    half, nothing, odd = np.float32(0.5), np.uint8(0), np.uint8(101)
    x, w = np.uint8([[87], [113]]), np.uint8([[1]])
    if operator == "QLinearConv":
        x, w = x.reshape(1, 1, 2), w.reshape(1, 1, 1)
    given = {"xs": np.float32(1), "xz": np.uint8(100), "w": w, "ws": half, "wz": nothing,
             "ys": np.float32(1), "yz": odd}  # fmt: skip
    node = helper.make_node(operator, ["x", *given], ["y"])
    model = make_model([node], {"x": x.shape}, ["y"], given)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    (y,) = reference(model).run(None, {"x": x})
    assert y.reshape(-1).tolist() == [95, 107]


def test_an_average_of_another_type_is_the_average_of_float32() -> None:
    x = noise(1, 2, 6, 5).astype(np.float64)
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[4, 4], strides=[2, 3],
                            ceil_mode=1, count_include_pad=1)  # fmt: skip
    model = make_model([node], {"x": x.shape}, ["y"], opset=11)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    (y,) = by_node(model.SerializeToString(), {"x": x})
    assert y.dtype == np.float64
    np.testing.assert_allclose(y[0, 0, 0, 0], x[0, 0, :4, :4].mean(), 1e-6)


def test_a_nudge_of_constants_counts() -> None:
    """Large numbers that cancel leave few digits."""
    score, large = noise(8, seed=1), np.full(8, 1e3, np.float32)
    nodes = [helper.make_node("Add", ["score", "a"], ["sum"]),
             helper.make_node("Sub", ["sum", "b"], ["y"])]  # fmt: skip
    model = make_model(nodes, {"x": (1,)}, ["y"], {"score": score, "a": large, "b": large})
    data, feeds = model.SerializeToString(), {"x": np.zeros(1, np.float32)}
    assert agrees(data, feeds, lambda _: [score + np.float32(0.01)])
    with pytest.raises(Wrong):
        agrees(data, feeds, lambda _: [score + np.float32(1)])


def test_half_precision_on_the_way_counts() -> None:
    """Norms are rounded to it here and in onnx.reference; onnxruntime leaves the Casts out."""
    half, single = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    for middle in (half, single):
        nodes = [
            helper.make_node("Cast", ["x"], ["a"], to=middle),
            helper.make_node("LpNormalization", ["a"], ["b"]),
            helper.make_node("Cast", ["b"], ["y"], to=single),
        ]
        model = make_model(nodes, {"x": (64, 64)}, ["y"], opset=22)
        assert (Measure.of(model).tolerance > 1e-3) == (middle == half)
        assert compare(model.SerializeToString(), lambda stage: None)
