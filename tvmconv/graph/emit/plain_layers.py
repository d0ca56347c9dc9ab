"""Convolutions and fully connected layers of devices whose layers read and write plain tensors."""

from __future__ import annotations

from math import prod

from tvmconv.core.decision import Candidate
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.graph.emit.emitter import CallRecord, Emitter, constant_of, scheduled
from tvmconv.graph.emit.layers import layer_function
from tvmconv.graph.ir import Array, Node
from tvmconv.graph.layout import oihw_weight
from tvmconv.graph.rewrite.fold import as_float32
from tvmconv.kernels.arguments import Constants, constant_arguments
from tvmconv.kernels.kernel import Kernel
from tvmconv.operators.dense_rows import dense_rows
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr, Tensor


def emit_plain_conv(emitter: Emitter, node: Node) -> None:
    """A convolution kernel as the plan decided."""
    decision = emitter.plan.decisions[node]
    workload = decision.workload
    data, weight, *rest = node.args
    bias = as_float32(rest.pop(0).data) if workload.has("bias") else None
    residual = emitter.as_plain(rest.pop(0)) if workload.has("add") else None
    emitter.plain[node.output] = _convolved(
        emitter,
        node,
        (workload, decision.chosen),
        emitter.as_plain(data),
        Constants(as_float32(weight.data), bias),
        residual,
    )


def emit_plain_dense(emitter: Emitter, node: Node) -> None:
    """A fully connected layer."""
    epilogue = node.attrs["epilogue"]
    value, constant, *rest = node.args
    kinds = [step.kind for step in epilogue]
    bias = as_float32(rest.pop(0).data).reshape(-1) if "bias" in kinds else None
    data = emitter.as_plain(value)
    residual = emitter.as_plain(rest.pop(0)) if "add" in kinds else None
    if (decision := emitter.plan.decisions.get(node)) is not None:
        workload, chosen = decision.workload, decision.chosen
        if residual is not None:
            residual = emitter.reshape(residual, workload.result_shape)
        image = emitter.reshape(data, workload.data_shape)
        constants = Constants(oihw_weight(node, workload), bias)
        made = _convolved(emitter, node, (workload, chosen), image, constants, residual)
        emitter.plain[node.output] = emitter.reshape(made, node.output.dims)
        return
    weight: Array = as_float32(constant.data).T
    *batch, outputs = node.output.dims
    rows = prod(batch)
    if len(batch) > 1:
        data = emitter.reshape(data, (rows, weight.shape[1]))
        residual = None if residual is None else emitter.reshape(residual, (rows, outputs))
    args = [data, constant_of(weight, "float32")]
    if bias is not None:
        args.append(constant_of(bias, "float32"))
    if residual is not None:
        args.append(residual)

    def expression(*tensors: Tensor) -> Tensor:
        return dense_rows(*tensors, epilogue=epilogue)

    record = CallRecord(node.layer, "dense", flops=2 * rows * constant.data.size)
    flat = emitter.call(expression, args, record, opaque=True)
    emitter.plain[node.output] = emitter.reshape(flat, node.output.dims) if len(batch) > 1 else flat


def _convolved(
    emitter: Emitter,
    node: Node,
    decided: tuple[Conv2dWorkload, Candidate],
    data: RelaxExpr,
    constants: Constants,
    residual: RelaxExpr | None,
) -> RelaxExpr:
    """The call of a convolution kernel, whose workspace is returned as additional results."""
    workload, chosen = decided
    kernel = Kernel(workload, emitter.machine, chosen.algorithm, chosen.config)
    try:
        packed = constant_arguments(kernel, constants)
    except ConfigError as error:
        # weights that are not finite in the selected precision
        raise ConfigError(f"layer {node.layer!r}: {error}") from error
    args = [data, *(constant_of(array, str(array.dtype)) for array in packed)]
    if residual is not None:
        args.append(residual)
    function = layer_function(emitter, kernel, node.layer)
    results = scheduled(kernel).params[len(args) :]
    types = [relax.TensorType([int(n) for n in r.shape], str(r.dtype)) for r in results]
    call = relax.call_tir(function, args, types[0] if len(types) == 1 else types)
    operator = "depthwise_conv2d" if workload.is_depthwise else "conv2d"
    name = operator if node.op.endswith("conv2d") else "dense"
    record = CallRecord(node.layer, name, str(workload), workload.flops)
    made = emitter.bind(call, record)
    return made if len(types) == 1 else emitter.bind(relax.TupleGetItem(made, 0), record)
