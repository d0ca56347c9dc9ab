"""The interface of ``onnx.backend``, and the runner of ONNX's backend tests."""

from __future__ import annotations

import os
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmconv.backend
from tvmconv.backend.__main__ import main
from tvmconv.backend.cases import Case, load_cases
from tvmconv.backend.judge import FOREIGN, PASSED, REFUSED, WRONG, Verdict
from tvmconv.backend.pool import judge_all
from tvmconv.backend.table import counts, load, reasons, text
from tvmconv.errors import InputError

# tests/frontend/test_onnx_nodes.py has the other operators
SAMPLE = (
    "and3d|argmax_keepdims_example|basic_conv_with_padding|clip|gemm_all_attributes|"
    "pow_types_float32_int64|slice_neg_steps|top_k"
)


def model(shape: list[int | str]) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "ab"]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "g", values, [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def test_a_model_with_open_dimensions_takes_them_from_its_inputs():
    prepared = tvmconv.backend.prepare(model(["n", 2]), threads=1)
    for rows in (1, 3):
        a, b = np.full((rows, 2), 2, np.float32), np.full((rows, 2), 3, np.float32)
        (y,) = prepared.run([a, b])
        np.testing.assert_array_equal(y, a + b)
    assert prepared.run({"a": a, "b": b})["y"].shape == (3, 2)
    with pytest.raises(InputError, match="2 input"):
        prepared.run([a])


def test_a_node_runs_with_inferred_and_with_given_results():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    node = helper.make_node("Transpose", ["x"], ["y"])
    (y,) = tvmconv.backend.run_node(node, [x], threads=1)
    np.testing.assert_array_equal(y, x.T)
    info = [(np.float32, (3, 2))]
    result = tvmconv.backend.run_node(node, [x], outputs_info=info, opset_version=13, threads=1)
    np.testing.assert_array_equal(result["y"], x.T)


def test_devices():
    assert tvmconv.backend.supports_device("CPU")
    assert not tvmconv.backend.supports_device("TPU")
    with pytest.raises(InputError, match="'TPU' is unknown"):
        tvmconv.backend.prepare(model([1]), "TPU")


def test_a_sample_of_the_backend_tests(tmp_path, capsys):
    names = f"^test_({SAMPLE})$"
    file = tmp_path / "table.json.gz"
    assert main(["--kind", "node", "--filter", names, "--jobs", "1", "--table", str(file)]) == 0
    versions, verdicts = load(file)
    assert versions["onnx"] == onnx.__version__
    assert len(verdicts) == len(SAMPLE.split("|"))
    assert {verdict.outcome for verdict in verdicts} <= {PASSED, "passed with constant operands"}
    assert re.search(r"all +8 .* 100\.0 %", capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_all_backend_tests():
    verdicts = [*judge_all(load_cases(), len(os.sched_getaffinity(0)))]
    bad = [v for v in verdicts if v.outcome in (WRONG, FOREIGN)]
    assert bad == [], text(verdicts)


def test_a_crash_counts_for_one_test():
    """A process that dies is replaced, and the next test runs."""
    values = np.ones((1, 2), np.float32)
    data = (([values, values], [values + values]),)
    fine = Case("node", "test_fine", model([1, 2]).SerializeToString(), data, 1e-3, 1e-7)
    killed = Case("node", "test_killed", b"", (Killer(),), 1e-3, 1e-7)
    first, second = judge_all(iter([killed, fine]), 1)
    assert (first.outcome, first.reason) == (FOREIGN, "the process ended by SIGKILL")
    assert second.outcome == PASSED


class Killer:
    """Kills the process that unpickles it."""

    def __reduce__(self):
        return os.kill, (_Pid(), 9)


class _Pid:
    def __reduce__(self):
        return os.getpid, ()


def test_the_table_groups_reasons_without_names_and_values():
    verdicts = [
        Verdict("node", "test_a", REFUSED, "node 'a' (Foo): axis=3 of (1, 2) is bad. Change it."),
        Verdict("node", "test_b", REFUSED, "node 'b (x)' (Foo): axis=-1 of (3,) is bad. Change."),
        Verdict("simple", "test_c", PASSED),
    ]
    assert reasons(verdicts, REFUSED) == [(2, "Foo: axis=... of ... is bad", "test_a")]
    head, *rows = counts(verdicts)
    assert [row[0] for row in rows] == ["node", "simple", "all"]
    assert [row[-1] for row in rows] == ["0.0 %", "100.0 %", "33.3 %"]
    assert head[-1] == "passed of those run"
    assert text(verdicts).count("axis=...") == 1
