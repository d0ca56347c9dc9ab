"""Geometry of sliding-window operators: attributes checked, ``auto_pad`` and defaults resolved.

Shape inference and kernels trust ranks and list lengths, so all of them are checked here first,
from the node and its operands' shapes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import prod

from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.limits import MAX_DIMENSION, MAX_PADDED_BYTES, MAX_WINDOW_VALUE

# channels that kernels handle at a time, on the machine with the most
_BLOCK = 16
Ints = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A resolved window; every tuple has one element per spatial dimension.

    ``extra`` is padding after ``end`` that ``ceil_mode`` adds. Pooling may start a window there,
    but does not count it. ``output_padding`` belongs to ConvTranspose.
    """

    kernel: Ints
    strides: Ints
    dilations: Ints
    begin: Ints
    end: Ints
    output: Ints
    extra: Ints
    output_padding: Ints = ()
    groups: int = 1

    @property
    def padding(self) -> Ints:
        """Begin then end paddings, in Relax's order."""
        return self.begin + self.end

    def as_row(self) -> Window:
        """A 1-D window as the window of one row of an image."""
        return Window(
            kernel=(1, *self.kernel),
            strides=(1, *self.strides),
            dilations=(1, *self.dilations),
            begin=(0, *self.begin),
            end=(0, *self.end),
            output=(1, *self.output),
            extra=(0, *self.extra),
            output_padding=(0, *self.output_padding) if self.output_padding else (),
            groups=self.groups,
        )

    def without_depth(self) -> Window:
        """The window of a volume's slices."""
        sizes = (field.name for field in fields(self) if field.name != "groups")
        return replace(self, **{name: getattr(self, name)[1:] for name in sizes})


def conv_window(node: OnnxNode, data: Ints, weight: Ints, bias: Ints | None) -> Window:
    """Check a Conv with operands of these shapes and resolve its window."""
    groups = _check_operands(node, data, weight, bias)
    _expect(node, data[1] == weight[1] * groups, f"the input has {data[1]} channels, but weight "
            f"{weight} with group={groups} needs {weight[1] * groups}")  # fmt: skip
    _expect(node, weight[0] % groups == 0, f"group={groups} does not divide the {weight[0]} "
            "output channels")  # fmt: skip
    if bias is not None:
        _expect(node, bias == (weight[0],), f"the bias has shape {bias}, not ({weight[0]},)")
    _check_kernel_shape(node, weight[2:])
    _check_padded_weight(node, weight)
    window = _resolve(node, data[2:], weight[2:], groups=groups)
    _check_images(node, data[0] * _blocked(data[1]), _padded(data, window))
    _check_images(node, data[0] * _blocked(weight[0]), window.output)
    return window


def pool_window(node: OnnxNode, data: Ints) -> Window:
    """Check a MaxPool, AveragePool or LpPool and resolve its window."""
    _expect(node, 3 <= len(data) <= 5, f"the input has rank {len(data)}; 3 to 5 is supported")
    kernel = _list(node, "kernel_shape", len(data) - 2, 1)
    _expect(node, kernel is not None, "attribute kernel_shape is missing")
    assert kernel is not None
    window = _resolve(node, data[2:], kernel, ceil_mode=bool(node.attrs.get("ceil_mode", 0)))
    _check_images(node, data[0] * data[1], _padded(data, window))
    return window


