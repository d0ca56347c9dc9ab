"""The outcome of one backend test."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import onnx
from onnx import numpy_helper
from onnx.backend.test.runner import Runner

from tvmconv.backend.cases import Array, Case
from tvmconv.backend.interface import Prepared
from tvmconv.core.errors import TvmconvError, UnexpectedError

PASSED, CONSTANT, REFUSED = "passed", "passed with constant operands", "refused"
WRONG, FOREIGN, LEFT_OUT = "wrong", "foreign error", "left out"
OUTCOMES = (PASSED, CONSTANT, REFUSED, WRONG, FOREIGN, LEFT_OUT)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a test, and the message of its error or the reason to leave it out."""

    kind: str
    name: str
    outcome: str
    reason: str = ""


def judge(case: Case) -> Verdict:
    """Build and run a test.

    A refused model is built again with operands as constants, because the tests also pass shapes,
    axes and counts as inputs: see :func:`_kept`.
    """
    if case.left_out:
        return Verdict(case.kind, case.name, LEFT_OUT, case.left_out)
    model = onnx.ModelProto.FromString(case.model)
    outcome, reason = _attempt(model, case, None)
    if outcome != REFUSED or len(case.data) != 1:
        return Verdict(case.kind, case.name, outcome, reason)
    inputs = case.data[0][0]
    kept = _kept(model, inputs)
    if kept < len(inputs):
        second, other = _attempt(_with_constants(model, inputs, kept), case, kept)
        if second == PASSED:
            return Verdict(case.kind, case.name, CONSTANT, reason)
        outcome, reason = second, other
    return Verdict(case.kind, case.name, outcome, reason)


def _kept(model: onnx.ModelProto, inputs: list[Array]) -> int:
    """How many inputs stay inputs in the second attempt: the first, which is the data.

    None stays where all are sizes: the numbers of a Range, or the shape of a ConstantOfShape.
    """
    operators = {node.op_type for node in model.graph.node}
    sizes = operators == {"ConstantOfShape"} or all(array.ndim == 0 for array in inputs)
    return 0 if sizes else 1


def _attempt(model: onnx.ModelProto, case: Case, kept: int | None) -> tuple[str, str]:
    """The outcome with the first ``kept`` inputs, or with all, and the reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = Prepared(model, {"threads": 1})
            results = [(expected, [*prepared.run(inputs[:kept])]) for inputs, expected in case.data]
    except TvmconvError as error:
        foreign = isinstance(error, UnexpectedError) or error.__cause__ is not None
        return FOREIGN if foreign else REFUSED, str(error)
    except Exception as error:
        return FOREIGN, f"{type(error).__name__}: {error}"
    try:
        for expected, made in results:
            Runner.assert_similar_outputs(expected, made, case.rtol, case.atol)
    except AssertionError as error:
        return WRONG, " ".join(str(error).split())[:300]
    return PASSED, ""


def _with_constants(model: onnx.ModelProto, inputs: list[Array], kept: int) -> onnx.ModelProto:
    """The model with all inputs but the first ``kept`` as constants."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    stored = {tensor.name for tensor in graph.initializer}
    values = [value for value in graph.input if value.name not in stored]
    for value, array in zip(values[kept:], inputs[kept:], strict=True):
        graph.input.remove(value)
        graph.initializer.append(numpy_helper.from_array(array, value.name))
    return changed
