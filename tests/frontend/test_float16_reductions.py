"""Reductions of float16 sum in float32 and round once: operators x sizes x magnitudes.

The reference is float64, by ``onnx.reference``, and by numpy where that has a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tvmconv

# float16 holds 6e-8 to 65504; squares of the largest magnitude do not fit into it
MAGNITUDES = (2e-6, 1e-2, 1.0, 300.0, 30000.0)
_ULP = 2.0**-10
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Sum", "SumSquare")


@dataclass(frozen=True)
class Case:
    """One operator on an input ``x`` of a shape; ``constants`` are its further inputs."""

    op: str
    shape: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: tuple[Any, ...] = ()
    twice: bool = False


def small_cases() -> list[Case]:
    """Every operator that sums, in small shapes."""
    image, pool = (2, 7, 6, 5), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}
    ones = np.ones(7, np.float16)
    cases = [
        Case(f"Reduce{name}", image, {"keepdims": 0}, (np.array(axes),))
        for name in _REDUCTIONS
        for axes in ([2, 3], [1])
    ]
    cases += [
        Case("AveragePool", image, {**pool, "count_include_pad": include}) for include in (0, 1)
    ]
    cases += [Case("LpPool", image, {**pool, "p": p}) for p in (1, 2, 3)]
    cases += [Case("GlobalLpPool", image, {"p": p}) for p in (1, 2)]
    cases += [Case("LpNormalization", image, {"axis": 1, "p": p}) for p in (1, 2)]
    cases += [Case(op, image, {"axis": a}) for op in ("Softmax", "LogSoftmax") for a in (1, 3)]
    cases += [Case("CumSum", (5, 40), {"reverse": r}, (np.array(1),)) for r in (0, 1)]
    return [
        *cases,
        Case("GlobalAveragePool", image),
        Case("AveragePool", (2, 3, 9), {"kernel_shape": [4]}),
        Case("LRN", image, {"size": 5, "alpha": 1e-4}),
        Case("Einsum", (2, 6, 6), {"equation": "bij,bjk->bik"}, twice=True),
        Case("Einsum", (2, 6, 6), {"equation": "bij,bij->b"}, twice=True),
        Case("MatMul", (2, 6, 6), twice=True),
        Case("Sum", image, twice=True),
        Case("Mean", image, twice=True),
        Case("InstanceNormalization", image, {}, (ones, ones)),
        Case("LayerNormalization", image, {"axis": 2}, (np.ones((6, 5), np.float16),)),
    ]


def large_cases() -> list[Case]:
    """More elements than the largest float16."""
    return [
        Case("GlobalAveragePool", (1, 2, 260, 260)),
        Case("AveragePool", (1, 1, 257, 256), {"kernel_shape": [257, 256]}),
        Case("GlobalLpPool", (1, 1, 260, 260), {"p": 2}),
        Case("ReduceMean", (70000, 2), {"keepdims": 1}, (np.array([0]),)),
        Case("ReduceL2", (2, 70000), {"keepdims": 1}, (np.array([1]),)),
        Case("ReduceLogSumExp", (2, 70000), {"keepdims": 1}, (np.array([1]),)),
        Case("Softmax", (2, 70000), {"axis": 1}),
        Case("CumSum", (2, 70000), {}, (np.array(1),)),
    ]


def model_of(cases: list[Case], code: int) -> ModelProto:
    """A model with a node, an input and an output for each case."""
    nodes, inputs, outputs, constants = [], [], [], []
    for index, case in enumerate(cases):
        x = f"x{index}"
        names = [x, x] if case.twice else [x]
        for number, value in enumerate(case.constants):
            names.append(f"c{index}.{number}")
            if value.dtype == np.float16:
                value = value.astype(helper.tensor_dtype_to_np_dtype(code))
            constants.append(numpy_helper.from_array(value, names[-1]))
        node = helper.make_node(
            case.op, names, [f"y{index}"], f"{case.op}.{index}", **case.attributes
        )
        nodes.append(node)
        inputs.append(helper.make_tensor_value_info(x, code, case.shape))
        outputs.append(helper.make_tensor_value_info(f"y{index}", code, None))
    graph = helper.make_graph(nodes, "sums", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def reference(case: Case, x: Any) -> Any:
    """The operator in float64."""
    if case.op == "LRN":
        size, alpha = case.attributes["size"], case.attributes["alpha"]
        low = (size - 1) // 2
        padded = np.pad(x * x, [(0, 0), (low, size - 1 - low), (0, 0), (0, 0)])
        sums = sum(padded[:, i : i + x.shape[1]] for i in range(size))
        return x / (1 + alpha / size * sums) ** 0.75
    if case.op == "LpNormalization":
        p = case.attributes["p"]
        return x / (np.abs(x) ** p).sum(case.attributes["axis"], keepdims=True) ** (1 / p)
    if case.op in ("LogSoftmax", "ReduceLogSumExp"):
        # onnx.reference takes exponentials of the data as they are
        axes = tuple(case.constants[0]) if case.constants else case.attributes["axis"]
        kept = bool(case.attributes.get("keepdims", case.op == "LogSoftmax"))
        largest = x.max(axes, keepdims=True)
        total = largest + np.log(np.exp(x - largest).sum(axes, keepdims=True))
        return x - total if case.op == "LogSoftmax" else total if kept else total.squeeze(axes)
    if case.op in ("LpPool", "GlobalLpPool"):
        p = case.attributes["p"]
        if case.op == "GlobalLpPool":
            return (np.abs(x) ** p).sum((2, 3), keepdims=True) ** (1 / p)
        # norms are averages over windows in which padding counts
        average = Case("AveragePool", case.shape, {**case.attributes, "count_include_pad": 1})
        del average.attributes["p"]
        taps = prod(case.attributes["kernel_shape"])
        return (reference(average, np.abs(x) ** p) * taps) ** (1 / p)
    model = model_of([case], TensorProto.DOUBLE)
    return ReferenceEvaluator(model).run(None, {"x0": x})[0]


def draw(rng: np.random.Generator, case: Case, magnitude: float) -> Any:
    """Data of one sign, since a sum that cancels has no relative error of its own."""
    return (magnitude * rng.uniform(0.5, 1, case.shape)).astype(np.float16)


def check(cases: list[Case], magnitudes: tuple[float, ...], seed: int) -> None:
    """Hold every result to its float64 value, within a rounding to float16."""
    model = model_of(cases, TensorProto.FLOAT16)
    built = tvmconv.build(model, threads=1, log="none")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    failures = []
    for magnitude in magnitudes:
        feeds = {f"x{i}": draw(rng, case, magnitude) for i, case in enumerate(cases)}
        theirs = session.run(None, feeds)
        for case, x, y, other in zip(cases, feeds.values(), built.run(feeds), theirs, strict=True):
            exact = reference(case, x.astype(np.float64))
            with np.errstate(over="ignore"):
                rounded = exact.astype(np.float16)
            assert y.dtype == np.float16
            if np.isinf(rounded).any():
                # onnxruntime's infinities are where float16 has no number
                np.testing.assert_array_equal(np.isinf(y), np.isinf(rounded), str(case))
                continue
            size = np.abs(exact).max()
            allowed = _ULP * np.abs(exact) + 1e-5 * size + 6e-8
            wrong = np.abs(y.astype(np.float64) - exact) > allowed
            # differences of nearly equal data may keep few digits: then the bound is onnxruntime's
            # error
            bound = 1.5 * np.abs(other.astype(np.float64) - exact).max()
            if wrong.any() and np.abs(y.astype(np.float64) - exact).max() > bound:
                failures.append((magnitude, case, y.reshape(-1)[:3], exact.reshape(-1)[:3]))
    assert not failures, failures


def test_sums_of_every_operator() -> None:
    check(small_cases(), MAGNITUDES, seed=0)


def test_sums_of_more_elements_than_the_largest_float16() -> None:
    check(large_cases(), (0.01, 1.0, 300.0), seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_sums_of_drawn_sizes(seed: int) -> None:
    """The small cases in sizes around powers of two and off them."""
    rng = np.random.default_rng(100 + seed)
    cases = []
    for case in small_cases():
        shape = list(case.shape)
        own = case.constants and case.constants[-1].dtype == np.float16
        if not own and case.op not in ("Einsum", "MatMul"):
            for axis in range(1, len(shape)):
                shape[axis] = int(rng.choice([3, 8, 15, 16, 17, 31, 33, 64, 100]))
        cases.append(Case(case.op, tuple(shape), case.attributes, case.constants, case.twice))
    check(cases, MAGNITUDES, seed)
