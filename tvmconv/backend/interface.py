"""The interface ``onnx.backend``: prepare a model, run a model, run a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tvmconv.building import build
from tvmconv.core.errors import InputError, TvmconvError

Array = npt.NDArray[Any]


class Prepared(BackendRep):  # type: ignore[misc]
    """A model that is built at once, or with the shapes of the inputs that it is called with.

    Made by :func:`tvmconv.backend.prepare`.
    """

    def __init__(self, model: onnx.ModelProto, options: Mapping[str, Any]) -> None:
        self._model = build(model, dynamic=True, **options)

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """Compute the outputs of a list of arrays, a mapping by name, or one array.

        Returns a tuple that is indexed by the outputs' names as well.
        """
        if isinstance(inputs, Mapping):
            outputs = self._model.run({name: np.asarray(value) for name, value in inputs.items()})
        else:
            arrays = [inputs] if isinstance(inputs, np.ndarray) else inputs
            outputs = self._model.run(*map(np.asarray, arrays))
        named: tuple[Any, ...] = namedtupledict("Outputs", outputs.names)(*outputs)
        return named


class TvmconvBackend(Backend):  # type: ignore[misc]
    """ONNX's backend interface; further arguments are as in :func:`tvmconv.build`."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Prepared:
        """Build a model; open dimensions are taken from the inputs of each call."""
        return Prepared(model, {**_target(device), **options})

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[npt.DTypeLike, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Run one operator; ``opset_version`` is its operator set, by default the newest."""
        opset = int(options.pop("opset_version", onnx.defs.onnx_opset_version()))
        names = [name for name in node.input if name]
        arrays = [np.asarray(value) for value in inputs]
        if len(arrays) != len(names):
            raise InputError(
                f"the node has {len(names)} input(s), got {len(arrays)}. Pass an array for each."
            )
        values = dict(zip(names, arrays, strict=True))
        model = _model_of(node, values, outputs_info, opset)
        return cls.prepare(model, device, **options).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on ``"CPU"`` or on the GPU ``"CUDA"``, ``"CUDA:1"`` of this host."""
        try:
            target = _target(device)
        except InputError:
            return False
        if "device" not in target:
            return True
        from tvmconv.machines.cuda_native import native_gpu

        try:
            native_gpu(target["device"])
        except TvmconvError:
            return False
        return True


def _target(device: str) -> dict[str, Any]:
    """The arguments of ``build`` for a device as ONNX writes it."""
    kind, _, number = device.partition(":")
    if kind == "CPU":
        return {}
    if kind == "CUDA" and (number or "0").isdigit():
        return {"target": "cuda", "device": int(number or 0)}
    raise InputError(f"device={device!r} is unknown. Expected 'CPU', 'CUDA' or 'CUDA:1'.")


def _model_of(
    node: onnx.NodeProto,
    values: Mapping[str, Array],
    outputs: Sequence[tuple[npt.DTypeLike, tuple[int, ...]]] | None,
    opset: int,
) -> onnx.ModelProto:
    """A model of one node; without ``outputs``, onnx infers the types of its results."""
    types = {
        name: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in values.items()
    }
    names = [name for name in node.output if name]
    if outputs is None:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        opsets = [helper.make_opsetid("", opset)]
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, opset_imports=opsets, ir_version=onnx.IR_VERSION
        )
        made = [helper.make_value_info(name, found[name]) for name in names]
    else:
        made = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t)), shape)
            for name, (t, shape) in zip(names, outputs, strict=True)
        ]
    given = [helper.make_value_info(name, kind) for name, kind in types.items()]
    graph = helper.make_graph([node], node.op_type or "node", given, made)
    imports = [helper.make_opsetid("", opset)]
    if node.domain:
        imports.append(helper.make_opsetid(node.domain, 1))
    return helper.make_model(graph, opset_imports=imports)
