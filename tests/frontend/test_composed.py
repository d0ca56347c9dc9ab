"""Operators that the reader writes as graphs of others, against onnxruntime and onnx's cases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from numpy.random import Generator
from onnx import helper

from tests.frontend.microsoft_cases import CASES, Case
from tests.frontend.node_cases import cases_of
from tests.frontend.onnx_runner import Arrays, make_model, noise, run, run_reference, whole_build
from tests.frontend.test_onnx_nodes import check_case
from tvmconv.core.errors import ModelError
from tvmconv.frontend import read_model
from tvmconv.frontend.composed import COMPOSITIONS
from tvmconv.frontend.operators import COMPOSED, COMPOSED_MICROSOFT, MICROSOFT

# modules of onnx's node cases
MODULES = (
    "attention", "causal_conv_with_state", "linear_attention", "negativeloglikelihoodloss",
    "rmsnormalization", "rotaryembedding", "softmax_cross_entropy_loss", "tfidfvectorizer",
)  # fmt: skip
# one case of each operator and of each hard form
CORE = (
    "test_attention_3d_gqa_with_past_and_present", "test_attention_4d_diff_heads_mask4d_padded_kv",
    "test_attention_24_fullymasked_qk_matmul_output_mode3_zero",
    "test_attention_4d_gqa_softcap", "test_attention_local_window_gqa_rank4_mask",
    "test_causal_conv_with_state_silu", "test_rotary_embedding_interleaved",
    "test_nllloss_NCd1d2_with_weight_reduction_mean_ii", "test_rms_normalization_3d_axis1_epsilon",
    "test_sce_NCd1d2d3d4d5_mean_weight_log_prob", "test_tfidfvectorizer_tf_uniandbigrams_skip5",
)  # fmt: skip


def test_the_lists_of_operators_are_complete() -> None:
    found = {
        domain: {op for own, op in COMPOSITIONS if own == domain} for domain in ("", MICROSOFT)
    }
    assert found == {"": COMPOSED, MICROSOFT: COMPOSED_MICROSOFT}


def node_cases() -> list[object]:
    """Cases whose types are known; all operands are computed at run time."""
    known = [case for module in MODULES for case in cases_of(module)]
    return [c for c in known if "expanded" not in c.name and not c.name.endswith("bf16")]


def test_core_cases_agree_with_their_expected_outputs() -> None:
    check_cases([case for case in node_cases() if case.name in CORE])


@pytest.mark.slow
def test_all_cases_agree_with_their_expected_outputs() -> None:
    check_cases(node_cases())


def check_cases(cases: list[object]) -> None:
    failures = {}
    assert cases
    for case in cases:
        try:
            # TVM's own largest value of infinities is finite
            check_case(case, whole_build, keep=len(case.model.graph.input))
        except Exception as error:
            failures[case.name] = " ".join(str(error).split())
    assert failures == {}


def with_results(case: Case) -> tuple[onnx.ModelProto, Arrays, list[np.ndarray]]:
    """A model with the types of its outputs, feeds, and onnxruntime's results."""
    model, feeds = case.model()
    wanted = run_reference(model, feeds, optimised=False)
    for value, expected in zip(model.graph.output, wanted, strict=True):
        code = helper.np_dtype_to_tensor_dtype(expected.dtype)
        value.type.tensor_type.elem_type = code
    return model, feeds, wanted


def check(case: Case) -> None:
    model, feeds, wanted = with_results(case)
    for actual, expected in zip(run(model, feeds), wanted, strict=True):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        tolerance = {"rtol": case.tolerance, "atol": case.tolerance}
        np.testing.assert_allclose(actual.astype(np.float64), expected, **tolerance)


@pytest.mark.parametrize("draw", CASES)
def test_operators_of_onnxruntime(draw: Callable[[Generator], Case]) -> None:
    check(draw(np.random.default_rng(0)))


@pytest.mark.slow
@pytest.mark.parametrize("draw", CASES)
def test_many_operators_of_onnxruntime(draw: Callable[[Generator], Case]) -> None:
    for seed in range(1, 30):
        check(draw(np.random.default_rng(seed)))


