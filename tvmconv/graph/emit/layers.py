"""Convolutions and fully connected layers with their packed constants."""

from __future__ import annotations

from tvmconv.algorithms.operands import input_shape, output_shape
from tvmconv.core.datatypes import itemsize
from tvmconv.core.errors import ConfigError
from tvmconv.graph.emit.emitter import CallRecord, Emitter, constant_of
from tvmconv.graph.ir import Node, Value
from tvmconv.graph.layout import flattened_image, oihw_weight
from tvmconv.graph.rewrite.fold import as_float32
from tvmconv.kernels.arguments import Constants, constant_arguments
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.record import processor
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import GlobalVar, RelaxExpr


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
    decision = emitter.plan.decisions[node]
    workload, chosen = decision.workload, decision.chosen
    kernel = Kernel(workload, emitter.machine, chosen.algorithm, chosen.config)
    machine = processor(emitter.machine)
    value, constant, *rest = node.args
    image = flattened_image(node) if node in emitter.plan.flattened else None
    if image is not None:
        data = emitter.reshape(emitter.as_blocked(image), input_shape(workload, machine))
    else:
        data = _matrix(emitter, value, input_shape(workload, machine))
    weight = oihw_weight(node, workload, emitter.lanes if image is not None else 0)
    bias = as_float32(rest.pop(0).data).reshape(-1) if workload.has("bias") else None
    packed = constant_arguments(kernel, Constants(weight, bias))
    args = [data, *(constant_of(array, "float32") for array in packed)]
    written = output_shape(workload, machine)
    if workload.has("add"):
        args.append(_matrix(emitter, rest.pop(0), written))
    function = layer_function(emitter, kernel, node.layer)
    call = relax.call_tir(function, args, relax.TensorType(written, "float32"))
    flops = 2 * workload.batch * constant.data.size
    made = emitter.bind(call, CallRecord(node.layer, "dense", str(workload), flops))
    shape = node.output.dims
    emitter.plain[node.output] = made if shape == written else emitter.reshape(made, shape)


def _matrix(emitter: Emitter, value: Value, shape: tuple[int, ...]) -> RelaxExpr:
    """A tensor with all axes except the last one as rows."""
    data = emitter.as_plain(value)
    return data if value.dims == shape else emitter.reshape(data, shape)
