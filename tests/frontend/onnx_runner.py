"""Runs a model through the importer and a build function, and through reference runtimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvmconv.core.stored_types import code_type, numpy_type
from tvmconv.frontend import LoadedModel, read_model, to_relax

Arrays = Mapping[str, np.ndarray]
Build = Callable[[LoadedModel, Arrays], list[np.ndarray]]


def tvm_pipeline(loaded: LoadedModel, feeds: Arrays) -> list[np.ndarray]:
    """TVM's own pipeline: slow kernels, but none of tvmconv's, so only the importer is tested."""
    import tvm
    from tvm import relax

    if any(0 in info.shape for info in loaded.outputs):
        # a result without elements is a constant, which TVM's executables cannot hold
        return whole_build(loaded, feeds)
    # at level 0: many small models, each called once
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    executable = relax.build(to_relax(loaded), target=target)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    # numpy's ascontiguousarray would turn shape () into (1,)
    operands = [
        tvm.runtime.tensor(
            np.asarray(feeds[info.name], numpy_type(info.dtype), order="C").view(
                code_type(info.dtype)
            )
        )
        for info in loaded.inputs
    ]
    result = machine["main"](*operands)
    results = [result] if len(loaded.outputs) == 1 else list(result)
    return [
        value.numpy().view(numpy_type(info.dtype))
        for value, info in zip(results, loaded.outputs, strict=True)
    ]


def whole_build(loaded: LoadedModel, feeds: Arrays) -> list[np.ndarray]:
    """``tvmconv.build``: the importer together with everything after it."""
    import tvmconv

    # as the sizes of empty inputs must be given
    shapes = {info.name: info.shape for info in loaded.inputs}
    results = tvmconv.build(loaded.proto, shapes=shapes).run(dict(feeds))
    return [results[info.name] for info in loaded.outputs]


def run(
    model: onnx.ModelProto, feeds: Arrays, build: Build = tvm_pipeline, **options: Any
) -> list[np.ndarray]:
    """Outputs of a model imported by tvmconv and built by ``build``."""
    return build(read_model(model, **options), feeds)


def run_reference(
    model: onnx.ModelProto, feeds: Arrays, *, optimised: bool = True
) -> list[np.ndarray]:
    """Outputs according to onnxruntime.

    INT8 models need ``optimised=False``: onnxruntime's own kernels for them saturate 16-bit sums.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(feeds))


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Arrays | None = None,
    *,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of float32 inputs and outputs; output shapes are left open."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 21 else 10
    )


def freeze(
    model: onnx.ModelProto, values: Sequence[np.ndarray], keep: int
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with all but the first ``keep`` inputs as constants, and feeds for those."""
    frozen = onnx.ModelProto()
    frozen.CopyFrom(model)
    feeds = {}
    for index, (info, value) in enumerate(zip(model.graph.input, values, strict=True)):
        if index < keep:
            feeds[info.name] = value
        else:
            frozen.graph.initializer.append(numpy_helper.from_array(np.asarray(value), info.name))
    del frozen.graph.input[keep:]
    return frozen, feeds


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal float32 data."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