def test_attention_ends_in_products_that_read_transposed_operands() -> None:
    attrs = {"q_num_heads": 2, "kv_num_heads": 2}
    node = helper.make_node("Attention", ["x", "x", "x"], ["y"], "heads", **attrs)
    model = make_model([node], {"x": (1, 5, 16)}, ["y"], opset=23)
    operators = [part.op for part in read_model(model).graph.nodes]
    assert operators.count("MatMul") == 2
    assert operators.count("Softmax") == 1
    assert set(operators) <= {"MatMul", "Softmax", "Reshape", "Transpose", "Mul"}


def test_results_may_be_constants_inputs_or_the_same_value() -> None:
    """The present is equal to the operands without a past."""
    nodes = [
        helper.make_node("Attention", ["q", "k", "k"], ["y", "key", "value"], "attention"),
        helper.make_node("RMSNormalization", ["c", "s"], ["z"], "constant"),
    ]
    shapes = {"q": (1, 2, 3, 4), "k": (1, 2, 5, 4)}
    constants = {"c": noise(2, 4), "s": noise(4, seed=1)}
    model = make_model(nodes, shapes, ["y", "key", "value", "z"], constants, opset=23)
    feeds = {"q": noise(1, 2, 3, 4), "k": noise(1, 2, 5, 4, seed=2)}
    for actual, expected in zip(run(model, feeds), run_reference(model, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("domain", "op", "operands", "attrs", "words"),
    [
        ("", "Attention", {"q": (1, 2, 3), "k": (1, 2, 3)}, {"q_num_heads": 2}, "does not divide"),
        ("", "Attention", {"q": (2, 3), "k": (2, 3)}, {}, "3 or 4 axes"),
        ("", "RotaryEmbedding", {"q": (1, 2, 4), "k": (1, 2, 5)}, {"num_heads": 1}, "(1, 2, 2)"),
        (MICROSOFT, "FusedMatMul", {"q": (2, 4), "k": (4,)}, {"transB": 1}, "requires 2 axes"),
        (MICROSOFT, "FusedGemm", {"q": (2, 2), "k": (2, 2)}, {"activation": "Odd"}, "Use one of"),
        (MICROSOFT, "FusedConv", {"q": (1, 2, 4, 4), "k": (2, 2, 1, 1)}, {"odd": 1}, "odd=1"),
        (MICROSOFT, "GroupQueryAttention", {"q": (1, 2, 4), "k": (1, 2, 4)},
         {"num_heads": 2, "kv_num_heads": 2, "smooth_softmax": 1}, "smooth_softmax"),
        (MICROSOFT, "MatMulNBits", {"q": (1, 64), "k": (4, 64)},
         {"K": 64, "N": 4, "bits": 4, "block_size": 32}, "computed at run time"),
        ("com.microsoft.nchwc", "Conv", {"q": (1, 2, 4, 4), "k": (2, 2, 1, 1)}, {},
         "ORT_ENABLE_EXTENDED"),
    ],
)  # fmt: skip
def test_bad_nodes_are_refused_by_name(
    domain: str, op: str, operands: dict[str, tuple[int, ...]], attrs: dict[str, object], words: str
) -> None:
    inputs = [*operands, "k"] if len(operands) > 1 else [*operands]
    node = helper.make_node(op, inputs, ["y"], "bad", domain=domain, **attrs)
    model = make_model([node], operands, ["y"], opset=27)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(ModelError) as caught:
        read_model(model)
    assert "node 'bad" in str(caught.value)
    assert words in str(caught.value)


def test_large_masks_count_as_constants() -> None:
    node = helper.make_node("Attention", ["x", "x", "x"], ["y"], "causal", is_causal=1)
    model = make_model([node], {"x": (1, 1, 40_000, 8)}, ["y"], opset=23)
    with pytest.raises(ModelError, match="causal"):
        read_model(model, fold_budget=2**28)


def test_a_model_read_can_be_saved_in_its_operator_set() -> None:
    case = CASES[4](np.random.default_rng(3))
    for opset in (12, 17, 21):
        case.opset = opset
        model, feeds, wanted = with_results(case)
        saved = read_model(model).proto
        onnx.checker.check_model(saved, full_check=True)
        for actual, expected in zip(run_reference(saved, feeds), wanted, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