def conv_transpose_window(node: OnnxNode, data: Ints, weight: Ints, bias: Ints | None) -> Window:
    """Check a ConvTranspose and resolve its window.

    As in the operator's definition, a given ``output_shape`` determines the total padding. Its odd
    element is at the end for SAME_UPPER, and otherwise at the start.
    """
    groups = _check_operands(node, data, weight, bias)
    _expect(node, data[1] == weight[0], f"the input has {data[1]} channels, but weight {weight} "
            f"has {weight[0]}")  # fmt: skip
    _expect(node, data[1] % groups == 0, f"group={groups} does not divide the {data[1]} input "
            "channels")  # fmt: skip
    if bias is not None:
        channels = weight[1] * groups
        _expect(node, bias == (channels,), f"the bias has shape {bias}, not ({channels},)")
    _check_kernel_shape(node, weight[2:])
    rank = len(data) - 2
    size, kernel = data[2:], weight[2:]
    strides = _list(node, "strides", rank, 1) or (1,) * rank
    dilations = _list(node, "dilations", rank, 1) or (1,) * rank
    extra = _list(node, "output_padding", rank, 0) or (0,) * rank
    mode = _auto_pad(node)
    # sizes before padding is subtracted
    full = tuple(
        s * (n - 1) + e + (k - 1) * d + 1
        for s, n, e, k, d in zip(strides, size, extra, kernel, dilations, strict=True)
    )
    _check_images(node, data[0] * _blocked(weight[1] * groups), full)
    wanted = node.attrs.get("output_shape")
    if wanted is not None and len(wanted) == rank + 2:
        _expect(node, tuple(wanted[:2]) == (data[0], weight[1] * groups),
                f"output_shape={tuple(wanted)} does not fit the operands")  # fmt: skip
        wanted = wanted[2:]
    if wanted is not None:
        _expect(node, len(wanted) == rank, f"output_shape={tuple(wanted)} must have {rank} values")
        output = tuple(int(n) for n in wanted)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        output = tuple(n * s for n, s in zip(size, strides, strict=True))
    else:
        pads = _pads(node, rank) if mode == "NOTSET" else (0,) * (2 * rank)
        output = tuple(f - b - e for f, b, e in zip(full, pads[:rank], pads[rank:], strict=True))
        return _checked(node, kernel, strides, dilations, pads, output, extra, groups)
    totals = [f - o for f, o in zip(full, output, strict=True)]
    # an output larger than the data reaches is filled up with zeros at the end
    extra = tuple(e + max(-t, 0) for e, t in zip(extra, totals, strict=True))
    totals = [max(t, 0) for t in totals]
    if mode == "SAME_UPPER":
        begin = tuple(t // 2 for t in totals)
    else:
        begin = tuple(t - t // 2 for t in totals)
    end = tuple(t - b for t, b in zip(totals, begin, strict=True))
    return _checked(node, kernel, strides, dilations, begin + end, output, extra, groups)


def disputed_size(graph: OnnxGraph, node: OnnxNode) -> str:
    """A description of an earlier node whose output size differs in onnxruntime; may be empty.

    Such a node is a ConvTranspose with ``auto_pad=SAME_*`` and a kernel smaller than its stride.
    """
    makers = {name: maker for maker in graph.nodes for name in maker.outputs}
    pending, seen = list(node.inputs), set(node.inputs)
    while pending:
        maker = makers.get(pending.pop())
        if maker is None:
            continue
        mode = str(maker.attrs.get("auto_pad", ""))
        if maker.op == "ConvTranspose" and mode[:4] == "SAME" and "output_shape" not in maker.attrs:
            data, weight = (graph.shape(name) for name in maker.inputs[:2])
            window = conv_transpose_window(maker, data, weight, None)
            added = maker.ints("output_padding", (0,) * len(window.kernel))
            if window.output_padding != added:
                return (
                    f"node {maker.name!r} (ConvTranspose) before it has auto_pad={mode} and a "
                    f"kernel {window.kernel} below its strides {window.strides}, of which ONNX "
                    f"makes the size {window.output} and onnxruntime a smaller one"
                )
        fresh = [name for name in maker.inputs if name not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return ""


def _checked(
    node: OnnxNode, kernel: Ints, strides: Ints, dilations: Ints, pads: Ints, output: Ints,
    output_padding: Ints, groups: int,
) -> Window:  # fmt: skip
    rank = len(kernel)
    _expect(node, all(1 <= n <= MAX_DIMENSION for n in output),
            f"the output would have the spatial size {output}")  # fmt: skip
    return Window(kernel, strides, dilations, pads[:rank], pads[rank:], output, (0,) * rank,
                  output_padding, groups)  # fmt: skip


def _resolve(
    node: OnnxNode, size: Ints, kernel: Ints, *, groups: int = 1, ceil_mode: bool = False
) -> Window:
    rank = len(size)
    strides = _list(node, "strides", rank, 1) or (1,) * rank
    dilations = _list(node, "dilations", rank, 1) or (1,) * rank
    spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    mode = _auto_pad(node)
    pads = _pads(node, rank) if mode == "NOTSET" else (0,) * (2 * rank)
    begin, end = pads[:rank], pads[rank:]
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-n // s) - 1) * s + span - n, 0)
            for n, s, span in zip(size, strides, spans, strict=True)
        ]
        low, high = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
        begin, end = (low, high) if mode == "SAME_UPPER" else (high, low)
    output, extra = [], []
    for i in range(rank):
        room = size[i] + begin[i] + end[i] - spans[i]
        count = room // strides[i] + 1
        if ceil_mode and room >= 0:
            count = -(-room // strides[i]) + 1
            # a window that would start in the end padding is dropped
            if (count - 1) * strides[i] >= size[i] + begin[i]:
                count -= 1
        _expect(node, size[i] >= (node.op != "Conv") and room >= 0 and count >= 1,
                f"the window of {spans[i]} does not fit the padded input of "
                f"{size[i] + begin[i] + end[i]} in spatial dimension {i}")  # fmt: skip
        output.append(count)
        extra.append(max((count - 1) * strides[i] - room, 0))
    return Window(kernel, strides, dilations, begin, end, tuple(output), tuple(extra),
                  groups=groups)  # fmt: skip


def _check_operands(node: OnnxNode, data: Ints, weight: Ints, bias: Ints | None) -> int:
    _expect(node, 3 <= len(data) <= 5, f"the input has rank {len(data)}; 3 to 5 is supported")
    _expect(node, len(weight) == len(data), f"the weight has rank {len(weight)}, the input "
            f"{len(data)}; they must be equal")  # fmt: skip
    if bias is not None:
        _expect(node, len(bias) == 1, f"the bias has rank {len(bias)}; it must be 1")
    sizes = [*weight, *data[1:]]
    inputs = 0 if node.op == "ConvTranspose" else 1
    if node.op in ("Conv", "ConvTranspose") and data[1] == weight[inputs] == 0:
        # a sum over no input channels is zero
        sizes = [weight[1 - inputs], *weight[2:], *data[2:]]
    if node.op == "Conv":
        # as is a sum over padding
        sizes = sizes[: -len(data[2:])]
    _expect(node, min(sizes) >= 1,
            f"input {data} and weight {weight} must not be empty")  # fmt: skip
    groups = int(node.attrs.get("group", 1))
    _expect(node, 1 <= groups <= MAX_DIMENSION, f"group={groups} must be 1 or more")
    return groups


def _check_kernel_shape(node: OnnxNode, kernel: Ints) -> None:
    given = _list(node, "kernel_shape", len(kernel), 1)
    _expect(node, given is None or given == kernel,
            f"kernel_shape={given} contradicts the weight's spatial size {kernel}")  # fmt: skip
    _expect(node, max(kernel) <= MAX_WINDOW_VALUE, f"the kernel {kernel} is too large")


def _blocked(channels: int) -> int:
    return -(-channels // _BLOCK) * _BLOCK


def _padded(data: Ints, window: Window) -> Ints:
    parts = zip(data[2:], window.begin, window.end, window.extra, strict=True)
    return tuple(map(sum, parts))


def _check_images(node: OnnxNode, planes: int, size: Ints) -> None:
    """Refuse images whose elements kernels cannot number."""
    _expect(node, planes * prod(size) <= MAX_DIMENSION,
            f"{planes} planes (all channels of all images, in whole blocks) of the size {size}, "
            f"padding included, have more than {MAX_DIMENSION} elements")  # fmt: skip


def _check_padded_weight(node: OnnxNode, weight: Ints) -> None:
    """Refuse kernels of many taps and few channels, which would be mostly padding."""
    # one input channel, as of depthwise layers, stays one
    inputs = _blocked(weight[1]) if weight[1] > 1 else 1
    size = 4 * _blocked(weight[0]) * inputs * prod(weight[2:])
    _expect(node, size <= max(MAX_PADDED_BYTES, 8 * prod(weight)), f"the weight {weight}, its "
            f"channels padded to blocks of {_BLOCK}, would take {size} bytes")  # fmt: skip


def _list(node: OnnxNode, name: str, count: int, low: int) -> Ints | None:
    if name not in node.attrs:
        return None
    values = node.attrs[name]
    _expect(node, isinstance(values, tuple) and len(values) == count,
            f"attribute {name}={values} must have {count} values")  # fmt: skip
    inside = all(low <= v <= MAX_WINDOW_VALUE for v in values)
    _expect(node, inside, f"each value of {name}={values} must be {low} to {MAX_WINDOW_VALUE}")
    return tuple(int(v) for v in values)


def _pads(node: OnnxNode, rank: int) -> Ints:
    return _list(node, "pads", 2 * rank, 0) or (0,) * (2 * rank)


def _auto_pad(node: OnnxNode) -> str:
    mode = str(node.attrs.get("auto_pad", "NOTSET"))
    _expect(node, mode in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
            f"auto_pad={mode!r} must be NOTSET, SAME_UPPER, SAME_LOWER or VALID")  # fmt: skip
    _expect(node, mode == "NOTSET" or not any(node.attrs.get("pads", ())),
            f"auto_pad={mode} and pads={node.attrs.get('pads')} exclude each other")  # fmt: skip
    return mode


def _expect(node: OnnxNode, condition: bool, problem: str) -> None:
    if not condition:
        raise node.misfit(problem)
