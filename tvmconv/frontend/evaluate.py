"""Values of operators whose operands are all constants, by ``onnx.reference`` or numpy.

numpy computes operators for which the reference copies a view, or deviates from the operator's
definition. ``tests/frontend/test_evaluate.py`` compares both with onnx's node cases.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import prod

import numpy as np
import onnx
from onnx import helper

from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.recurrent import RECURRENT
from tvmconv.frontend.rounding import dequantized, quantized

# absent optional operands are None
Operands = list[Array | None]

# First operator set that onnx.reference computes correctly. Pools round differently in ceil_mode.
# GlobalLpPool is missing, GlobalMaxPool requires images, LRN confuses images with channels. Norms
# of p=1 are plain sums, and Softmax is another operator before 13. AffineGrid puts a single point
# at -1. GridSample moves cubic samples beyond the border, not their neighbors. DeformConv, RoiAlign
# and STFT are loops in Python, whose time depends on the data. Such nodes run with the model, like
# nodes of operator sets before 7 that broadcast along an axis.
_NEVER = 1_000
_KNOWN_FROM = {
    "AffineGrid": _NEVER, "AveragePool": _NEVER, "DeformConv": _NEVER, "GlobalLpPool": _NEVER,
    "GlobalMaxPool": _NEVER, "GridSample": _NEVER, "Hardmax": 13, "LRN": _NEVER, "LogSoftmax": 13,
    "LpNormalization": _NEVER, "LpPool": _NEVER, "MaxPool": _NEVER, "MaxRoiPool": _NEVER,
    "Resize": 11, "RoiAlign": _NEVER, "STFT": _NEVER, "Softmax": 13, "Upsample": _NEVER,
}  # fmt: skip


def is_evaluated(node: OnnxNode) -> bool:
    """Whether :func:`evaluate` computes what the operator's definition says."""
    if node.op == "BatchNormalization" and not node.attrs.get("spatial", 1):
        return False
    if node.op in RECURRENT:
        # the reference knows few of their attributes
        return False
    return node.opset >= _KNOWN_FROM.get(node.op, 0) and "broadcast" not in node.attrs


def evaluate(node: OnnxNode, proto: onnx.NodeProto, operands: dict[str, Array]) -> dict[str, Array]:
    """The node's named outputs as arrays.

    Raises ``ModelError`` if the operator cannot be evaluated on these operands.
    """
    try:
        # the model may compute with numbers beyond float32's range
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if node.op in _OWN:
                values = [operands[name] if name else None for name in node.inputs]
                results = _OWN[node.op](node, values)
            else:
                results = _by_reference(node, proto, operands)
    # the reference passes exceptions of numpy and Python on
    except Exception as error:
        raise node.error(
            f"its constant operands cannot be evaluated ({' '.join(str(error).split())[:300]})"
        ) from None
    named = zip(node.outputs, results, strict=False)
    return {name: _owned(value) for name, value in named if name}


# results have the operands' type
_TYPED = ("Cast", "CastLike", "Compress", "Range")


def _by_reference(
    node: OnnxNode, proto: onnx.NodeProto, operands: dict[str, Array]
) -> list[Array | None]:
    from onnx.reference import ReferenceEvaluator

    if node.op not in _TYPED:
        # numpy would add in float16; the caller rounds results to the inferred type
        operands = {
            name: value.astype(np.float32) if value.dtype == np.float16 else value
            for name, value in operands.items()
        }
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in operands.items()
    ]
    outputs = [name for name in node.outputs if name]
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([proto], "fold", inputs, infos)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.opset)])
    found = dict(zip(outputs, ReferenceEvaluator(model).run(None, dict(operands)), strict=True))
    return [np.asarray(found[name]) if name else None for name in node.outputs]


def _owned(value: Array | None) -> Array:
    """Contiguous, and no view that keeps a larger array alive."""
    assert value is not None
    # not ascontiguousarray: it would give a number without axes one
    value = np.asarray(value, order="C")
    base = value.base
    return value.copy() if isinstance(base, np.ndarray) and base.nbytes > value.nbytes else value


