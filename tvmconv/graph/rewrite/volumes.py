"""Moves networks on (N, C, D, H, W) volumes to (N * D, C, H, W) images, the form kernels take.

The planes of a volume become consecutive images of the batch. A 3-D convolution becomes an
``nn.conv2d`` node. Its attribute ``depth`` holds the workload's fields of the depth, unless every
output plane reads one input plane. Element-wise operators, joins and poolings after such layers are
repeated on the images. The changes of layout between layers then have no readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.graph.ir import ARITHMETIC, Arg, Graph, Node, Value, constant, make_conv, make_node
from tvmconv.graph.quantized.scales import dequantize_node, known_integers
from tvmconv.graph.scalars import scalar_expression

_POOLS = {"nn.max_pool3d": "nn.max_pool2d", "nn.avg_pool3d": "nn.avg_pool2d"}


def lower_volumes(graph: Graph) -> None:
    """Rewrite every ``nn.conv3d`` with a constant weight, and later operators on volumes.

    Data and weights are FP32 and may be dequantized.
    """
    volumes = _Volumes()
    graph.forward(volumes.visit)
    graph.remove_dead()


def is_volume_conv(node: Node) -> bool:
    """Whether a node is a 3-D convolution that kernels can compute."""
    return (
        node.op == "nn.conv3d"
        and _is_volume(node.output)
        and _is_volume(node.args[0])
        and not node.args[0].is_const
        and (node.const(1) is not None or _known_kernel(node) is not None)
        and (node.attrs["data_layout"], node.attrs["kernel_layout"]) == ("NCDHW", "OIDHW")
        and node.attrs.get("out_layout") in (None, "", "NCDHW")
    )


def _known_kernel(node: Node) -> QuantizedConstant | None:
    """The integers of a kernel whose scales belong to the output channels."""
    known = known_integers(node.args[1])
    return known if known is not None and known.axis == 0 else None


def _is_volume(value: Value) -> bool:
    return value.dtype == "float32" and value.shape is not None and len(value.shape) == 5


class _Volumes:
    """The rewrite of one graph: volumes, by the images that hold the same numbers."""

    def __init__(self) -> None:
        self.images: dict[Value, Value] = {}
        self.steps: list[Node] = []

    def visit(self, node: Node, mapping: dict[Value, Value]) -> list[Node]:
        self.steps = []
        rule = _RULES.get(node.op)
        if rule is None and scalar_expression(node) is not None:
            rule = _Volumes._map
        if rule is None or not node.inputs or len(node.outputs) != 1:
            return [node]
        known = any(value in self.images for value in node.inputs)
        is_real = node.output.dtype == "float32" or node.op == "quantize"
        if not (known or is_volume_conv(node)) or not is_real:
            return [node]
        result = rule(self, node)
        if result is None:
            # later nodes may read the images that were made for this node
            return [*self.steps, node]
        mapping[node.output] = self._volume_of(result, node.output.dims)
        return self.steps

    def _emit(self, op: str, args: list[Arg], shape: tuple[int, ...], **attrs: Any) -> Value:
        layer, dtype = attrs.pop("layer", ""), attrs.pop("dtype", "float32")
        self.steps.append(make_node(op, args, shape, dtype=dtype, layer=layer, attrs=attrs))
        return self.steps[-1].output

    def _image_of(self, volume: Value) -> Value:
        """The planes of a volume as images of one batch."""
        if volume not in self.images:
            n, channels, depth, height, width = volume.dims
            planes = volume
            if depth > 1 and channels > 1:
                shape = (n, depth, channels, height, width)
                planes = self._emit("permute_dims", [volume], shape, axes=(0, 2, 1, 3, 4))
            self.images[volume] = self._emit(
                "reshape", [planes], (n * depth, channels, height, width)
            )
        return self.images[volume]

    def _volume_of(self, image: Value, shape: tuple[int, ...]) -> Value:
        """The images as a volume of this shape, or a pooled one without its unit axes."""
        if len(shape) != 5:
            return self._emit("reshape", [image], shape, dtype=image.dtype)
        n, channels, depth, height, width = shape
        moved = depth > 1 and channels > 1
        planes = (n, depth, channels, height, width) if moved else shape
        volume = self._emit("reshape", [image], planes, dtype=image.dtype)
        if moved:
            axes = (0, 2, 1, 3, 4)
            volume = self._emit("permute_dims", [volume], shape, axes=axes, dtype=image.dtype)
        self.images[volume] = image
        return volume

    def _conv(self, node: Node) -> Value | None:
        if not is_volume_conv(node):
            return None
        attrs = node.attrs
        front, top, left, back, bottom, right = attrs["padding"]
        weight = node.args[1]
        channels, inner, taps, rows, columns = weight.dims
        depth = {
            "in_depth": node.args[0].dims[2],
            "kernel_d": taps,
            "stride_d": attrs["strides"][0],
            "dilation_d": attrs["dilation"][0] if taps > 1 else 1,
            "pad_front": front,
            "pad_back": back,
        }
        shape, known = (channels, inner, taps * rows, columns), _known_kernel(node)
        if known is None:
            kernel = constant(np.reshape(weight.data, shape), weight.name, weight.dtype)
        else:
            self.steps.append(dequantize_node(known.reshaped(shape, known.axis)))
            kernel = self.steps[-1].output
        n, _, planes, height, width = node.output.dims
        conv = make_conv(
            self._image_of(node.args[0]),
            kernel,
            (n * planes, channels, height, width),
            node.layer,
            strides=attrs["strides"][1:],
            padding=(top, left, bottom, right),
            dilation=attrs["dilation"][1:],
            groups=attrs["groups"],
        )
        if (taps, depth["stride_d"], front, back) != (1, 1, 0, 0):
            conv.attrs["depth"] = depth
        self.steps.append(conv)
        return conv.output

    def _interleave(self, node: Node) -> Value | None:
        """Phases of a transposed convolution; images hold some of them."""
        image, (n, channels, depth, height, width) = self.images[node.args[0]], node.output.dims
        attrs, phases = dict(node.attrs), node.attrs["depth"]
        if (phases.stride, phases.crop, phases.images) == (1, 0, depth):
            del attrs["depth"]
        shape = (n * depth, channels, height, width)
        same = attrs["block"] == (1, 1) and attrs["inner"] == attrs["stride"] == channels
        if same and "depth" not in attrs and image.dims == shape:
            return image
        return self._emit("depth_to_space", [image], shape, layer=node.layer, **attrs)

    def _map(self, node: Node) -> Value | None:
        image = self.images[node.args[0]]
        return self._emit(node.op, [image], image.dims, layer=node.layer, **node.attrs)

    def _linear(self, node: Node) -> Value | None:
        """Quantization or its inverse, with one scale or one per channel."""
        image, parameters = self.images.get(node.args[0]), node.args[1:]
        single = all(value.data is not None and value.data.size == 1 for value in parameters)
        if image is None or not (single or node.attrs["axis"] in (1, -4)):
            return None
        attrs = {"axis": 1, "dtype": node.output.dtype, "layer": node.layer}
        return self._emit(node.op, [image, *parameters], image.dims, **attrs)

    def _binary(self, node: Node) -> Value | None:
        if not _is_volume(node.output):
            return None
        n, channels, depth, height, width = node.output.dims
        operands = [self._operand(value, node.output.dims) for value in node.args]
        if None in operands:
            return None
        shape = (n * depth, channels, height, width)
        return self._emit(node.op, operands, shape, layer=node.layer, **node.attrs)

    def _operand(self, value: Value, shape: tuple[int, ...]) -> Value | None:
        """An operand as images that broadcast to the images of a volume with the given shape."""
        if value.shape is None or value.dtype != "float32" or len(value.dims) > 5:
            return None
        n, _, depth, *_ = shape
        full = (1,) * (5 - len(value.dims)) + value.dims
        if value.data is not None:
            data = np.reshape(value.data, full)
            if full[0] > 1 or full[2] > 1:
                data = np.broadcast_to(data, (n, full[1], depth, *full[3:]))
            planes = np.moveaxis(data, 2, 1)
            return constant(planes.reshape(-1, *planes.shape[2:]), value.name, value.dtype)
        if len(value.dims) < 5:
            return None
        if (full[0], full[2]) in ((n, depth), (1, 1)):
            return self._image_of(value)
        if (full[0], full[2]) != (n, 1):
            return None
        # repeat the one plane of the operand for every plane of the volume
        rows = full[1] * full[3] * full[4]
        single = self._emit("reshape", [self._image_of(value)], (n, 1, rows))
        repeated = self._emit("broadcast_to", [single], (n, depth, rows))
        return self._emit("reshape", [repeated], (n * depth, full[1], *full[3:]))

    def _concat(self, node: Node) -> Value | None:
        if node.attrs.get("axis") not in (1, -4) or not all(map(_is_volume, node.inputs)):
            return None
        n, channels, depth, height, width = node.output.dims
        parts = [self._operand(value, value.dims) for value in node.inputs]
        shape = (n * depth, channels, height, width)
        return self._emit("concat", [parts], shape, layer=node.layer, axis=1)

    def _global(self, node: Node) -> Value | None:
        """Mean or maximum of each plane, then of all planes."""
        source, axes = node.args[0], node.attrs.get("axis")
        if not _is_volume(source) or axes is None or sorted(a % 5 for a in axes) != [2, 3, 4]:
            return None
        n, channels, depth, *_ = source.dims
        shape = (n * depth, channels, 1, 1)
        pooled = self._emit(
            node.op, [self.images[source]], shape, layer=node.layer, axis=(2, 3), keepdims=True
        )
        if depth == 1:
            return pooled
        planes = self._emit("reshape", [pooled], (n, depth, channels))
        total = self._emit(
            node.op, [planes], (n, channels), layer=node.layer, axis=(1,), keepdims=False
        )
        return self._emit("reshape", [total], (n, channels, 1, 1))

    def _pool(self, node: Node) -> Value | None:
        """Pool the planes, then along the depth, which gives the same maxima and means."""
        attrs, image = node.attrs, self.images[node.args[0]]
        if attrs["layout"] != "NCDHW" or attrs["ceil_mode"]:
            return None
        n, channels, depth, height, width = node.output.dims
        front, top, left, back, bottom, right = attrs["padding"]
        per_axis = {key: attrs[key] for key in ("pool_size", "strides", "dilation")}
        counted = bool(attrs["count_include_pad"])
        inner = {key: value[1:] for key, value in per_axis.items()}
        planes = n * node.args[0].dims[2]
        sides = (top, left, bottom, right)
        if (*inner["pool_size"], *inner["strides"]) != (1, 1, 1, 1) or any(sides):
            image = self._emit(
                _POOLS[node.op],
                [image],
                (planes, channels, height, width),
                layer=node.layer,
                **inner,
                padding=sides,
                layout="NCHW",
                out_layout="NCHW",
                ceil_mode=False,
                count_include_pad=counted,
            )
        size, stride, dilation = (value[0] for value in per_axis.values())
        if (size, stride, front, back) == (1, 1, 0, 0):
            return image
        return self._emit(
            "depth_pool",
            [image],
            (n * depth, channels, height, width),
            layer=node.layer,
            kind="max" if node.op == "nn.max_pool3d" else "avg",
            volumes=n,
            window=(size, stride, front, back, dilation),
            count_include_pad=counted,
        )


_RULES: dict[str, Callable[[_Volumes, Node], Value | None]] = {
    "nn.conv3d": _Volumes._conv,
    "quantize": _Volumes._linear,
    "dequantize": _Volumes._linear,
    "concat": _Volumes._concat,
    "depth_to_space": _Volumes._interleave,
    "mean": _Volumes._global,
    "max": _Volumes._global,
    **dict.fromkeys(ARITHMETIC, _Volumes._binary),
    **dict.fromkeys(_POOLS, _Volumes._pool),
}
