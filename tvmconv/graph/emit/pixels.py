"""Convolutions by vectors of pixels with their packed constants."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tvmconv.algorithms.direct.direct import flattened
from tvmconv.core.decision import PIXEL_CONV
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.pixel_conv import (
    interleaved_product_cycles,
    pixel_cycles,
    pixel_tile,
    window_cycles,
)
from tvmconv.graph.emit.emitter import CallRecord, Emitter, constant_of
from tvmconv.graph.ir import Node, Value
from tvmconv.graph.pixels import PixelLayer
from tvmconv.graph.rewrite.fold import as_float32
from tvmconv.graph.rewrite.interleaved import phase_channels
from tvmconv.machines.record import processor
from tvmconv.operators.epilogue import apply_epilogue
from tvmconv.operators.interleave import interleaved_planes
from tvmconv.operators.matmul import matmul
from tvmconv.operators.pixel_conv import FloatArray, pack_pixel_weight, pixel_conv
from tvmconv.operators.tap_products import add_taps, tap_rows
from tvmconv.operators.windows import windows, zero_border
from tvmconv.tvm_api import te
from tvmconv.tvm_api.types import Expr, RelaxExpr, Tensor


def emit_pixel_conv(emitter: Emitter, node: Node, layer: PixelLayer) -> None:
    """A convolution of plain tensors, and the depth-to-space after it."""
    given, interleave = node.attrs["workload"], layer.interleave
    if layer.adds_taps:
        _emit_tap_products(emitter, node, layer.reason)
        return
    data, weight, *rest = node.args
    kernel, phases, result = as_float32(weight.data), (1, 1), node.output
    bias = as_float32(rest.pop(0).data).reshape(-1) if given.has("bias") else None
    if interleave is not None:
        # the pixels of a block in succession
        order, result = phase_channels(interleave).reshape(-1), interleave.output
        phases, kernel = interleave.attrs["block"], kernel[order]
        bias = None if bias is None else bias[order]
        given = replace(given, out_channels=len(order))
    # a depth-to-space needs the image's rows
    w = flattened(given) if interleave is None else given
    machine = processor(emitter.machine)
    if interleaved_product_cycles(w, machine, phases) < pixel_cycles(w, machine, phases):
        columns = emitter.as_plain(data)
        made = _interleaved_product(emitter, node, w, (columns, kernel, bias), phases)
        emitter.plain[result] = _image_of(emitter, made, w, phases, result)
        return
    tile = pixel_tile(w, machine, phases)
    assert tile is not None, f"{given} has no tile"
    groups, each = w.groups, w.out_channels // w.groups
    args = [_image(emitter, data, w), constant_of(pack_pixel_weight(kernel, w, tile), "float32")]
    if bias is not None:
        args.append(constant_of(bias.reshape(groups, each), "float32"))
    if w.has("add"):
        shape = (w.batch, groups, each, w.out_height, w.out_width)
        args.append(emitter.reshape(emitter.as_plain(rest.pop(0)), shape))

    def expression(*tensors: Tensor) -> Tensor:
        return pixel_conv(*tensors, workload=w, tile=tile, phases=phases)

    record = CallRecord(node.layer, PIXEL_CONV, str(given), given.flops, layer.reason)
    made = emitter.call(expression, args, record, opaque=True)
    emitter.plain[result] = _image_of(emitter, made, w, phases, result)


def _image_of(
    emitter: Emitter, made: RelaxExpr, w: Conv2dWorkload, phases: tuple[int, int], result: Value
) -> RelaxExpr:
    """The result of a layer in its shape, without the last rows and columns that it leaves out."""
    sizes = (w.out_height * phases[0], w.out_width * phases[1])
    # vectors of pixels may run over rows of another length
    if prod(sizes) == prod(result.dims[2:]):
        return emitter.reshape(made, result.dims)
    image = emitter.reshape(made, (*result.dims[:2], *sizes))
    record = CallRecord(result.name, "crop")
    return emitter.call(
        lambda x: te.compute(result.dims, lambda *index: x[index], name="crop"), [image], record
    )


def _interleaved_product(
    emitter: Emitter,
    node: Node,
    w: Conv2dWorkload,
    operands: tuple[RelaxExpr, FloatArray, FloatArray | None],
    phases: tuple[int, int],
) -> RelaxExpr:
    """A layer of single pixels as a product, whose rows are then interleaved to an image."""
    image, kernel, bias = operands
    pixels = w.out_height * w.out_width
    columns = emitter.reshape(image, (w.batch, w.in_channels, pixels))
    args = [constant_of(kernel.reshape(w.out_channels, w.in_channels), "float32"), columns]
    if bias is not None:
        args.append(constant_of(bias.reshape(-1), "float32"))

    def product(rows: Tensor, columns: Tensor, *biases: Tensor) -> Tensor:
        total = matmul(rows, columns, ((0, 1), (0, 1, 2)))

        def finished(n: Expr, k: Expr, p: Expr) -> Expr:
            return apply_epilogue(total[n, k, p], w.epilogue, *(b[k] for b in biases))

        return te.compute((w.batch, w.out_channels, pixels), finished, name="finished")

    reason = "product of the weights and the pixels: vectors of positions of any rows"
    record = CallRecord(node.layer, "matmul", str(w), w.flops, reason)
    made = emitter.call(product, args, record, opaque=True)
    outputs = w.out_channels // prod(phases)
    planes = emitter.reshape(made, (w.batch * outputs, *phases, w.out_height, w.out_width))
    record = CallRecord(node.layer, "depth_to_space")
    return emitter.call(interleaved_planes, [planes], record, opaque=True)


def _emit_tap_products(emitter: Emitter, node: Node, reason: str) -> None:
    """A convolution as a product of all taps with all pixels, and the sums of the products."""
    w: Conv2dWorkload = node.attrs["workload"]
    (data, weight, *biases), lanes = node.args, emitter.lanes
    images, groups, each = w.batch * w.in_depth, w.groups, w.out_channels // w.groups
    pixels, taps = w.in_height * w.in_width, w.kernel_d * w.kernel_h * w.kernel_w
    shape = (images, groups, w.in_channels // groups, pixels)
    columns = emitter.reshape(emitter.as_plain(data), shape)
    rows = constant_of(tap_rows(as_float32(weight.data), w), "float32")
    axes = ((0, 1, 2), (0, 1, 2, 3))
    record = CallRecord(node.layer, PIXEL_CONV, str(w), w.flops, reason)
    made = emitter.call(lambda a, b: matmul(a, b, axes), [rows, columns], record, opaque=True)
    parts = (images, groups * each, taps // w.kernel_w, w.kernel_w, w.in_height, w.in_width)
    made = emitter.reshape(made, parts)
    record = CallRecord(node.layer, "add_taps")
    sums = emitter.call(lambda x: add_taps(x, w, lanes), [made], record, opaque=True)
    if w.epilogue:
        args = [sums, *(constant_of(as_float32(b.data).reshape(-1), "float32") for b in biases)]

        def finish(total: Tensor, *biases: Tensor) -> Tensor:
            def element(n: Expr, k: Expr, y: Expr, x: Expr) -> Expr:
                return apply_epilogue(total[n, k, y, x], w.epilogue, *(b[k] for b in biases))

            return te.compute(total.shape, element, name="finished")

        sums = emitter.call(finish, args, CallRecord(node.layer, "epilogue"))
    emitter.plain[node.output] = emitter.reshape(sums, node.output.dims)


def emit_run_time_conv(emitter: Emitter, node: Node) -> None:
    """A convolution whose weight is a tensor, read as it is."""
    given, (data, weight) = node.attrs["workload"], node.args
    w, machine = flattened(given), processor(emitter.machine)
    kernel, reason = emitter.as_plain(weight), "the weights are computed at run time"
    if window_cycles(w, machine) < pixel_cycles(w, machine, divides=True):
        made = _product_of_windows(emitter, node, _image(emitter, data, w), kernel)
    else:
        tile = pixel_tile(w, machine, divides=True)
        assert tile is not None, f"{given} has no tile"

        def expression(*tensors: Tensor) -> Tensor:
            return pixel_conv(*tensors, workload=w, tile=tile)

        record = CallRecord(
            node.layer, PIXEL_CONV, str(given), given.flops, f"vectors of positions: {reason}"
        )
        args = [_image(emitter, data, w), kernel]
        made = emitter.call(expression, args, record, opaque=True)
    emitter.plain[node.output] = emitter.reshape(made, node.output.dims)


def _product_of_windows(
    emitter: Emitter, node: Node, image: RelaxExpr, weight: RelaxExpr
) -> RelaxExpr:
    """A convolution as the product of its weight and a copy of its windows."""
    given = node.attrs["workload"]
    w = flattened(given)
    record = CallRecord(node.layer, "windows")
    if w.has_padding:
        image = emitter.call(lambda x: zero_border(x, w), [image], record, opaque=True)
    if w.kernel_h * w.kernel_w * w.stride_h * w.stride_w > 1:
        image = emitter.call(lambda x: windows(x, w), [image], record, opaque=True)
    taps, pixels = w.in_channels * w.kernel_h * w.kernel_w, w.out_height * w.out_width
    columns = emitter.reshape(image, (w.batch, taps, pixels))
    rows = emitter.reshape(weight, (w.out_channels, taps))
    reason = "product of the weights and the windows: the weights are computed at run time"
    record = CallRecord(node.layer, "matmul", str(given), given.flops, reason)
    axes = ((0, 1), (0, 1, 2))
    return emitter.call(lambda a, b: matmul(a, b, axes), [rows, columns], record)


def _image(emitter: Emitter, data: Value, w: Conv2dWorkload) -> RelaxExpr:
    """The input in the shape of the workload, which may be flattened."""
    image = emitter.as_plain(data)
    return image if w.data_shape == data.dims else emitter.reshape(image, w.data_shape)
