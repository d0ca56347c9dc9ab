"""Convolutions by vectors of pixels with their packed constants."""

from __future__ import annotations

from tvmconv.costs.pixel_conv import pixel_tile
from tvmconv.graph.emitter import CallRecord, Emitter, constant_of
from tvmconv.graph.fold import as_float32
from tvmconv.graph.ir import Node
from tvmconv.machines.record import processor
from tvmconv.operators.pixel_conv import flattened, pack_pixel_weight, pixel_conv
from tvmconv.tvm_api.types import Tensor

# what reports call these calls
PIXEL_CONV = "pixel_conv2d"


def emit_pixel_conv(emitter: Emitter, node: Node) -> None:
    """A convolution from a plain tensor to a plain tensor."""
    given = node.attrs["workload"]
    w = flattened(given)
    tile = pixel_tile(w, processor(emitter.machine))
    data, weight, *rest = node.args
    groups, each = w.groups, w.out_channels // w.groups
    shape = (w.batch, groups, each, w.out_height, w.out_width)
    packed = pack_pixel_weight(as_float32(weight.data), w, tile)
    image = emitter.as_plain(data)
    if w is not given:
        image = emitter.reshape(image, w.data_shape)
    args = [image, constant_of(packed, "float32")]
    if w.has("bias"):
        bias = as_float32(rest.pop(0).data).reshape(groups, each)
        args.append(constant_of(bias, "float32"))
    if w.has("add"):
        args.append(emitter.reshape(emitter.as_plain(rest.pop(0)), shape))

    def expression(*tensors: Tensor) -> Tensor:
        return pixel_conv(*tensors, workload=w, tile=tile)

    record = CallRecord(node.layer, PIXEL_CONV, str(given), given.flops)
    result = emitter.call(expression, args, record, opaque=True)
    emitter.plain[node.output] = emitter.reshape(result, node.output.dims)