def _present(value: Array | None) -> Array:
    if value is None:
        raise ValueError("a required operand is absent")
    return value


def _linear(node: OnnxNode, operands: Operands) -> list[Array | None]:
    """QuantizeLinear and DequantizeLinear."""
    zero_point = operands[2] if len(operands) > 2 else None
    compute = quantized if node.op == "QuantizeLinear" else dequantized
    return [compute(node, _present(operands[0]), _present(operands[1]), zero_point)]


def _dropout(node: OnnxNode, operands: Operands) -> list[Array | None]:
    """Inference: everything is kept."""
    data = _present(operands[0])
    return [data, np.ones(data.shape, bool if node.opset >= 10 else data.dtype)]


def _fill(node: OnnxNode, operands: Operands) -> list[Array | None]:
    shape = tuple(int(n) for n in _present(operands[0]).reshape(-1))
    value = node.attrs.get("value", np.zeros(1, np.float32))
    return [np.full(shape, value.reshape(-1)[0], value.dtype)]


def _reshape(node: OnnxNode, operands: Operands) -> list[Array | None]:
    data = _present(operands[0])
    target = _present(operands[1]).reshape(-1) if node.input(1) else node.ints("shape", ())
    keep = not node.attrs.get("allowzero", 0)
    sizes = [
        data.shape[i] if n == 0 and keep and i < data.ndim else int(n) for i, n in enumerate(target)
    ]
    return [data.reshape(sizes)]


def _unsqueeze(node: OnnxNode, operands: Operands) -> list[Array | None]:
    """All axes count in the result; the reference adds them one after the other."""
    given = _present(operands[1]).reshape(-1) if node.input(1) else node.ints("axes", ())
    return [np.expand_dims(_present(operands[0]), tuple(int(axis) for axis in given))]


def _gather_elements(node: OnnxNode, operands: Operands) -> list[Array | None]:
    data, index = _present(operands[0]), _present(operands[1])
    axis = int(node.attrs.get("axis", 0))
    # along the other axes the index may be shorter than the data
    near = tuple(
        slice(None) if i == axis % data.ndim else slice(n) for i, n in enumerate(index.shape)
    )
    return [np.take_along_axis(data[near], index.astype(np.int64), axis)]


def _one_hot(node: OnnxNode, operands: Operands) -> list[Array | None]:
    index, values = _present(operands[0]), _present(operands[2])
    depth = int(_present(operands[1]).reshape(-1)[0])
    axis = int(node.attrs.get("axis", -1)) % (index.ndim + 1)
    result = np.full((*index.shape, depth), values[0], values.dtype)
    whole = index.astype(np.int64)
    inside = (whole >= -depth) & (whole < depth)
    places = np.nonzero(inside)
    result[(*places, whole[inside] % depth)] = values[1]
    return [np.moveaxis(result, -1, axis)]


def _log_softmax(node: OnnxNode, operands: Operands) -> list[Array | None]:
    """The reference has the logarithm of small numbers that may be zero."""
    data, axis = _present(operands[0]), int(node.attrs.get("axis", -1))
    shifted = data - data.max(axis=axis, keepdims=True, initial=-np.inf)
    total = np.exp(shifted.astype(np.float64)).sum(axis=axis, keepdims=True)
    return [(shifted - np.log(total)).astype(data.dtype)]


