"""Arguments of wrong types and values: an error of tvmconv that names argument and value."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import tvmconv
from tests.frontend.onnx_runner import make_model
from tvmconv.core.errors import TvmconvError
from tvmconv.transform import ScheduleOperators, SubstituteConv2d


@pytest.fixture(scope="module")
def model():
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    return tvmconv.build(make_model([node], {"x": (2, 3)}, ["y"]), threads=1)


_BUILD = [
    *(("threads", value) for value in ("2", 2.5, 0, -5, True, 10**400, float("nan"), [1])),
    *(("shapes", value) for value in (5, "x", [1], {1: (1,)}, {"x": 5}, {"x": "23"})),
    *(("shapes", {"x": value}) for value in ((2.5, 3), (True, 3), (2, 10**400), (None,))),
    *(("error_budget", value) for value in ("x", "1", -1, float("inf"), None, True, [1], 10**400)),
    *(("memory_budget", value) for value in ("1", 0.5, -1, True, {})),
    *(("algorithms", value) for value in (5, [None], "nonsense", {"direct": 1}, [["direct"]])),
    *(("overrides", value) for value in (5, b"x", {"y": 1}, {1: {}}, "\0", "\ud800", "")),
    *(("log", value) for value in (5, b"x", "/no/such/file", "\0", "", "x" * 5000)),
    *(("progress", value) for value in (5, "x", {})),
    *(("target", value) for value in (5, None, [], {}, "", 'llvm "', "llvm -mcpu=zzz", b"native")),
]


@pytest.mark.parametrize(("name", "value"), [e for e in _BUILD if e != ("error_budget", None)])
def test_build(name, value) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    with pytest.raises(TvmconvError) as caught:
        tvmconv.build(make_model([node], {"x": (2, 3)}, ["y"]), **{"threads": 1, name: value})
    assert len(str(caught.value)) > 10
    assert "defect" not in str(caught.value)


@pytest.mark.parametrize("value", ["2", 2.5, 0, -5, True, None])
def test_numbers_of_threads(value, tmp_path) -> None:
    for function in (SubstituteConv2d, ScheduleOperators):
        if value is not None:
            with pytest.raises(TvmconvError, match="threads="):
                function("native", value)
    with pytest.raises(TvmconvError):
        tvmconv.load(tmp_path / "missing.so", threads=value)


def test_numpy_integers_are_whole_numbers(model) -> None:
    assert tvmconv.build(model_proto(), threads=np.int64(1)).threads == 1


def model_proto():
    return make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ["y"])


@pytest.mark.parametrize(
    "outputs", [[None], None, 5, "y", {"y": None}, {"z": 1}, [], [[0.0] * 3] * 2, [np.ones(3)]]
)
def test_run_into(model, outputs) -> None:
    with pytest.raises(TvmconvError):
        model.run_into([np.ones((2, 3), "float32")], outputs)


@pytest.mark.parametrize(
    "value", [None, "x", [[1, 2], [3]], object(), {1: 2}, {"x": None}, 10**400]
)
def test_inputs(model, value) -> None:
    for function in (model.run, model.bind, model.time, model.profile):
        if value is not None or function == model.run:
            with pytest.raises(TvmconvError):
                function(value)


@pytest.mark.parametrize("name", ["repeat", "number", "warmup"])
@pytest.mark.parametrize("value", ["2", 2.5, -1, 10**400, None])
def test_counts(model, name, value) -> None:
    with pytest.raises(TvmconvError, match=f"{name}="):
        model.time(**{name: value})


@pytest.mark.parametrize("path", [None, 5, b"x.so", "", "\0.so", "\ud800.so", []])
def test_paths(model, path) -> None:
    with pytest.raises(TvmconvError, match="path="):
        model.save(path)
    with pytest.raises(TvmconvError, match="path="):
        tvmconv.load(path)
