"""Assumptions about TVM's internals, and that TVM still makes them necessary."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, te, topi
from tvm.relax.block_builder import DataflowScope

from tvmconv.tvm_api import onnx_importer, op_pattern, target
from tvmconv.tvm_api.relax import EXTERNAL_MODULES, begin_dataflow, dataflow, end_block
from tvmconv.tvm_api.te import sum_from


def test_tvm_still_loads_the_tensor_intrinsics_of_every_device_at_once():
    """Without that, ``load_cpu_intrinsics`` may go."""
    spec = find_spec("tvm.s_tir")
    folder = Path(spec.submodule_search_locations[0]) / "tensor_intrin"
    tree = ast.parse((folder / "__init__.py").read_text())
    loaded = {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    assert {"cuda", "x86", "arm_cpu"} <= loaded


def test_the_intrinsics_of_cpus_are_enough_for_a_tuning_context():
    script = """
import sys
from tvmconv.tvm_api.meta_schedule import load_cpu_intrinsics
load_cpu_intrinsics()
load_cpu_intrinsics()
import tvm
from tvm.s_tir import TensorIntrin, meta_schedule
from tvm.s_tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN
assert TensorIntrin.get(VNNI_DOT_16x4_INTRIN) is not None
meta_schedule.TuneContext(target=tvm.target.Target({"kind": "llvm", "num-cores": 1}))
print(sorted(m for m in sys.modules if m.startswith("tvm.s_tir.tensor_intrin.")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cuda" not in done.stdout
    assert "tensor_intrin.x86" in done.stdout


def test_the_onnx_importer_converts_single_nodes_by_a_private_table_alone():
    from tvm.relax.frontend import onnx

    public = [name for name in dir(onnx) if not name.startswith("_")]
    assert [name for name in public if callable(getattr(onnx, name))] == ["from_onnx"]
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            attributes = {"upper": 1, "tvm_custom": {"name": "t", "num_outputs": 1}}
            result = onnx_importer.convert(builder, "Trilu", 14, [x], attributes)
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    assert isinstance(result.ty, relax.TensorType)


def test_a_dataflow_block_of_the_builder_goes_to_the_function_around():
    """``begin_dataflow`` and ``end_block`` are what its own scope calls."""
    source = inspect.getsource(DataflowScope)
    assert "_func._blocks.append(block)" in source
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    builder = relax.BlockBuilder()
    begin_dataflow(builder)
    var = builder.emit_output(relax.op.abs(x))
    block = end_block(builder)
    assert isinstance(block, relax.DataflowBlock)
    assert [binding.var for binding in block.bindings] == [var]


@pytest.mark.parametrize("open_dataflow", [relax.BlockBuilder.dataflow, dataflow])
def test_no_block_is_left_open_where_a_body_raises(open_dataflow, capfd):
    """TVM's own scope leaves one, of which it complains."""
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    builder = relax.BlockBuilder()
    with pytest.raises(KeyError), builder.function("main", [x]), open_dataflow(builder):
        builder.emit(relax.op.abs(x))
        raise KeyError
    del builder
    complains = "remaining blocks" in capfd.readouterr().err
    assert complains == (open_dataflow is not dataflow)


def pattern(*tensors):
    """The kind that TVM gives a function."""
    func = te.create_prim_func(list(tensors)).with_attr("global_symbol", "f")
    annotated = relax.transform.AnnotateTIROpPattern()(tvm.IRModule({"f": func}))
    return int(annotated["f"].attrs["op_pattern"])


def test_patterns_have_tvms_numbers():
    a, b = te.placeholder((4, 4), name="a"), te.placeholder((4, 4), name="b")
    k = te.reduce_axis((0, 4), "k")
    product = te.compute((4, 4), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
    assert pattern(a, b, product) == op_pattern.OUT_ELEMENTWISE_FUSABLE
    assert pattern(a, topi.sort(a)) == op_pattern.OPAQUE


def test_sums_begin_with_what_their_reducer_has_as_identity():
    """It may name the block's indices; the initial value of TVM's own sums is ignored."""
    a, b = te.placeholder((4, 4), name="a"), te.placeholder((4,), name="b")
    k = te.reduce_axis((0, 4), "k")
    total = te.compute((4,), lambda i: sum_from(b[i], a[i, k], axis=k), name="total")
    run = tvm.tirx.build(te.create_prim_func([a, b, total]), target="llvm")["main"]
    left, right = np.arange(16, dtype="float32").reshape(4, 4), np.arange(4, dtype="float32")
    result = tvm.runtime.empty((4,), "float32")
    run(tvm.runtime.tensor(left), tvm.runtime.tensor(right), result)
    np.testing.assert_array_equal(result.numpy(), left.sum(axis=1) + right)


def test_relax_links_the_modules_of_the_attribute():
    """The executable finds a function that is in an external module only."""
    x = te.placeholder((4,), name="x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1, name="y")])
    library = tvm.tirx.build(
        tvm.IRModule({"plus_one": func.with_attr("global_symbol", "plus_one")}), target="llvm"
    )
    data = relax.Var("data", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        result = relax.call_dps_packed("plus_one", (data,), relax.TensorType((4,), "float32"))
        builder.emit_func_output(builder.emit(result))
    module = builder.get().with_attr(EXTERNAL_MODULES, [library])
    run = relax.VirtualMachine(relax.build(module, target="llvm"), tvm.cpu())["main"]
    values = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(run(tvm.runtime.tensor(values)).numpy(), values + 1)


def test_what_llvm_knows_of_processors():
    options = {"kind": "llvm", "mtriple": "x86_64-linux-gnu"}
    assert {"x86-64-v3", "cascadelake"} <= target.processors(options)
    assert {"avx2", "fma"} <= target.features({**options, "mcpu": "x86-64-v3"})
    assert "avx512f" not in target.features({**options, "mcpu": "x86-64-v3"})
    assert target.host_processor() in target.processors(options)
    assert int(target.llvm_version()) > 0
