"""Unexpected errors name their node and their cause; expected errors pass unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import tvmconv
from tests.frontend.onnx_runner import make_model, noise
from tvmconv.core.errors import ConfigError, ModelError, UnexpectedError
from tvmconv.frontend import infer
from tvmconv.graph import layout
from tvmconv.graph.emit import graph as emit
from tvmconv.kernels import rules
from tvmconv.tir.general import c_functions


def _model():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first conv"),
        helper.make_node("Softmax", ["a"], ["y"], "last softmax", axis=1),
    ]
    return make_model(nodes, {"x": (1, 16, 5, 5)}, ["y"], {"w": noise(16, 16, 3, 3)})


def _failing(error):
    def fail(*_arguments, **_options):
        raise error

    return fail


@pytest.mark.parametrize(
    ("module", "function", "node"),
    [
        (infer, "inferred_outputs", "last softmax"),
        (layout, "select", "first conv"),
        (emit, "emit_plain", "last softmax"),
        (emit, "emit_conv", "first conv"),
    ],
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_names_the_node(monkeypatch, module, function, node) -> None:
    error = RuntimeError("Check failed: (0 vs. 1)")
    monkeypatch.setattr(module, function, _failing(error))
    with pytest.raises(UnexpectedError, match=rf"'{node}'.*Check failed.*Report it") as caught:
        tvmconv.build(_model(), threads=1)
    assert isinstance(caught.value, ModelError)
    assert caught.value.__cause__ is error


def test_names_the_kernel_that_cannot_be_scheduled(monkeypatch) -> None:
    monkeypatch.setattr(rules, "VectorizableMath", _failing(ValueError("no such loop")))
    with pytest.raises(UnexpectedError, match=r"'last softmax' \(softmax\).*no such loop"):
        tvmconv.build(_model(), threads=1)


def test_names_only_the_kernel_that_cannot_be_compiled(monkeypatch) -> None:
    bare_form = c_functions._bare

    def fail_on_functions_of_numbers(func):
        if "exp" in str(func.body):
            raise ValueError("no such instruction")
        return bare_form(func)

    monkeypatch.setattr(c_functions, "_bare", fail_on_functions_of_numbers)
    with pytest.raises(UnexpectedError, match=r"code for 'last softmax' \(softmax\): .*no such in"):
        tvmconv.build(_model(), threads=1)


@pytest.mark.parametrize("error", [MemoryError("full"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("function", ["emit_plain", "emit_conv"])
def test_passes_through(monkeypatch, error, function) -> None:
    monkeypatch.setattr(emit, function, _failing(error))
    with pytest.raises(type(error)):
        tvmconv.build(_model(), threads=1)


@pytest.mark.parametrize("error", [MemoryError("full"), KeyboardInterrupt()], ids=repr)
def test_passes_through_tvm(monkeypatch, error) -> None:
    monkeypatch.setattr(rules, "VectorizableMath", _failing(error))
    with pytest.raises(type(error)):
        tvmconv.build(_model(), threads=1)


def test_exceptions_of_callbacks_are_the_callers_own() -> None:
    error = LookupError("mine")
    for options in ({"progress": _failing(error)}, {"overrides": _failing(error)}):
        with pytest.raises(LookupError) as caught:
            tvmconv.build(_model(), threads=1, **options)
        assert caught.value is error


@pytest.mark.parametrize("function", [int, len, lambda: None, lambda stage, done: None])
@pytest.mark.parametrize("name", ["progress", "overrides"])
def test_callbacks_that_cannot_be_called(name, function) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}=.* cannot be called with 3 arguments"):
        tvmconv.build(_model(), threads=1, **{name: function})


def test_an_error_of_the_same_type_inside_a_callback_is_its_own() -> None:
    def progress(stage, done, total):
        return len(5)

    with pytest.raises(TypeError, match="has no len"):
        tvmconv.build(_model(), threads=1, progress=progress)


def test_a_good_model_still_builds() -> None:
    outputs = tvmconv.build(_model(), threads=1).run(noise(1, 16, 5, 5))
    np.testing.assert_allclose(outputs[0].sum(axis=1), 1, rtol=1e-5)
