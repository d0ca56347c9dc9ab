"""The node cases of ``onnx.backend.test``, with the expected outputs that they carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.frontend.node_cases import cases_of
from tests.frontend.onnx_runner import Build, freeze, run, tvm_pipeline, whole_build
from tvmconv.core.errors import ModelError

# operators whose further inputs are data; all other further inputs are parameters
DATA_OPERATORS = {
    "Add", "And", "Concat", "Div", "Equal", "Gather", "Greater", "GreaterOrEqual", "Less",
    "LessOrEqual", "MatMul", "MatMulInteger", "Max", "Mean", "Min", "Mod",
    "Mul", "Or", "Pow", "Sub", "Sum", "Where",
    "Xor",
}  # fmt: skip
# modules of cases that run by default; the rest are marked slow
CORE = (
    "averagepool", "batch_normalization", "clip", "concat", "conv", "convtranspose", "depthtospace",
    "elu", "flatten", "gelu", "gemm", "globalaveragepool", "globalmaxpool", "hardsigmoid",
    "hardswish", "instance_normalization", "leakyrelu", "logsoftmax", "lrn", "maxpool", "pad",
    "prelu", "relu", "reshape", "sigmoid", "slice", "softmax", "spacetodepth", "split", "squeeze",
    "tanh", "transpose", "unsqueeze", "upsample",
)  # fmt: skip
OTHERS = (
    "abs", "acos", "acosh", "add", "affinegrid", "and_", "argmax", "argmin", "asin", "asinh",
    "atan", "atanh", "bitwiseand", "bitwisenot", "bitwiseor", "bitwisexor", "cast", "castlike",
    "ceil", "celu", "constant", "constantofshape", "cos", "cosh", "cumsum", "div", "dropout",
    "einsum", "equal", "erf", "exp", "expand", "floor", "gather", "greater", "greater_or_equal",
    "gridsample", "groupnormalization", "identity", "isinf", "isnan", "layernormalization",
    "less", "less_or_equal", "log", "lpnormalization", "lppool", "matmul", "max", "mean", "min",
    "mish", "mod", "mul", "neg", "not_", "or_", "pow", "reciprocal", "reducel1", "reducel2",
    "reduce_log_sum", "reduce_log_sum_exp", "reducemax", "reducemean", "reducemin", "reduceprod",
    "reducesum", "reducesumsquare", "resize", "round", "selu", "shape", "shrink", "sign", "sin",
    "sinh", "size", "softplus", "softsign", "sqrt", "sub", "sum", "swish", "tan", "thresholdedrelu",
    "tile", "topk", "trilu", "where", "xor",
)  # fmt: skip
# of INT8 models
QUANTISED = (
    "convinteger", "dequantizelinear", "dynamicquantizelinear", "matmulinteger", "qlinearconv",
    "qlinearmatmul", "quantizelinear",
)  # fmt: skip
# operators that the reader removes, so that no converter knows them
FOLDED = {"Constant", "ConstantOfShape", "Dropout", "Shape", "Size"}
# cases that must be refused, and a part of the reason
REFUSED = {
    "convtranspose_3d": "3-D ConvTranspose",
    "maxpool_with_argmax": "Indices",
    "resize_tf_crop_and_resize": "tf_crop_and_resize",
    "antialias": "antialias",
    "BFLOAT16": "element type",
    "bfloat16": "element type",
    "FLOAT8": "element type",
    "FLOAT4": "element type",
    "INT4": "element type",
    "INT2": "element type",
    "int2": "element type",
    "int4": "element type",
    "e4m3": "element type",
    "e5m2": "element type",
    "float4": "element type",
    "e8m0": "element type",
    "float8": "element type",
    "string": "element type",
    "identity_sequence": "not a tensor",
    "identity_opt": "not a tensor",
    "mod_float": "fmod=0",
    "test_not_": "operator set 1",
    "empty_set": "not fixed",
    "triu_zero": "not fixed",
    "tril_zero": "not fixed",
    "top_k_uint64": "uint64",
    "zero_size": "not fixed",
    "reshape_allowzero": "not fixed",
}


def importable_cases(module: str) -> list[Any]:
    """Cases of one module of onnx's collection whose operators are known here."""
    from tvmconv.frontend.convert import CONVERTERS
    from tvmconv.frontend.operators import EXPANDED

    known = set(CONVERTERS) | FOLDED | EXPANDED
    return [
        case
        for case in cases_of(module)
        if all(n.op_type in known for n in case.model.graph.node)
        # the same operators again, spelled out; and training
        and "expanded" not in case.name
        and "training" not in case.name
    ]


@pytest.mark.parametrize(
    "module", [*CORE, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_cases_agree_with_their_expected_outputs(module: str) -> None:
    check_module(module, tvm_pipeline)


@pytest.mark.filterwarnings("ignore:.*16 bits")
@pytest.mark.parametrize("build", [tvm_pipeline, whole_build])
@pytest.mark.parametrize("module", QUANTISED)
def test_quantized_cases_agree_with_their_expected_outputs(module: str, build: Build) -> None:
    check_module(module, build)


def check_module(module: str, build: Build) -> None:
    """Every case of a module comes out as expected, or is refused for a known reason."""
    cases = importable_cases(module)
    assert cases
    failures = {}
    for case in cases:
        try:
            check_case(case, build)
        except Exception as error:
            failures[case.name] = " ".join(str(error).split())
    assert failures == {}


def check_case(case: Any, build: Build = tvm_pipeline, keep: int | None = None) -> None:
    """Compare what a build computes with the outputs that the case carries.

    The first ``keep`` operands are computed at run time; the others are constants.
    """
    operands, expected = ([_array(v) for v in values] for values in case.data_sets[0])
    operators = {node.op_type for node in case.model.graph.node}
    if keep is None:
        keep = len(operands) if operators & DATA_OPERATORS else min(len(operands), 1)
    if "ConstantOfShape" in operators:
        keep = 0
    try:
        frozen, feeds = freeze(case.model, operands, keep)
        results = run(frozen, feeds, build)
    except ModelError as error:
        reasons = [reason for word, reason in REFUSED.items() if word in case.name]
        if not any(reason in str(error) for reason in reasons):
            raise
        return
    for actual, wanted in zip(results, expected, strict=True):
        assert (wanted.shape, wanted.dtype) == (actual.shape, actual.dtype)
        np.testing.assert_allclose(actual, wanted, rtol=max(case.rtol, 1e-4), atol=1e-5)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if not isinstance(value, list) else value
