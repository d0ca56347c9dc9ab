"""Convolutions and fully connected layers with their packed constants."""

from __future__ import annotations

from math import prod

from tvmconv.algorithms.operands import input_shape, output_shape
from tvmconv.core.datatypes import itemsize
from tvmconv.core.errors import ConfigError
from tvmconv.costs.cpu.products import dense_tile
from tvmconv.graph.emit.emitter import CallRecord, Emitter, constant_of
from tvmconv.graph.ir import Node, Value
from tvmconv.graph.match import IN_FLOAT
from tvmconv.graph.rewrite.fold import as_float32
from tvmconv.kernels.arguments import Constants, constant_arguments
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.record import processor
from tvmconv.operators.dense import (
    block_flattened_weight,
    dense,
    pack_dense_bias,
    pack_dense_weight,
)
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import GlobalVar, RelaxExpr, Tensor


def emit_conv(emitter: Emitter, node: Node) -> None:
    """A convolution kernel as the plan decided."""
    decision = emitter.plan.decisions[node]
    workload, chosen, types = decision.workload, decision.chosen, decision.workload.types
    blocked = workload.data_layout == "NCHWc"
    data, weight, *rest = node.args
    if node in emitter.plan.channels_last:
        assert data.producer is not None
        data = data.producer.args[0]
    kernel = Kernel(workload, emitter.machine, chosen.algorithm, chosen.config)
    # kernels treat an image of one column as a row
    as_row = workload.result_shape[-2:] != node.output.dims[-2:]
    machine = processor(emitter.machine)
    args = [emitter.as_blocked(data) if blocked else emitter.as_plain(data)]
    if as_row:
        args = [emitter.reshape(args[0], input_shape(workload, machine))]
    constants = Constants(
        weight.data if types.is_integer else as_float32(weight.data),
        rest.pop(0).data if workload.has("bias") else None,
        **node.attrs.get("numbers", {}),
    )
    packed, *others = constant_arguments(kernel, constants)
    args += [constant_of(array, str(array.dtype)) for array in (packed, *others)]
    # transformed weights are larger without being padded
    if kernel.expression.sums_products:
        emitter.padding_bytes += max(0, packed.nbytes - itemsize(types.weight) * weight.data.size)
    written = output_shape(workload, machine)
    if workload.has("add"):
        residual = emitter.as_blocked(rest.pop(0))
        args.append(emitter.reshape(residual, written) if as_row else residual)
    n, channels, height, width = node.output.dims
    shape = (n, emitter.machine.blocks(channels), height, width, emitter.lanes)
    function = layer_function(emitter, kernel, node.layer)
    call = relax.call_tir(function, args, relax.TensorType(written, types.output))
    operator = "depthwise_conv2d" if workload.is_depthwise else "conv2d"
    record = CallRecord(node.layer, operator, str(workload), workload.flops)
    made = emitter.bind(call, record)
    emitter.set_blocked(node.output, emitter.reshape(made, shape) if as_row else made)


def layer_function(emitter: Emitter, kernel: Kernel, layer: str) -> GlobalVar:
    """The kernel's function; errors of scheduling name the layer."""
    try:
        return emitter.kernel_function(kernel)
    except MemoryError:
        raise
    except Exception as error:
        raise ConfigError(
            f"layer {layer!r}: {kernel.algorithm} ({kernel.config}) cannot be scheduled for "
            f"{kernel.workload}: {error}. Select others with algorithms=."
        ) from error


def emit_dense(emitter: Emitter, node: Node) -> None:
    """A fully connected layer, which may read the blocks of a flattened image.

    All axes except the last one count rows.
    """
    epilogue = node.attrs["epilogue"]
    value, constant, *rest = node.args
    weight = as_float32(constant.data)
    flatten = value.producer
    data: RelaxExpr | None = None
    *batch, outputs = node.output.dims
    rows, inputs = prod(batch), weight.shape[0]
    flattened = flatten is not None and flatten.op == "reshape" and len(batch) == 1
    if flatten is not None and flattened and value not in emitter.plain:
        source = flatten.args[0]
        image = source.shape is not None and len(source.shape) == 4
        if image and source in emitter.blocked and source.dims[0] == value.dims[0]:
            data = emitter.blocked[source]
            _, channels, height, width = source.dims
            weight = block_flattened_weight(weight, channels, height, width, emitter.lanes)
    if data is None:
        data = _matrix(emitter, value, (rows, inputs))
    tile = dense_tile(rows, weight.shape[0], outputs, processor(emitter.machine))
    args = [data, constant_of(pack_dense_weight(weight, tile), "float32")]
    kinds = [step.kind for step in epilogue]
    if "bias" in kinds:
        bias = pack_dense_bias(as_float32(rest.pop(0).data), tile)
        args.append(constant_of(bias, "float32"))
    if "add" in kinds:
        args.append(_matrix(emitter, rest.pop(0), (rows, outputs)))

    def expression(*tensors: Tensor) -> Tensor:
        return dense(*tensors, outputs=outputs, tile=tile, epilogue=epilogue)

    flops = 2 * rows * constant.data.size
    record = CallRecord(node.layer, "dense", flops=flops, note=node.attrs.get(IN_FLOAT, ""))
    result = emitter.call(expression, args, record, opaque=True)
    if len(batch) > 1:
        result = emitter.reshape(result, node.output.dims)
    emitter.plain[node.output] = result


def _matrix(emitter: Emitter, value: Value, shape: tuple[int, int]) -> RelaxExpr:
    """A tensor with all axes except the last one as rows."""
    data = emitter.as_plain(value)
    return data if value.dims == shape else emitter.reshape(data, shape)
