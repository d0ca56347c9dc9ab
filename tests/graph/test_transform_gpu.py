"""``SubstituteConv2d`` for CUDA targets, in TVM's own virtual machine.

NVIDIA's driver, its runtime library and nvcc are emulated, so that TVM allocates, copies and calls
as on a GPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm

from tests.emulated_gpu import EmulatedGpu, needs_emulator
from tests.small_network import small_network
from tvmconv.core.errors import ConfigError, TargetError
from tvmconv.lab.emulation.driver import compile_runtime
from tvmconv.machines.targets import resolve_device
from tvmconv.transform import SubstituteConv2d

RUN = """
import sys
import numpy as np, onnx, tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvmconv.transform import ScheduleOperators, SubstituteConv2d

folder, convolutions, *precisions = sys.argv[1:]
target, transform = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}), relax.transform
given, device = np.load(f"{folder}/x.npy"), tvm.cuda(0)

def rounded(_layer, _workload, candidates):
    # selection would choose few of them for layers so small
    return next((each for each in candidates if each.precision), None)

for precision in precisions:
    passes = [
        SubstituteConv2d(target, precision=precision, overrides=rounded),
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FuseOps(),
        transform.FuseTIR(),
        ScheduleOperators(target),
    ]
    passed = tvm.transform.Sequential(passes)(from_onnx(onnx.load(f"{folder}/net.onnx")))
    assert not any(isinstance(f, tvm.tirx.PrimFunc) for f in passed.functions.values())
    names = [name for called in passed.attrs["tvmconv.calls"].values() for name in called]
    found = [name for name in names if name.startswith(("conv2d", "depthwise"))]
    assert len(found) == int(convolutions), names
    executable = relax.build(passed, target=target)
    main = relax.VirtualMachine(executable, device)["main"]
    x = tvm.runtime.tensor(given, device)
    results = [main(x).numpy() for _ in range(2)]
    assert np.array_equal(*results)
    np.save(f"{folder}/{precision}.npy", results[0])
    try:
        main(tvm.runtime.tensor(given))
    except ValueError as error:
        assert "is not in the memory of a GPU" in str(error), error
    else:
        raise AssertionError("a tensor on the CPU was taken")
"""


def emulated(folder: Path, model: onnx.ModelProto, *precisions: str) -> None:
    """Run a model by each precision, and compare with onnxruntime."""
    gpu = EmulatedGpu(folder / "gpu")
    compile_runtime(gpu.folder)
    (info,) = model.graph.input
    shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape, "float32")
    np.save(folder / "x.npy", x)
    onnx.save(model, folder / "net.onnx")
    convolutions = sum(node.op_type == "Conv" for node in model.graph.node)
    done = gpu.python("-c", RUN, folder, str(convolutions), *precisions)
    assert done.returncode == 0, done.stderr
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {info.name: x})
    for precision in precisions:
        result = np.load(folder / f"{precision}.npy")
        error = np.abs(result - expected).max() / np.abs(expected).max()
        # a sum of rounded operands that is exactly float32 would be a fault, too
        low, high = (0, 1e-5) if precision == "float32" else (1e-5, 5e-3)
        assert low <= error <= high, precision


@needs_emulator
def test_a_network_runs_in_the_virtual_machine(tmp_path):
    """The code of both passes; the convolution's is machine code before the pooling's is made."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[2,8,9,10] x) => (float[2,16,4,5] y) <float[16,8,3,3] w>
    {
      c = Conv <pads = [1, 1, 1, 1]> (x, w)
      r = Relu (c)
      y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
    }"""
    model = onnx.parser.parse_model(text)
    weight = np.random.default_rng(1).standard_normal((16, 8, 3, 3), "float32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    emulated(tmp_path, model, "float32")


@needs_emulator
@pytest.mark.slow
def test_precisions_and_batches(tmp_path):
    emulated(tmp_path, small_network(3), "float32", "tf32", "fp16")


def test_a_target_of_tvm_is_the_gpu():
    target = {"kind": "cuda", "arch": "sm_80"}
    assert resolve_device(tvm.target.Target(target)) == resolve_device("cuda:sm_80")
    assert resolve_device(target) == resolve_device("cuda:sm_80")
    with pytest.raises(TargetError, match="unsupported target 'cuda:sm_70'"):
        resolve_device({"kind": "cuda", "arch": "sm_70"})


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_a_cpu_has_no_low_precision(precision):
    with pytest.raises(ConfigError, match=f"precision='{precision}' requires a CUDA target"):
        SubstituteConv2d("native", precision=precision)
