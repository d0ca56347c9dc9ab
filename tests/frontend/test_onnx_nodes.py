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
from tvmconv.core.stored_types import STORED

# operators whose further inputs are data; all other further inputs are parameters
DATA_OPERATORS = {
    "Add", "And", "BitShift", "Concat", "Div", "Equal", "Gather", "GatherElements", "GatherND",
    "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul", "MatMulInteger", "Max", "Mean",
    "Min", "Mod", "Mul", "Or", "Pow", "ReverseSequence", "Scatter", "ScatterElements",
    "ScatterND", "Sub", "Sum", "SwiGLU", "TensorScatter", "Where", "Xor",
}  # fmt: skip
# modules of cases that run by default; the rest are marked slow
CORE = (
    "averagepool", "batch_normalization", "clip", "concat", "conv", "convtranspose", "depthtospace",
    "elu", "flatten", "gatherelements", "gathernd", "gelu", "gemm", "globalaveragepool",
    "globalmaxpool", "hardsigmoid", "hardswish", "instance_normalization", "leakyrelu",
    "logsoftmax", "lrn", "maxpool", "pad", "prelu", "relu", "reshape", "scatterelements",
    "scatternd", "sigmoid", "slice", "softmax", "spacetodepth", "split", "squeeze", "tanh",
    "transpose", "unsqueeze", "upsample",
)  # fmt: skip
OTHERS = (
    "abs", "acos", "acosh", "add", "affinegrid", "and_", "argmax", "argmin", "asin", "asinh",
    "atan", "atanh", "bitcast", "bitshift", "bitwiseand", "bitwisenot", "bitwiseor", "bitwisexor",
    "cast", "castlike", "ceil", "celu", "center_crop_pad", "col2im", "constant", "constantofshape",
    "cos", "cosh", "cumprod", "cumsum", "det", "dft", "div", "dropout", "einsum", "equal", "erf",
    "exp", "expand", "eyelike", "floor", "gather", "greater", "greater_or_equal", "gridsample",
    "groupnormalization", "hardmax", "identity", "isinf", "isnan", "layernormalization", "less",
    "less_or_equal", "log", "lpnormalization", "lppool", "matmul", "max", "maxunpool", "mean",
    "meanvariancenormalization", "min", "mish", "mod", "mul", "neg", "not_", "onehot", "or_", "pow",
    "reciprocal", "reduce_log_sum", "reduce_log_sum_exp", "reducel1", "reducel2", "reducemax",
    "reducemean", "reducemin", "reduceprod", "reducesum", "reducesumsquare", "resize",
    "reversesequence", "round", "scatter", "selu", "shape", "shrink", "sign", "sin", "sinh", "size",
    "softplus", "softsign", "sqrt", "stft", "sub", "sum", "swiglu", "swish", "tan", "tensorscatter",
    "thresholdedrelu", "tile", "topk", "trilu", "where", "xor",
)  # fmt: skip
# of INT8 models
QUANTISED = (
    "convinteger", "dequantizelinear", "dynamicquantizelinear", "matmulinteger", "qlinearconv",
    "qlinearmatmul", "quantizelinear",
)  # fmt: skip
# whose steps run in one function of this package
RECURRENT = ("gru", "lstm", "rnn")
# operators that the reader removes, so that no converter knows them
FOLDED = {"Constant", "ConstantOfShape", "Dropout", "EyeLike", "Shape", "Size"}
# cases that must be refused, and a part of the reason
REFUSED = {
    "string": "element type",
    "identity_sequence": "not a tensor",
    "identity_opt": "not a tensor",
    "test_not_": "operator set 1",
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


@pytest.mark.parametrize("module", RECURRENT)
def test_recurrent_cases_agree_with_their_expected_outputs(module: str) -> None:
    check_module(module, whole_build)


def check_module(module: str, build: Build) -> None:
    """Every case of a module comes out as expected, or is refused for a known reason."""
    cases = importable_cases(module)
    assert cases
    failures = {}
    for case in cases:
        try:
            # TVM's own sort lacks the type
            check_case(case, whole_build if case.name == "test_top_k_uint64" else build)
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
        shapes = {n: v.shape for n, v in feeds.items() if isinstance(v, np.ndarray) and not v.size}
        results = run(frozen, feeds, build, shapes=shapes)
    except ModelError as error:
        reasons = [reason for word, reason in REFUSED.items() if word in case.name]
        if not any(reason in str(error) for reason in reasons):
            raise
        return
    for actual, wanted in zip(results, expected, strict=True):
        assert (wanted.shape, wanted.dtype) == (actual.shape, actual.dtype)
        wide = np.float32 if actual.dtype.name in STORED else actual.dtype
        rtol = 2**-6 if actual.dtype.name == "bfloat16" else max(case.rtol, 1e-4)
        np.testing.assert_allclose(actual.astype(wide), wanted.astype(wide), rtol=rtol, atol=1e-5)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if not isinstance(value, list) else value