def _batch_norm(node: OnnxNode, operands: Operands) -> list[Array | None]:
    """Inference, or training mode, which computes the statistics of the data."""
    data, *parameters = (_present(value) for value in operands[:5])
    gamma, beta, mean, variance = (p.astype(np.float64) for p in parameters)
    epsilon = float(node.attrs.get("epsilon", 1e-5))
    momentum = float(node.attrs.get("momentum", 0.9))
    statistics: list[Array | None] = []
    if trains(node):
        axes = tuple(axis for axis in range(data.ndim) if axis != 1)
        own_mean = data.mean(axes, dtype=np.float64)
        own_variance = data.var(axes, dtype=np.float64)
        running = [
            momentum * old + (1 - momentum) * new
            for old, new in ((mean, own_mean), (variance, own_variance))
        ]
        # operator sets before 14 give the batch's own statistics as well
        saved = [*running, own_mean, own_variance]
        # operator set 14 allows the running statistics another type
        types = [parameters[2].dtype, parameters[3].dtype, data.dtype, data.dtype]
        statistics = [value.astype(dtype) for value, dtype in zip(saved, types, strict=True)]
        mean, variance = own_mean, own_variance
    column = (1, -1) + (1,) * (data.ndim - 2)
    scale = gamma / np.sqrt(variance + epsilon)
    shift = beta - mean * scale
    result = data * scale.reshape(column) + shift.reshape(column)
    return [result.astype(data.dtype), *statistics]


def trains(node: OnnxNode) -> bool:
    """Whether a BatchNormalization takes its statistics from its data.

    Operator set 14 has an attribute for it, 6 another one, and from 7 to 13 a node has outputs
    for the statistics if it does.
    """
    if node.opset >= 14:
        return bool(node.attrs.get("training_mode", 0))
    if node.opset < 7:
        return not node.attrs.get("is_test", 0)
    return any(node.outputs[1:])


_OWN: dict[str, Callable[[OnnxNode, Operands], list[Array | None]]] = {
    "BatchNormalization": _batch_norm,
    "ConstantOfShape": _fill,
    "DequantizeLinear": _linear,
    "Dropout": _dropout,
    "GatherElements": _gather_elements,
    "Identity": lambda _, operands: [operands[0]],
    "LogSoftmax": _log_softmax,
    "OneHot": _one_hot,
    "QuantizeLinear": _linear,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
}


# nanoseconds for each element that an operator reads or writes, where it is not a few; measured
# on one core, for an order of magnitude
_SLOW = {
    "Cast": 20, "CastLike": 20, "CumSum": 20, "Erf": 300, "Gelu": 600, "GatherND": 1_000,
    "Mish": 100, "Pow": 50, "Resize": 1_000, "ReverseSequence": 100,
    "ScatterElements": 1_000, "ScatterND": 1_000, "TopK": 200,
}  # fmt: skip
_TOUCHED = 10  # nanoseconds for an element of the other operators
_PRODUCT = 2.0  # nanoseconds for a multiplication and addition


def seconds(node: OnnxNode, operands: list[Array], written: int) -> float:
    """About how long :func:`evaluate` takes, where the outputs have ``written`` elements."""
    touched = written + sum(value.size for value in operands)
    per_element = float(_SLOW.get(node.op, _TOUCHED))
    return 1e-9 * (touched * per_element + _PRODUCT * _products(node, operands, written))


def _products(node: OnnxNode, operands: list[Array], written: int) -> float:
    """Multiplications and additions, where there are more than elements."""
    if node.op == "Conv":
        return written * prod(operands[1].shape[1:])
    if node.op == "ConvTranspose":
        # loops over the input's channels in Python
        return 200 * operands[0].size * prod(operands[1].shape[1:])
    if node.op == "MatMul":
        return written * operands[0].shape[-1] if operands[0].ndim else 0
    if node.op == "Gemm":
        return written * max(operands[0].shape, default=1)
    if node.op == "Einsum":
        equation = str(node.attrs.get("equation", ""))
        labels = dict.fromkeys(equation.split("->")[0].replace(" ", ""))
        sizes = [max(value.shape, default=1) for value in operands]
        return 10.0 * float(max(sizes, default=1)) ** len(labels)
    return 0


def scratch_bytes(node: OnnxNode, operands: list[Array], written: int) -> int:
    """Memory that :func:`evaluate` needs in addition to operands and outputs."""
    if node.op in ("Conv", "ConvTranspose"):
        size = written if node.op == "Conv" else operands[0].size
        return 4 * size * prod(operands[1].shape[1:])
    return 0
